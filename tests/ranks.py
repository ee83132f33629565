"""Runs a test's function in several processes of one group."""

import os
import pickle
import signal
import traceback
from datetime import timedelta

import pytest

from rushlight import distributed as dist

#: A rank that takes longer is taken for a hang.
PATIENCE = 60


class Ranks:
    """Starts one process for each rank. `folder` is empty."""

    def __init__(self, folder):
        self._folder, self._count = folder, 0

    def __call__(self, function, size, *arguments, timeout=20.0, init=True):
        """Calls ``function(rank, *arguments)`` in each of `size` forked processes of a group.

        Returns the results by rank. Of a killed process it is None; an exception fails the test.
        """
        self._count += 1
        pids, place = [], self._folder / f"store{self._count}"
        for rank in range(size):
            pid = os.fork()
            if pid == 0:
                self._run(function, rank, size, arguments, timeout, init, place)
            pids.append(pid)
        results = []
        try:
            for rank, pid in enumerate(pids):
                _, status = os.waitpid(pid, 0)
                if os.WIFSIGNALED(status):
                    assert os.WTERMSIG(status) == signal.SIGKILL, f"rank {rank} ended with {status}"
                    results.append(None)
                    continue
                ok, value = pickle.loads(self._result(rank).read_bytes())
                assert ok, f"rank {rank} of {size}:\n{value}"
                results.append(value)
        finally:
            for pid in pids[len(results) + 1 :]:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        return results

    def _result(self, rank):
        return self._folder / f"result{self._count}-{rank}"

    def _run(self, function, rank, size, arguments, timeout, init, place):
        signal.alarm(PATIENCE)
        try:
            if init:
                seconds = timedelta(seconds=timeout)
                dist.init_process_group("gloo", f"file://{place}", seconds, rank=rank, world_size=size)
            result = (True, function(rank, *arguments))
        except BaseException:
            result = (False, traceback.format_exc())
        self._result(rank).write_bytes(pickle.dumps(result))
        os._exit(0)


@pytest.fixture
def ranks(tmp_path):
    return Ranks(tmp_path)

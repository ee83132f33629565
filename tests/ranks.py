"""Runs a test's function in several processes of one group."""

import os
import pickle
import signal
import traceback
from datetime import timedelta

import pytest

from rushlight import distributed as dist
from rushlight.distributed import _companion, _groups

#: A rank that takes longer is taken for a hang.
PATIENCE = 60


class Ranks:
    """Starts one process for each rank. `folder` is empty.

    Ranks take turns on as many machines, which are only names, or are on those that `places` lists.
    """

    def __init__(self, folder, machines=1):
        self._folder, self._count, self.machines, self.places = folder, 0, machines, None

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
        results, failures = [], []
        for rank, pid in enumerate(pids):
            _, status = os.waitpid(pid, 0)
            if os.WIFSIGNALED(status):
                if os.WTERMSIG(status) != signal.SIGKILL:
                    failures.append(f"rank {rank} of {size} ended with {status}")
                results.append(None)
                continue
            ok, value = pickle.loads(self._result(rank).read_bytes())
            if not ok:
                failures.append(f"rank {rank} of {size}:\n{value}")
            results.append(value)
        # The failure of one rank may be the cause of another one's.
        assert not failures, "\n".join(failures)
        return results

    def _result(self, rank):
        return self._folder / f"result{self._count}-{rank}"

    def _run(self, function, rank, size, arguments, timeout, init, place):
        signal.alarm(PATIENCE)
        os.environ["RUSHLIGHT_MACHINE"] = str(self.places[rank] if self.places else rank % self.machines)
        try:
            if init:
                seconds = timedelta(seconds=20)
                dist.init_process_group("gloo", f"file://{place}", seconds, rank=rank, world_size=size)
                _groups.set_timeout(timedelta(seconds=timeout))
            result = (True, function(rank, *arguments))
        except BaseException:
            result = (False, traceback.format_exc())
        self._result(rank).write_bytes(pickle.dumps(result))
        os._exit(0)


@pytest.fixture(params=[1, 2], ids=["one_machine", "two_machines"])
def ranks(request, tmp_path):
    if request.param > 1 and _companion.library() is None:
        pytest.skip("groups of several machines need the package mpich")
    return Ranks(tmp_path, request.param)

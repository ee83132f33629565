"""Timers of elastic workers: blocks that end in time, blocks that do not, and pipes that get anything else."""

import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from rushlight.distributed.elastic import timer
from rushlight.distributed.elastic.timer.api import Timers
from rushlight.distributed.elastic.timer.local_timer import MultiprocessingRequestQueue

_FORK = multiprocessing.get_context("fork")


def _work(client, after, seconds):
    with timer.expires(after, client=client):
        time.sleep(seconds)


def _ends(make_client, after, seconds):
    worker = _FORK.Process(target=_work, args=(make_client(), after, seconds))
    worker.start()
    worker.join(60)
    return worker.exitcode


def test_a_queue_ends_who_is_late():
    requests = _FORK.Queue()
    server = timer.LocalTimerServer(requests, max_interval=0.05)
    server.start()
    assert _ends(lambda: timer.LocalTimerClient(requests), 60, 0) == 0
    assert _ends(lambda: timer.LocalTimerClient(requests), 0.1, 60) == -signal.SIGKILL
    server.stop()


def test_requests_of_a_queue():
    requests = multiprocessing.Queue()
    found = MultiprocessingRequestQueue(requests)
    assert found.get(1, 0.01) == []
    for number in range(3):
        requests.put(number)
    assert found.get(2, 10) == [0, 1] and found.get(5, 0.2) == [2] and found.size() == 0


class Server(timer.TimerServer):
    """Its workers are words, of which one can never be ended and one raises an error."""

    def __init__(self, requests):
        super().__init__(MultiprocessingRequestQueue(requests), 0.01)
        self.requests, self.cleared = [], []

    def register_timers(self, timer_requests):
        self.requests += timer_requests

    def clear_timers(self, worker_ids):
        self.cleared.append(worker_ids)
        self.requests = [request for request in self.requests if request.worker_id not in worker_ids]

    def get_expired_timers(self, deadline):
        return {request.worker_id: [request] for request in self.requests if request.expiration_time <= deadline}

    def _reap_worker(self, worker_id):
        if worker_id == "raises":
            raise ValueError
        return worker_id != "stays"


def test_workers_that_do_not_end_are_tried_again():
    requests = multiprocessing.Queue()
    server = Server(requests)
    for worker in ("raises", "stays", "ends"):
        requests.put(timer.TimerRequest(worker, "scope", 0))
    server.start()
    deadline = time.monotonic() + 30
    while sum(map(len, server.cleared)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    server.stop()
    assert set().union(*server.cleared) == {"raises", "ends"}
    assert [request.worker_id for request in server.requests] == ["stays"]


def test_a_pipe_ends_who_is_late(tmp_path):
    """The signal ends the server's process too, which is why it is one of its own."""
    program = f"""
import multiprocessing, os, time
from rushlight.distributed.elastic import timer
server = timer.FileTimerServer({str(tmp_path / "pipe")!r}, "job", log_event=lambda *event: os.write(1, (event[0] + "\\n").encode()))
server.start()
def work(after, seconds):
    with timer.expires(after, "scope", timer.FileTimerClient({str(tmp_path / "pipe")!r}, {int(signal.SIGTERM)})):
        time.sleep(seconds)
for after, seconds in ((60, 0), (0.1, 60)):
    worker = multiprocessing.get_context("fork").Process(target=work, args=(after, seconds))
    worker.start()
    worker.join()
    os.write(1, f"{{worker.exitcode}}\\n".encode())
    time.sleep(5 * (after < 1))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGTERM, done.stderr
    lines = done.stdout.split("\n")
    # The worker may end before the server says that it ended it.
    assert lines[:3] == ["watchdog started", "0", "timer expired"] and "kill worker process" in lines[3:5]


def test_a_timer_without_a_signal_only_tells(tmp_path):
    events = []
    path, begun = str(tmp_path / "pipe"), int(time.time())
    server = timer.FileTimerServer(path, "job", log_event=lambda *event: events.append(event))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    server.start()
    timer.FileTimerClient(path, 0).acquire("scope", time.time() + 0.05)
    deadline = time.monotonic() + 30
    while len(events) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert begun <= server.get_last_progress_time() <= time.time()
    server.stop()
    assert [what for what, _ in events] == ["watchdog started", "timer expired", "watchdog stopped"]
    assert events[1][1].scope_id == "scope" and not os.path.exists(path)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe",
        b"[" * 3000,
        b"{}",
        b"[1, 2]",
        json.dumps({"pid": -1, "scope_id": "all", "expiration_time": 0, "signal": 9}).encode(),
        json.dumps({"pid": True, "scope_id": "init", "expiration_time": 0, "signal": 9}).encode(),
        json.dumps({"pid": "1", "scope_id": "text", "expiration_time": 0, "signal": 9}).encode(),
        json.dumps({"pid": 0, "scope_id": "group", "expiration_time": 0, "signal": 9}).encode(),
        json.dumps({"pid": os.getpid(), "scope_id": "never", "expiration_time": float("nan"), "signal": 9}).encode(),
        json.dumps({"pid": os.getpid(), "scope_id": "none", "expiration_time": 0, "signal": 900}).encode(),
        json.dumps({"pid": os.getpid(), "scope_id": "none", "expiration_time": 1e400, "signal": 9}).encode(),
        b"x" * 100_000,
    ],
    ids=range(13),  # the lines have this process's number
)
def test_lines_that_are_no_requests(tmp_path, line):
    """None of them ends a process, and the next request is understood."""
    events = []
    path = str(tmp_path / "pipe")
    server = timer.FileTimerServer(path, "job", log_event=lambda what, request: events.append(what))
    server.start()
    with open(path, "wb") as pipe:
        pipe.write(line + b"\n")
    timer.FileTimerClient(path, 0).acquire("scope", 0)
    server.run_once()
    assert events == ["watchdog started", "timer expired"]


def test_timers_of_processes_that_are_gone(tmp_path):
    ended = _FORK.Process(target=int)
    ended.start()
    ended.join()
    assert not timer.FileTimerServer.is_process_running(ended.pid)
    assert timer.FileTimerServer.is_process_running(os.getpid())
    server = timer.FileTimerServer(str(tmp_path / "pipe"), "job")
    server.register_timers([timer.FileTimerRequest(pid, "scope", time.time() + 60) for pid in (ended.pid, os.getpid())])
    server.clear_timers(set())
    assert list(server.get_expired_timers(time.time() + 90)) == [os.getpid()]
    server.stop()


def test_the_order_of_timers():
    timers = Timers()
    assert timers.next_end() is None
    for scope, end in (("late", 3), ("early", 1), ("released", 2)):
        timers.register(7, timer.TimerRequest(7, scope, end))
    timers.register(7, timer.TimerRequest(7, "released", -1))
    assert timers.next_end() == 1
    assert [request.scope_id for request in timers.expired(3)[7]] == ["early", "late"] and timers.expired(0) == {}


def test_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(timer.api, "_timer_client", None)
    with pytest.raises(RuntimeError, match="Configure timer client before using countdown timers"), timer.expires(1):
        pass
    with pytest.raises(BrokenPipeError, match="FileTimerServer is not available"):
        timer.FileTimerClient(str(tmp_path / "none")).acquire("scope", 0)
    server = timer.FileTimerServer(str(tmp_path / "pipe"), "job")
    with pytest.raises(RuntimeError, match="FileTimerRequest larger than 4096 bytes is not supported"):
        timer.FileTimerClient(str(tmp_path / "pipe")).acquire("x" * 5000, 0)
    server.stop()


def test_the_block_is_named_after_its_line():
    requests = multiprocessing.Queue()
    timer.configure(timer.LocalTimerClient(requests))
    with timer.expires(60):
        assert requests.get().scope_id == f"{__file__}#{sys._getframe().f_lineno - 1}"
    assert requests.get().expiration_time == -1


def test_torchrun_ends_a_worker_that_is_late(tmp_path):
    program = tmp_path / "train.py"
    program.write_text("""
import os, time
from rushlight.distributed.elastic import timer
timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
with timer.expires(after=60):
    print("in time", flush=True)
if os.environ["RANK"] == "1":
    with timer.expires(after=0.1):
        time.sleep(60)
""")
    pipe = tmp_path / "pipe"
    command = [
        sys.executable,
        "-m",
        "rushlight.distributed.run",
        "--nproc-per-node",
        "2",
        "--event-log-handler",
        "console",
        program,
    ]
    env = os.environ | {"TORCHELASTIC_ENABLE_FILE_TIMER": "1", "TORCHELASTIC_TIMER_FILE": str(pipe)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == -signal.SIGKILL and done.stdout.count("in time") == 2
    assert '"name": "kill worker process"' in done.stderr and not pipe.exists()

    program.write_text("import os; print(os.path.exists(os.environ['TORCHELASTIC_TIMER_FILE']))")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert (done.returncode, done.stdout.split()) == (0, ["True", "True"]), done.stderr
    assert not pipe.exists()

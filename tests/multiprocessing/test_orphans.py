"""A process that waits for a queue ends when its parent is killed, although it holds both ends of the queue itself."""

import contextlib
import os
import select
import signal
import subprocess
import sys

import pytest

SCRIPT = """
import os, sys, time
import rushlight as torch
from rushlight import multiprocessing as mp

def work(queue, done):
    os.write(1, b"%d\\n" % os.getpid())
    while True:
        {step}

if __name__ == "__main__":
    context = mp.get_context({method!r})
    queue, done = context.{queue}, context.Event()
    processes = [context.Process(target=work, args=(queue, done)) for _ in range({count})]
    for process in processes:
        process.start()
    done.wait()
"""

STEPS = {
    "put": ("SimpleQueue()", "queue.put(torch.ones(1000))"),
    "put bounded": ("Queue(2)", "queue.put(torch.ones(1000))"),
    "get": ("SimpleQueue()", "queue.get()"),
    "get bounded": ("Queue(2)", "queue.get()"),
    "end with a full queue": ("Queue()", "[queue.put(bytes(1 << 14)) for _ in range(1000)]; break"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("method, count", [("fork", 3), ("spawn", 1)])
def test_waiting_ends_with_the_parent(step, method, count, tmp_path):
    queue, text = STEPS[step]
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(step=text, method=method, queue=queue, count=count))
    children = []
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        try:
            for _ in range(count):
                children.append(os.pidfd_open(int(parent.stdout.readline())))
            # Time to fill the queue.
            assert not select.select(children, [], [], 0.5)[0]
            parent.kill()
            for child in children:
                assert select.select([child], [], [], 30)[0], "a process outlived its parent"
        finally:
            parent.kill()
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(child, signal.SIGKILL)
                os.close(child)


_MANAGER = """
import sys
from rushlight import multiprocessing

if __name__ == "__main__":
    manager = multiprocessing.get_context(sys.argv[1]).Manager()
    table = manager.dict(a=1)
    print(manager._process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_manager_ends_with_its_parent(method, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(_MANAGER)
    command = [sys.executable, str(script), method]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        server = os.pidfd_open(int(parent.stdout.readline()))
        try:
            assert not select.select([server], [], [], 0)[0]
            parent.kill()
            assert select.select([server], [], [], 30)[0], "the server outlived its parent"
        finally:
            os.close(server)


_SERVERS = """
import sys
import rushlight as torch
from rushlight import multiprocessing

def put(table):
    table["own"] = torch.ones(3)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    table = context.Manager().dict()
    process = context.Process(target=put, args=(table,))
    process.start()
    process.join()
    table["parent's"] = torch.ones(3)
    print(process.exitcode, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_servers_have_no_files(method, tmp_path):
    """No manager, fork server or descriptor server remains: a kill could leave them behind."""
    script, folder = tmp_path / "script.py", tmp_path / "temporary"
    script.write_text(_SERVERS)
    folder.mkdir()
    command, environment = [sys.executable, str(script), method], {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as parent:
        try:
            assert parent.stdout.readline() == "0\n"
            assert not list(folder.iterdir())
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
    assert not list(folder.iterdir())


_FORK_SERVER = """
import os, signal, sys, time
from multiprocessing import forkserver
from rushlight import multiprocessing

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def run(context):
    process = context.Process(target=int)
    process.start()
    process.join()
    assert process.exitcode == 0
    process.close()

if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    run(context)
    before = descriptors()
    for _ in range(2):
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
        os.waitid(os.P_PID, forkserver._forkserver._forkserver_pid, os.WEXITED | os.WNOWAIT)
        run(context)
        run(context)
    assert descriptors() == before, (descriptors(), before)
    print("well")
"""


def test_a_fork_server_that_died_is_started_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(_FORK_SERVER)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.stdout == "well\n", done.stderr

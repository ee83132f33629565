"""torchrun with a number of machines that changes: machines that come late, leave, are lost, and come back. All are on one computer."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rushlight.distributed.elastic.multiprocessing import SignalException, _signals

PROGRAM = """
import os, sys, time
from pathlib import Path
import rushlight as torch
from rushlight import distributed as dist

folder = Path(sys.argv[1])
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
(folder / f"{attempt}-{rank}").write_text(f"{size} {os.environ['GROUP_WORLD_SIZE']} {os.getpid()}")
ended = torch.zeros(1)
while not ended.item():
    ended = torch.tensor([float((folder / "end").exists())])
    dist.all_reduce(ended, dist.ReduceOp.MAX)
    time.sleep(0.02)
dist.destroy_process_group()
"""
PATIENCE = 40.0


class Job:
    """Several torchruns of one job."""

    def __init__(self, folder):
        self.folder, self.nodes = folder, []
        (folder / "program.py").write_text(PROGRAM)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.endpoint = f"127.0.0.1:{free.getsockname()[1]}"

    def start(self, *options, nnodes="1:3"):
        """Starts a node. Returns its process."""
        waits = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3,join_timeout=30"
        command = [
            sys.executable, "-m", "rushlight.distributed.run", "--nnodes", nnodes, "--rdzv-backend", "c10d",
            "--rdzv-endpoint", self.endpoint, "--rdzv-conf", waits, "--max-restarts", "3", *options,
            str(self.folder / "program.py"), str(self.folder),
        ]  # fmt: skip
        node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.nodes.append(node)
        if len(self.nodes) == 1:
            self._wait_for_store()
        return node

    def _wait_for_store(self):
        """The first node serves the store, and no other one before it."""
        host, _, port = self.endpoint.partition(":")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
                return
            time.sleep(0.05)

    def until(self, size, after=-1):
        """Waits until all ranks of a round with this size work. Returns the number of the round."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for attempt in range(after + 1, after + 10):
                found = [self.folder / f"{attempt}-{rank}" for rank in range(size)]
                if all(one.exists() and one.read_text().split()[:1] == [str(size)] for one in found):
                    return attempt
            time.sleep(0.05)
        raise AssertionError([node.communicate() for node in self.nodes if node.poll() is not None])

    def pids(self, attempt):
        return [int(path.read_text().split()[2]) for path in self.folder.glob(f"{attempt}-*")]

    def end(self):
        (self.folder / "end").touch()

    def clear(self):
        for node in self.nodes:
            if node.poll() is None:
                node.kill()
            node.communicate()


@pytest.fixture
def job(tmp_path):
    made = Job(tmp_path)
    yield made
    made.clear()
    deadline = time.monotonic() + 10
    left = [pid for path in tmp_path.glob("?-*") for pid in [int(path.read_text().split()[2])]]
    while any(_lives(pid) for pid in left) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in left if _lives(pid)]


def _lives(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


def _results(*nodes):
    return [(node.wait(PATIENCE), node.communicate()[1]) for node in nodes]


def test_a_node_comes_late(job):
    """All begin again, and none of the restarts is used up."""
    first = job.start("--max-restarts=0")
    begun = job.until(1)
    second = job.start("--max-restarts=0", "--nproc-per-node=2")
    begun = job.until(3, begun)
    third = job.start("--max-restarts=0")
    job.until(4, begun)
    job.end()
    results = _results(first, second, third)
    assert [code for code, _ in results] == [0, 0, 0], results
    assert results[0][1].count("another machine came; all begin again") == 2


def test_more_nodes_than_the_most_wait(job):
    """One that comes when there are enough takes the place of one that leaves."""
    first, second = job.start(nnodes="2"), job.start(nnodes="2")
    begun = job.until(2)
    third = job.start(nnodes="2")
    time.sleep(1.0)
    assert third.poll() is None
    second.send_signal(signal.SIGTERM)
    job.until(2, begun)
    job.end()
    results = _results(first, second, third)
    assert [code for code, _ in results] == [0, 128 + signal.SIGTERM, 0], results


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda one: one.name)
def test_a_node_leaves(job, number):
    """The processes of a node end with their launcher, even if it is killed. The others go on without it."""
    first, second = job.start(), job.start("--nproc-per-node=2")
    begun = job.until(3)
    second.send_signal(number)
    after = job.until(1, begun)
    assert not [pid for pid in job.pids(begun) if _lives(pid)]
    # It comes back.
    again = job.start()
    job.until(2, after)
    job.end()
    results = _results(first, again)
    assert [code for code, _ in results] == [0, 0], results


def test_a_process_of_a_node_dies(job):
    first, second = job.start(), job.start()
    begun = job.until(2)
    os.kill(job.pids(begun)[1], signal.SIGKILL)
    job.until(2, begun)
    job.end()
    results = _results(first, second)
    assert [code for code, _ in results] == [0, 0], results
    assert all("failed with signal SIGKILL; restart 1 of 3" in output for _, output in results)


def test_the_node_of_the_store_leaves(job):
    """The others cannot go on, and say so."""
    first = job.start("--node-rank=0", nnodes="2")
    second = job.start("--node-rank=1", nnodes="2")
    job.until(2)
    first.kill()
    ((code, output),) = _results(second)
    assert code == 1 and output.splitlines()[-1 if "torchrun: " in output.splitlines()[-1] else -2].startswith(
        "torchrun: "
    ), output
    assert "Traceback" not in output.split("torchrun: ")[-1]


def _run(folder, program, *options, **variables):
    (folder / "own.py").write_text(program)
    command = [sys.executable, "-m", "rushlight.distributed.run", *options, str(folder / "own.py")]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables}
    )


def test_processes_get_the_signal(tmp_path):
    """A program can save its state when its machine is taken away."""
    program = (
        "import os, signal, sys, time\n"
        "def save(number, frame):\n"
        "    os.write(1, f'saved {number}\\n'.encode())\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "os.write(1, b'begun\\n')\n"
        # A signal that comes just before a sleep does not end it.
        "for _ in range(1200): time.sleep(0.05)\n"
    )
    node = _run(tmp_path, program, "--standalone", "--nproc-per-node=2")
    assert [node.stdout.readline() for _ in range(2)] == ["begun\n"] * 2
    node.send_signal(signal.SIGTERM)
    output, _ = node.communicate(timeout=PATIENCE)
    assert output == "saved 15\n" * 2 and node.returncode == 128 + signal.SIGTERM


def test_a_signal_while_processes_are_started(tmp_path):
    """It is passed on to those that exist, and the launcher waits for them."""
    program = tmp_path / "program.sh"
    program.write_text(
        f"trap 'sleep 0.5; echo > {tmp_path}/ended-$RANK; exit' TERM\n"
        f"echo > {tmp_path}/begun-$RANK\n"
        "kill -TERM $PPID\n"
        "for n in 1 2 3 4 5 6 7 8 9; do sleep 1; done\n"
    )
    command = [sys.executable, "-m", "rushlight.distributed.run", "--standalone", "--nproc-per-node=8", "--no-python"]
    node = subprocess.run([*command, "sh", str(program)], timeout=PATIENCE)
    assert node.returncode == 128 + signal.SIGTERM
    begun, ended = ({path.name[6:] for path in tmp_path.glob(f"{name}-*")} for name in ("begun", "ended"))
    assert begun and begun == ended


def test_a_second_signal_is_not_raised():
    """It may come when the launcher has begun to end processes because of the first one."""
    signals = _signals.Signals()
    with pytest.raises(SignalException):
        signals(signal.SIGTERM, None)
    signals(signal.SIGHUP, None)
    # What a callback of Python has swallowed is raised again.
    with pytest.raises(SignalException) as found, signals.held():
        pass
    assert found.value.sigval == signal.SIGTERM
    signals.end()
    with signals.held():
        signals(signal.SIGTERM, None)


def test_processes_that_do_not_end_are_killed(tmp_path):
    program = "import os, signal, time\nsignal.signal(15, signal.SIG_IGN)\nos.write(1, b'begun\\n')\ntime.sleep(60)\n"
    node = _run(tmp_path, program, "--standalone", "--shutdown-timeout=1")
    assert node.stdout.readline() == "begun\n"
    node.send_signal(signal.SIGTERM)
    assert node.wait(20) == 128 + signal.SIGTERM
    node.communicate()


def test_options_from_the_environment(tmp_path):
    program = "import os\nos.write(1, (' '.join(os.environ[name] for name in ('LOCAL_RANK', 'CUDA_VISIBLE_DEVICES')) + '\\n').encode())\n"
    given = {
        "PET_NPROC_PER_NODE": "2",
        "PET_STANDALONE": "1",
        "PET_VIRTUAL_LOCAL_RANK": "1",
        "CUDA_VISIBLE_DEVICES": "4,7",
    }
    node = _run(tmp_path, program, **given)
    output, errors = node.communicate(timeout=PATIENCE)
    assert sorted(output.splitlines()) == ["0 4", "0 7"] and node.returncode == 0, errors


def test_refused_options(tmp_path):
    for options, sentence in (
        (["--max-restarts=-1"], "max_restarts must be >= 0"),
        (["--rdzv-backend", "zz"], "The rendezvous backend 'zz' is not registered. Did you forget to call `register`?"),
        (["--rdzv-endpoint", "here:x"], "the rendezvous endpoint 'here:x' must be an integer between 0 and 65536."),
        (
            ["--rdzv-conf", "join_timeout=soon"],
            "The rendezvous configuration option join_timeout is a number of seconds",
        ),
        (["--rdzv-conf", "abc"], "The rendezvous configuration option 'abc' must have a value specified."),
        (["--rdzv-conf", "a=b,,c=d"], "The rendezvous configuration string must be in format <key1>=<value1>,"),
        (["--signals-to-handle", "SIGNOW"], "SIGNOW is no signal"),
        (["--nproc-per-node", "gpu"], "Cuda is not available."),
        (["--nproc-per-node", "1000000000"], "--nproc-per-node 1000000000: this machine runs at most "),
        (["--monitor-interval", "-1"], "--monitor-interval -1.0: write a positive number of seconds"),
        (["--monitor-interval", "nan"], "--monitor-interval nan: write a positive number of seconds"),
        (["--no-python", "nope"], "No such file or directory: 'nope'"),
        (["--log-dir", "/proc"], "No such file or directory: '/proc/"),
    ):
        node = _run(tmp_path, "", *options, CUDA_VISIBLE_DEVICES="")
        _, errors = node.communicate(timeout=PATIENCE)
        assert node.returncode == 1 and errors.startswith("torchrun: error: ") and sentence in errors

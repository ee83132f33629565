"""How groups begin and end: rendezvous, subgroups, names, and what goes wrong on the way."""

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import _companion

SHORT = timedelta(seconds=0.4)
needs_mpi = pytest.mark.skipif(_companion.library() is None, reason="needs the package mpich")


def _free_port():
    with socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        return end.getsockname()[1]


def _by(rank, size, method, port):
    options = {"rank": rank, "world_size": size, "timeout": timedelta(seconds=20)}
    if method == "env":
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size))
        options = {}
    elif method == "tcp":
        options["init_method"] = f"tcp://127.0.0.1:{port}"
    else:
        options["init_method"] = None
        options["store"] = dist.TCPStore("127.0.0.1", port, size, rank == 0)
    # A group, its end, and another one in the same processes.
    for _ in range(3):
        dist.init_process_group("gloo", **options)
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor)
        assert tensor.item() == sum(range(size))
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (rank, size, "gloo")
        dist.destroy_process_group()
        assert not dist.is_initialized()


@pytest.mark.parametrize("method", ["env", "tcp", "store"])
def test_groups_begin_and_end(ranks, method):
    ranks(_by, 3, 3, method, _free_port(), init=False)


def test_a_rank_waits_for_the_store_of_its_group():
    """The store of the group before, at the same port, may still be there when a rank comes back."""
    url = f"tcp://127.0.0.1:{_free_port()}?world_size=2&rank="
    with ThreadPoolExecutor() as threads:
        first = threads.submit(lambda: next(dist.rendezvous(url + "1"))[0])
        before = next(dist.rendezvous(url + "0"))[0]
        first.result()
        late = threads.submit(lambda: next(dist.rendezvous(url + "1"))[0])
        time.sleep(0.3)
        assert not late.done()
        del before
        store = next(dist.rendezvous(url + "0"))[0]
        store.set("key", "value")
        assert late.result().get("key") == b"value"


def test_a_new_rank_waits_for_the_store_of_its_group():
    """To the store of a smaller group before, a rank of the larger one is nobody who came twice."""
    port = _free_port()
    url = f"tcp://127.0.0.1:{port}?rank="
    with ThreadPoolExecutor() as threads:
        first = threads.submit(lambda: next(dist.rendezvous(url + "1&world_size=2"))[0])
        before = next(dist.rendezvous(url + "0&world_size=2"))[0]
        first.result()
        late = threads.submit(lambda: next(dist.rendezvous(url + "2&world_size=3"))[0])
        time.sleep(0.3)
        assert not late.done()
        del before
        del first
        others = threads.submit(lambda: next(dist.rendezvous(url + "1&world_size=3"))[0])
        store = next(dist.rendezvous(url + "0&world_size=3"))[0]
        others.result()
        store.set("key", "value")
        assert late.result().get("key") == b"value"


def test_the_store_of_a_group_that_has_not_begun_is_left():
    """Another group of the same size follows at its port, while the error of the first one lives."""
    url = f"tcp://127.0.0.1:{_free_port()}?world_size=2&rank="
    with pytest.raises(dist.DistStoreError, match="1/2 clients joined") as kept:
        next(dist.rendezvous(url + "0", timeout=SHORT))
    with ThreadPoolExecutor() as threads:
        other = threads.submit(lambda: next(dist.rendezvous(url + "1"))[0])
        store = next(dist.rendezvous(url + "0"))[0]
        store.set("key", "value")
        assert other.result().get("key") == b"value"
    assert kept.value is not None


def test_a_rank_that_comes_too_late_waits_for_the_next_group():
    """Rank 1 has come twice to a group of three, so that rank 0 has waited for rank 2 in vain."""
    port = _free_port()
    url = f"tcp://127.0.0.1:{port}?world_size=3&rank="
    with ThreadPoolExecutor() as threads:
        for _ in range(2):
            threads.submit(lambda: dist.TCPStore("127.0.0.1", port))
        with pytest.raises(RuntimeError, match="ranks did not come: 1, 2$") as kept:
            dist.init_process_group("gloo", url + "0", timeout=timedelta(seconds=1))
        late = threads.submit(lambda: next(dist.rendezvous(url + "2"))[0])
        time.sleep(0.3)
        assert not late.done()
        # The error has kept the store until here.
        del kept
        gc.collect()
        first = threads.submit(lambda: next(dist.rendezvous(url + "1"))[0])
        store = next(dist.rendezvous(url + "0"))[0]
        first.result()
        store.set("key", "value")
        assert late.result().get("key") == b"value"


def _end_at_once(rank, url):
    if rank == 1:
        ask = dist.TCPStore._ask

        def slow(store, name, *fields):
            if name == "wait":
                time.sleep(0.5)
            return ask(store, name, *fields)

        dist.TCPStore._ask = slow
    dist.init_process_group("gloo", f"{url}&rank={rank}", timeout=timedelta(seconds=20))
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return dist.is_initialized()


def test_rank_0_may_end_before_the_others_begin(ranks):
    """It serves the store through which they learn that all have come."""
    ranks.machines = 1
    assert ranks(_end_at_once, 2, f"tcp://127.0.0.1:{_free_port()}?world_size=2", init=False) == [None, True]


def _come_back(rank, method, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    names = ("RANK", "WORLD_SIZE") if method == "env" else ("PMI_RANK", "PMI_SIZE")
    os.environ.update(zip(names, (str(rank), "2")))
    for _ in range(3):
        dist.init_process_group("mpi", timeout=timedelta(seconds=20))
        kept = dist.group.WORLD.store() if rank == 0 else None
        total = torch.tensor([rank + 1.0])
        dist.all_reduce(total)
        assert total.item() == 3
        dist.destroy_process_group()
        if rank == 0:
            time.sleep(0.3)
        del kept


@pytest.mark.parametrize("method", ["env", "launcher"])
def test_rank_0_ends_its_store_late(ranks, method):
    """Ranks that begin the next group find the store of the one before for a while."""
    ranks(_come_back, 2, method, _free_port(), init=False)


def test_a_rank_taken_by_another_process():
    port = _free_port()
    server = dist.TCPStore("127.0.0.1", port, is_master=True)
    url = f"tcp://127.0.0.1:{port}?world_size=3&rank=1"
    assert next(dist.rendezvous(url))[1:] == (1, 3)
    with pytest.raises(dist.DistStoreError, match=f"Another process is rank 1 of the store at 127.0.0.1:{port}."):
        next(dist.rendezvous(url, timeout=SHORT))
    assert int(server.get("rank/1")) > 1


def test_a_file_is_removed_with_its_last_user(ranks, tmp_path):
    def use(rank):
        dist.barrier()
        dist.destroy_process_group()

    ranks(use, 2)
    assert not (tmp_path / "store1").exists()


def _subgroups(rank, size):
    odd = dist.new_group([1, 3], group_desc="odd")
    pairs, all_pairs = dist.new_subgroups(2)
    assert len(all_pairs) == 2 and dist.get_process_group_ranks(pairs) == [rank // 2 * 2, rank // 2 * 2 + 1]
    if rank % 2:
        assert dist.get_rank(odd) == rank // 2 and dist.get_world_size(odd) == 2
        assert dist.get_global_rank(odd, 1) == 3 and dist.get_group_rank(odd, 3) == 1
        tensor = torch.tensor([rank])
        dist.broadcast(tensor, src=3, group=odd)
        assert tensor.item() == 3
        received = torch.zeros(1, dtype=torch.int64)
        if rank == 1:
            dist.send(tensor, dst=3, group=odd)
        else:
            assert dist.recv(received, group=odd) == 1
    else:
        assert odd is dist.GroupMember.NON_GROUP_MEMBER
        assert dist.get_rank(odd) == -1
        with pytest.warns(UserWarning, match="which does not belong to the given group"):
            dist.all_reduce(torch.ones(1), group=odd)
    tensor = torch.tensor([rank])
    dist.all_reduce(tensor, group=pairs)
    assert tensor.item() == 2 * (rank // 2 * 2) + 1
    if rank in (0, 3):
        local = dist.new_group([0, 3], use_local_synchronization=True)
        dist.barrier(local)
    turned = dist.new_group([3, 0, 2], sort_ranks=False)
    if rank != 1:
        assert dist.get_rank(turned) == [3, 0, 2].index(rank)
    dist.destroy_process_group(pairs)
    with pytest.raises(ValueError, match="Invalid process group specified"):
        dist.barrier(pairs)
    with pytest.raises(ValueError, match="within the world_size set by init_process_group"):
        dist.new_group([7])
    with pytest.raises(ValueError, match=r"^ranks list must not contain duplicate entries, got \[0, 0\]$"):
        dist.new_group([0, 0])
    with pytest.raises(ValueError, match="world size should be less or equal"):
        dist.new_group(range(9))
    dist.barrier()


def test_subgroups(ranks):
    ranks(_subgroups, 4, 4)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"init_method": "env://"}, ValueError, "environment variable RANK expected, but not set"),
        ({"init_method": "tcp://127.0.0.1:1"}, ValueError, "rank parameter missing"),
        ({"init_method": "tcp://127.0.0.1", "rank": 0, "world_size": 1}, ValueError, "port number missing"),
        ({"init_method": "tcp://[ff15::1]:23456", "rank": 0, "world_size": 1}, ValueError, "multicast"),
        ({"init_method": "file://", "rank": 0, "world_size": 1}, ValueError, "path missing"),
        ({"init_method": "https://x", "rank": 0, "world_size": 1}, RuntimeError, "No rendezvous handler for https://"),
        ({"backend": "ucc"}, RuntimeError, "Distributed package doesn't have UCC built in"),
        ({"backend": "cpu"}, AssertionError, "Unknown backend type cpu\n"),
        ({"backend": "Foo"}, AssertionError, "Unknown backend type foo\n"),
        ({"backend": "cpu:foo"}, AssertionError, "Unknown c10d backend type FOO\n"),
        ({"store": 3, "rank": 0, "world_size": 1}, TypeError, "__init__(): incompatible constructor arguments."),
        ({"backend": "cpu:gloo,cpu:mpi"}, ValueError, "Duplicate device type cpu in backend string"),
        ({"timeout": 3}, TypeError, "Expected timeout argument to be of type datetime.timedelta"),
        ({"store": dist.HashStore()}, AssertionError, "world_size must be positive if using store"),
        ({"store": dist.HashStore(), "rank": 2, "world_size": 2}, ValueError, "rank 2 is not in a group of 2"),
    ],
)
def test_refusals(options, error, sentence, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(error) as found:
        dist.init_process_group(**options)
    assert sentence in str(found.value)
    assert not dist.is_initialized()


def test_without_a_group():
    with pytest.raises(AssertionError, match="Process group cannot be None"):
        dist.destroy_process_group()
    for call in (dist.get_rank, dist.get_world_size, dist.barrier, lambda: dist.all_reduce(torch.ones(1))):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()


def test_ranks_that_do_not_come_are_counted():
    store = dist.HashStore()
    store.set_timeout(SHORT)
    with pytest.raises(dist.DistStoreError, match=r"wait timeout after \d+ms.*\n  1 of 2 ranks did not come: 1$"):
        dist.init_process_group("gloo", store=store, rank=0, world_size=2, timeout=SHORT)
    assert not dist.is_initialized()


def test_machines_without_mpi_are_named():
    store = dist.HashStore()
    store.set("default_pg/0/1/machine/1", "another machine")
    store.set("default_pg/0/1/library/1", "")
    with pytest.raises(dist.DistBackendError, match="on 2 machines, and rank . finds no MPI\n.*rushlight.distributed"):
        dist.init_process_group("gloo", store=store, rank=0, world_size=2, timeout=SHORT)


def test_a_forked_child_has_no_part_in_the_group(ranks):
    def fork(rank):
        pid = os.fork()
        if pid == 0:
            try:
                dist.all_reduce(torch.ones(1))
            except RuntimeError as error:
                os._exit(7 if "belongs to the process that forked this one" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        dist.barrier()

    ranks(fork, 2)


PROGRAM = """
import os, sys
import rushlight as torch
from rushlight import distributed as dist
dist.init_process_group("gloo")
tensor = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(tensor)
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
# In one piece, because the ranks write to one pipe.
os.write(1, f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}: {tensor.item()} attempt {attempt}\\n".encode())
if sys.argv[1:] == ["fail"] or sys.argv[1:] == ["once"] and attempt == "0":
    if dist.get_rank() == 1:
        os.kill(os.getpid(), 9)
    dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def torchrun(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def run(*options, arguments=(), machine=""):
        command = [sys.executable, "-m", "rushlight.distributed.run", *options, str(program), *arguments]
        environment = {**os.environ, "RUSHLIGHT_MACHINE": machine}
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)

    return run


def test_torchrun_starts_processes(torchrun):
    done = torchrun("--standalone", "--nproc-per-node=3")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} of 3: 6.0 attempt 0" for rank in range(3)]


def test_torchrun_restarts(torchrun, tmp_path):
    logs = tmp_path / "logs"
    done = torchrun(
        "--nproc_per_node", "2", "--max-restarts", "1", "--redirects", "1", "--log-dir", str(logs), arguments=["once"]
    )
    assert done.returncode == 0, done.stderr
    assert "rank 1 failed with signal SIGKILL; restart 1 of 1" in done.stderr
    # The folder of the command has the name of the job, and one of its own, as machines may share the logs.
    (log,) = logs.glob("none_*/attempt_1/1/stdout.log")
    assert log.read_text() == "rank 1 of 2: 3.0 attempt 1\n"


def test_torchrun_tells_which_rank_failed(torchrun):
    done = torchrun("--nproc-per-node", "2", arguments=["fail"])
    assert done.returncode == 1
    assert "failed with signal SIGKILL" in done.stderr or "failed with exit code 1" in done.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--nproc-per-node", "some"], "Unsupported nproc_per_node value: some"),
        (["--nnodes", "3:2"], "the least number is at least 1"),
        (["--nnodes", "2", "--node-rank", "2"], "--node-rank 2: 2 machines have the numbers from 0 to 1"),
        (["--local-ranks-filter", "first"], "--local-ranks-filter first: write local ranks with commas"),
        (["--nnodes", "2", "--rdzv-endpoint", "127.0.0.1:0", "--rdzv-conf", "join_timeout=1"], "1 of 2 machines came"),
        (["--nproc-per-node", "2", "--tee", "5:9"], "5:9 does not match: <^[0123]$>"),
    ],
)
def test_torchrun_refuses(torchrun, options, sentence):
    done = torchrun(*options)
    assert done.returncode == 1
    assert sentence in done.stderr and "Traceback" not in done.stderr


def _on_machines(torchrun, *options, arguments):
    """Runs a command on two machines at once, which find each other at a free port."""
    options = [*options, "--nproc-per-node=2", "--rdzv-endpoint", f"127.0.0.1:{_free_port()}"]
    with ThreadPoolExecutor(2) as pool:
        begun = [pool.submit(torchrun, *options, arguments=arguments, machine=str(one)) for one in range(2)]
        return [one.result() for one in begun]


@needs_mpi
def test_torchrun_joins_machines(torchrun):
    done = _on_machines(torchrun, "--nnodes", "2", "--max-restarts", "1", arguments=["once"])
    for one in done:
        assert one.returncode == 0, one.stderr
        assert "rank 1 failed with signal SIGKILL; restart 1 of 1" in one.stderr
    lines = sorted("".join(one.stdout for one in done).splitlines())
    assert [line for line in lines if line.endswith("1")] == [f"rank {rank} of 4: 10.0 attempt 1" for rank in range(4)]


@needs_mpi
def test_torchrun_ends_all_machines(torchrun):
    for one in _on_machines(torchrun, "--nnodes", "1:2", arguments=["fail"]):
        assert one.returncode == 1
        assert "program.py FAILED\n  rank 1 failed with signal SIGKILL" in one.stderr, one.stderr

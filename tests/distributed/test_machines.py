"""Groups whose ranks are on several machines: what does not depend on the places of ranks, and what happens when a rank, a
companion, a machine or the network fails. Machines are names in the environment, or network namespaces."""

import os
import pathlib
import signal
import threading
import time
from datetime import timedelta

import pytest
from leftovers import named_memory, programs
from network import network as network

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import _groups
from rushlight.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.parametrize("ranks", [2], indirect=True, ids=["two_machines"])


def _control():
    """The process of this rank's companion that never calls MPI."""
    return _groups._world.default._backends["cpu"]._process.pid


def _carrier():
    """The process that does."""
    control = _control()
    return int(pathlib.Path(f"/proc/{control}/task/{control}/children").read_text())


def _left_behind():
    """The companions that still run."""
    found = []
    for entry in programs():
        try:
            found += [entry.name] if b"_serve_companion" in (entry / "cmdline").read_bytes() else []
        except OSError:
            continue
    return found


@pytest.fixture
def nothing_stays():
    before = set(_left_behind())
    shared = named_memory()
    yield
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and set(_left_behind()) - before:
        time.sleep(0.05)
    assert not set(_left_behind()) - before
    assert not {name for name in named_memory() - shared if name.startswith("mpich")}


def _bits(rank):
    torch.manual_seed(rank)
    tensors = [torch.randn(count) for count in (5, 70_001)]
    for tensor in tensors:
        dist.all_reduce(tensor)
    parts = [torch.randn(1000) * 10**part for part in range(4)]
    scattered = torch.zeros(1000)
    dist.reduce_scatter(scattered, parts, dist.ReduceOp.AVG)
    half = torch.randn(3000).bfloat16()
    dist.all_reduce(half)
    work = dist.all_reduce(tensors[1], async_op=True)
    work.wait()
    return [tensor.tolist() for tensor in (*tensors, scattered, half.float())]


def test_bits_do_not_depend_on_the_places_of_ranks(ranks, nothing_stays):
    ranks.places = [0, 0, 0, 0]
    expected = ranks(_bits, 4)
    for places in ([0, 1, 1, 0], [0, 1, 2, 3]):
        ranks.places = places
        assert ranks(_bits, 4) == expected


def _libraries(rank):
    maps = pathlib.Path("/proc/self/maps").read_text()
    dist.barrier()
    return "libmpi" in maps


def test_ranks_do_not_load_mpi(ranks):
    assert ranks(_libraries, 2) == [False, False]


def _breaks(rank, what):
    dist.barrier()
    if rank == 1:
        # The others may still wait for what its carrier sends.
        time.sleep(0.3)
        victims = {"control": [_control()], "carrier": [_carrier()]}.get(what) or [_control(), _carrier(), os.getpid()]
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
    with pytest.raises(RuntimeError) as error:
        for _ in range(10_000):
            dist.all_reduce(torch.ones(100_000))
    # Messages of the same group end, too.
    with pytest.raises(RuntimeError):
        dist.recv(torch.zeros(1), (rank + 1) % 2, tag=7)
    return str(error.value).splitlines()[0]


@pytest.mark.parametrize("what", ["control", "carrier", "machine"])
def test_a_failure_of_a_machine_is_told_to_all(ranks, nothing_stays, what):
    ranks.places = [0, 1, 0]
    answers = ranks(_breaks, 3, what)
    if what == "machine":
        assert answers[1] is None
    for rank, one in enumerate(answers):
        if one is not None:
            assert "rank 1" in one or (rank == 1 and "companion" in one), answers
            assert "Timed out" not in one, answers
            # The failure may come between two calls.
            assert "all_reduce" in one or "an earlier call" in one, answers


def _one_is_late(rank):
    if rank == 2:
        time.sleep(1.5)
        return None
    with pytest.raises(RuntimeError) as error:
        dist.all_reduce(torch.ones(1))
    return str(error.value).splitlines()[0]


def test_only_the_late_rank_of_a_machine_is_named(ranks):
    ranks.places = [0, 1, 1]
    for answer in ranks(_one_is_late, 3, timeout=0.5)[:2]:
        assert "Timed out waiting 500ms for all_reduce operation to complete: rank 2 did not call it" in answer


def _waits(rank):
    dist.barrier()
    if rank == 1:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"rank 1 \(process \d+\) has died, in recv from rank 1 with tag 7"):
        dist.recv(torch.zeros(1), 1, tag=7)


def test_a_receive_from_a_dead_rank_ends(ranks, nothing_stays):
    ranks(_waits, 2)


def _on_host(rank, network, size, seconds=30):
    """Begins a group whose ranks are on hosts of their own."""
    network.enter(rank)
    address = f"tcp://{network.addresses[0]}:29500"
    dist.init_process_group("gloo", address, timedelta(seconds=30), rank=rank, world_size=size)
    _groups.set_timeout(timedelta(seconds=seconds))


def _model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.Linear(50, 1))


def _steps(model, data, count):
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for _ in range(count):
        optimizer.zero_grad()
        model(data).pow(2).mean().backward()
        optimizer.step()


def _trains(rank, network, size):
    """Training over a network that is slow, loses packets, and stands still for a while."""
    _on_host(rank, network, size)
    whole = torch.randn(24, 20, generator=torch.Generator().manual_seed(1))
    alone, model = _model(), DistributedDataParallel(_model(), bucket_cap_mb=0.001)
    if rank == 0:
        network.change(delay=0.003, loss=0.01)
    _steps(model, whole.chunk(size)[rank], 5)
    if rank == 0:
        network.change(apart=[1])
        threading.Timer(1.0, network.change).start()
    _steps(model, whole.chunk(size)[rank], 5)
    _steps(alone, whole, 5)
    _steps(alone, whole, 5)
    for one, other in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(one, other)
    large = torch.arange(200_000) * (rank + 1)
    dist.all_reduce(large)
    assert torch.equal(large, torch.arange(200_000) * sum(range(1, size + 1)))
    received = torch.zeros_like(large)
    work = dist.isend(large + rank, (rank + 1) % size, tag=3)
    assert dist.recv(received, (rank - 1) % size, tag=3) == (rank - 1) % size
    work.wait()
    assert torch.equal(received, large + (rank - 1) % size)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": one} for one in range(size)]
    dist.destroy_process_group()


@pytest.mark.parametrize("network", [2, 3, 4], indirect=True)
def test_training_on_hosts(ranks, network, nothing_stays):
    size = len(network.addresses)
    ranks.places = [0] * size
    ranks(_trains, size, network, size, init=False)


def _partition(rank, network, size, dies):
    _on_host(rank, network, size, 2)
    model = DistributedDataParallel(_model())
    _steps(model, torch.ones(2, 20), 2)
    dist.barrier()
    if rank == size - 1:
        time.sleep(0.3)
        network.change(apart=[rank])
        if dies:
            # As if the power failed: nobody hears of it.
            for victim in (_control(), _carrier(), os.getpid()):
                os.kill(victim, signal.SIGKILL)
    with pytest.raises(RuntimeError) as error:
        _steps(model, torch.ones(2, 20), 100_000)
    return str(error.value).splitlines()[0]


@pytest.mark.parametrize("dies", [False, True], ids=["cut", "off"])
@pytest.mark.parametrize("network", [2, 3], indirect=True)
def test_a_partition_ends_calls_at_their_timeout(ranks, network, nothing_stays, dies):
    size = len(network.addresses)
    ranks.places = [0] * size
    answers = ranks(_partition, size, network, size, dies, init=False)
    if dies:
        assert answers.pop() is None
    for one in answers:
        assert "Timed out waiting 2000ms for all_reduce operation to complete: rank " in one
        assert one.endswith(" did not call it, or cannot be reached")


def _long(rank, network):
    _on_host(rank, network, 2, 60)
    dist.barrier()
    if rank == 0:
        time.sleep(0.3)
        network.change(apart=[1])
    with pytest.raises(RuntimeError) as error:
        while True:
            dist.all_reduce(torch.ones(1000))
    return str(error.value).splitlines()[0]


@pytest.mark.parametrize("network", [2], indirect=True)
def test_a_partition_ends_calls_before_a_long_timeout(ranks, network, nothing_stays):
    ranks.places = [0, 0]
    for rank, answer in enumerate(ranks(_long, 2, network, init=False)):
        assert answer == f"Connection closed by peer: the machine of rank {1 - rank} was lost, in all_reduce"


def _alone(rank, network):
    network.enter(rank)
    with pytest.raises(dist.DistError) as error:
        address = f"tcp://{network.addresses[0]}:29500"
        dist.init_process_group("gloo", address, timedelta(seconds=3), rank=rank, world_size=2)
    assert not dist.is_initialized()
    return type(error.value).__name__, str(error.value).splitlines()[0]


@pytest.mark.parametrize("network", [2], indirect=True)
def test_hosts_that_do_not_reach_each_other_do_not_begin(ranks, network, nothing_stays):
    network.change(apart=[1])
    ranks.places = [0, 0]
    assert ranks(_alone, 2, network, init=False) == [
        ("DistStoreError", "Timed out after 3 seconds waiting for clients. 1/2 clients joined."),
        (
            "DistNetworkError",
            f"The client socket has timed out after 3000ms while trying to connect to ({network.addresses[0]}, 29500).",
        ),
    ]

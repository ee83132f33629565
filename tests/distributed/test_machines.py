"""Groups whose ranks are on several machines: what does not depend on the places of ranks, and what happens when a rank, a
companion, a machine or the network fails. Machines are names in the environment, or network namespaces."""

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import time
from datetime import timedelta

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import _groups

pytestmark = pytest.mark.parametrize("ranks", [2], indirect=True, ids=["two_machines"])


def _control():
    """The process of this rank's companion that never calls MPI."""
    return _groups._world.default._engines["cpu"]._process.pid


def _engine():
    """The process that does."""
    control = _control()
    return int(pathlib.Path(f"/proc/{control}/task/{control}/children").read_text())


def _left_behind():
    """The companions that still run."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if b"_serve_companion" in path.read_bytes() else []
        except OSError:
            continue
    return found


@pytest.fixture
def nothing_stays():
    before = set(_left_behind())
    shared = set(os.listdir("/dev/shm"))
    yield
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and set(_left_behind()) - before:
        time.sleep(0.05)
    assert not set(_left_behind()) - before
    assert not {name for name in set(os.listdir("/dev/shm")) - shared if name.startswith("mpich")}


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
        # The others may still wait for what its engine sends.
        time.sleep(0.3)
        victims = {"control": [_control()], "engine": [_engine()]}.get(what) or [_control(), _engine(), os.getpid()]
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(RuntimeError) as error:
        for _ in range(10_000):
            dist.all_reduce(torch.ones(100_000))
    assert time.monotonic() - began < 15
    # Messages of the same group end, too.
    with pytest.raises(RuntimeError):
        dist.recv(torch.zeros(1), (rank + 1) % 2, tag=7)
    return str(error.value).splitlines()[0]


@pytest.mark.parametrize("what", ["control", "engine", "machine"])
def test_a_failure_of_a_machine_is_told_to_all(ranks, nothing_stays, what):
    ranks.places = [0, 1, 0]
    told = ranks(_breaks, 3, what)
    if what == "machine":
        assert told[1] is None
    for rank, one in enumerate(told):
        if one is not None:
            assert "rank 1" in one or (rank == 1 and "companion" in one), told
            # The failure may come between two calls.
            assert "all_reduce" in one or "an earlier call" in one, told


def _one_is_late(rank):
    if rank == 2:
        time.sleep(1.5)
        return None
    with pytest.raises(RuntimeError) as error:
        dist.all_reduce(torch.ones(1))
    return str(error.value).splitlines()[0]


def test_only_the_late_rank_of_a_machine_is_named(ranks):
    ranks.places = [0, 1, 1]
    for told in ranks(_one_is_late, 3, timeout=0.5)[:2]:
        assert "Timed out waiting 500ms for all_reduce operation to complete: rank 2 did not call it" in told


def _waits(rank):
    dist.barrier()
    if rank == 1:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=r"rank 1 \(process \d+\) has died, in recv from rank 1 with tag 7"):
        dist.recv(torch.zeros(1), 1, tag=7)
    assert time.monotonic() - began < 10


def test_a_receive_from_a_dead_rank_ends(ranks, nothing_stays):
    ranks(_waits, 2)


# Without addresses of IPv6, which cannot be used in the first seconds.
_NETWORK = "link set v0 addrgenmode none, addr add {}/24 dev v0, link set v0 up, link set lo up"


class Network:
    """Two network namespaces, joined by a cable."""

    addresses = ["10.213.77.1", "10.213.77.2"]

    def __init__(self):
        self.names = [f"rushlight{os.getpid()}{side}" for side in "ab"]

    def run(self, *command):
        return subprocess.run(command, capture_output=True, text=True)

    def lay(self):
        """Whether there is a network."""
        first, second = self.names
        for name in self.names:
            if self.run("ip", "netns", "add", name).returncode:
                return False
        self.run("ip", "link", "add", "v0", "netns", first, "type", "veth", "peer", "name", "v0", "netns", second)
        for name, address in zip(self.names, self.addresses):
            for words in _NETWORK.format(address).split(", "):
                if self.run("ip", "-n", name, *words.split()).returncode:
                    return False
        # The kernel takes up to a second to see that the cable is plugged in at both ends.
        deadline = time.monotonic() + 10
        while not all("state UP" in self.run("ip", "-n", name, "link", "show", "v0").stdout for name in self.names):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        return True

    def enter(self, rank):
        """Moves this process into the namespace of a rank."""
        with open(f"/run/netns/{self.names[rank]}") as file:
            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.setns(file.fileno(), 0x40000000) == 0, os.strerror(ctypes.get_errno())

    def slow(self):
        """Delays and loses packets; whether the kernel can."""
        command = "netem delay 5ms loss 1%".split()
        return self.run("ip", "netns", "exec", self.names[0], "tc", "qdisc", "add", "dev", "v0", "root", *command)

    def cut(self):
        self.run("ip", "-n", self.names[0], "link", "set", "v0", "down")

    def remove(self):
        for name in self.names:
            self.run("ip", "netns", "del", name)


@pytest.fixture
def network():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    network = Network()
    try:
        if not network.lay():
            pytest.skip("network namespaces are not available")
        yield network
    finally:
        network.remove()


def _over_a_cable(rank, network, seconds):
    network.enter(rank)
    address = f"tcp://{network.addresses[0]}:29500"
    dist.init_process_group("gloo", address, timedelta(seconds=30), rank=rank, world_size=2)
    _groups.set_timeout(timedelta(seconds=seconds))


def _slow(rank, network):
    _over_a_cable(rank, network, 30)
    if rank == 0:
        network.slow()
    tensor = torch.arange(200_000) * (rank + 1)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.arange(200_000) * 3)
    if rank == 0:
        dist.send(tensor, 1, tag=3)
    else:
        received = torch.zeros_like(tensor)
        assert dist.recv(received, 0, tag=3) == 0
        assert torch.equal(received, tensor)
    dist.destroy_process_group()


def test_network_namespaces_are_machines(ranks, network, nothing_stays):
    ranks.places = [0, 0]
    ranks(_slow, 2, network, init=False)


def _partition(rank, network):
    _over_a_cable(rank, network, 2)
    dist.barrier()
    if rank == 0:
        time.sleep(0.3)
        network.cut()
    began = time.monotonic()
    with pytest.raises(RuntimeError) as error:
        while True:
            dist.all_reduce(torch.ones(1000))
    assert time.monotonic() - began < 15
    return str(error.value).splitlines()[0]


def test_a_partition_ends_calls_at_their_timeout(ranks, network, nothing_stays):
    ranks.places = [0, 0]
    for rank, told in enumerate(ranks(_partition, 2, network, init=False)):
        assert told == (
            "Timed out waiting 2000ms for all_reduce operation to complete: "
            f"rank {1 - rank} did not call it, or cannot be reached"
        )

"""Memory, streams and generators of devices, several devices, and files, each program in a process of its own. Errors are in
`test_bad_input.py`.

Programs that need several devices or little memory run on the card made of software alone.
"""

import os
import re
import subprocess
import sys

import pytest
import soft_card
from card import needs_card, run, run_file
from soft_card import FOLDER, RAISES, ROOT, environment, needs_soft_card

pytestmark = needs_card


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pinned_memory(seed):
    """Requirements CUD-5 and CUD-6: sources live until their copies have run, and the host waits for what arrives."""
    run(
        RAISES
        + """
import collections, gc
x = torch.arange(6.0).reshape(2, 3).t()
y = x.pin_memory()
assert y.is_pinned() and not x.is_pinned() and torch.equal(x, y) and y.stride() == x.stride() and y.pin_memory() is y
assert torch.ones(3, pin_memory=True).is_pinned() and torch.tensor([1], pin_memory=True).is_pinned()
assert torch.rand(2, pin_memory=True).is_pinned() and torch.full((2,), 3.0, pin_memory=True).is_pinned()
assert torch.zeros_like(x, pin_memory=True).is_pinned() and x.new_tensor([2], pin_memory=True).is_pinned()
z = torch.ones(3, pin_memory=True, requires_grad=True)
assert z.is_pinned() and z.is_leaf and z.requires_grad
raises(RuntimeError, "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned", lambda: x.cuda().pin_memory())
raises(RuntimeError, "Only dense CPU tensors can be pinned", lambda: torch.ones(2, device="cuda", pin_memory=True))
w = torch.ones(2, requires_grad=True)
w.pin_memory().sum().backward()
assert w.grad.tolist() == [1.0, 1.0]
s = torch.zeros(4).untyped_storage()
assert s.pin_memory().is_pinned() and not s.is_pinned() and s.pin_memory().tolist() == s.tolist()
for step in range(100):
    source = torch.full((1000,), float(step)).pin_memory()
    there = source.cuda(non_blocking=True)
    del source
    other = torch.full((1000,), -1.0).pin_memory()
    back = (there * 2).to("cpu", non_blocking=True)
    assert back.is_pinned() and back.sum().item() == 2000 * step, step
    # The host waits before it overwrites what a copy reads.
    given = torch.full((10,), float(step)).pin_memory()
    copied = given.to("cuda", non_blocking=True)
    given.fill_(-5)
    assert copied.tolist() == [float(step)] * 10
    room = torch.empty(10).pin_memory()
    room.copy_(copied, non_blocking=True)
    assert room[3] == step
stats = torch.cuda.host_memory_stats()
assert stats["num_host_alloc"] < 20 and stats["allocations.current"] == stats["num_host_alloc"], stats
assert torch.ones(2).cuda(non_blocking=True).tolist() == [1, 1] and torch.ones(2).to("cuda", torch.float64, non_blocking=True).dtype == torch.float64
u = torch.ones(3, requires_grad=True)
u.to("cuda", non_blocking=True).sum().backward()
assert u.grad.tolist() == [1, 1, 1] and u.grad.device.type == "cpu"
del y, z, s, there, other, back, given, room
gc.collect()
torch.cuda.synchronize()
torch.accelerator.empty_host_cache()
assert torch.cuda.host_memory_stats()["num_host_free"] > 0
""",
        SOFTCUDA_SEED=seed,
    )


def test_a_loader_pins_batches():
    """Requirement DAT-9."""
    run(
        """
        import collections
        from rushlight.utils.data import DataLoader
        Pair = collections.namedtuple("Pair", "x y")
        samples = [{"pair": Pair(torch.ones(2), 1), "more": [torch.zeros(1), "name"]} for _ in range(6)]
        for workers in (0, 2):
            for batch in DataLoader(samples, batch_size=3, pin_memory=True, num_workers=workers):
                assert type(batch["pair"]) is Pair and batch["pair"].x.is_pinned() and batch["pair"].y.is_pinned()
                assert batch["more"][0].is_pinned() and batch["more"][1] == ["name"] * 3
                assert batch["pair"].x.cuda(non_blocking=True).sum().item() == 6
        """
    )


def test_statistics_of_memory():
    run(
        RAISES
        + """
import random
random.seed(0)
live = {}
for step in range(300):
    if live and random.random() < 0.45:
        del live[random.choice(list(live))]
    else:
        count = random.choice([1, 100, 5000, 300_000, 600_000])
        live[step] = torch.empty(count, device="cuda")
    stats = torch.cuda.memory_stats()
    rounded = sum(-(-tensor.numel() * 4 // 512) * 512 for tensor in live.values())
    requested = sum(tensor.numel() * 4 for tensor in live.values())
    assert stats["requested_bytes.all.current"] == requested and stats["allocation.all.current"] == len(live)
    assert rounded <= stats["allocated_bytes.all.current"] == stats["active_bytes.all.current"] <= stats["reserved_bytes.all.current"]
    for name in ("allocation", "allocated_bytes", "segment", "reserved_bytes", "inactive_split_bytes"):
        parts = [stats[f"{name}.{kind}.current"] for kind in ("all", "small_pool", "large_pool")]
        assert parts[0] == parts[1] + parts[2], name
snapshot = torch.cuda.memory_snapshot()
assert sum(one["total_size"] for one in snapshot) == torch.cuda.memory_reserved()
assert sum(one["allocated_size"] for one in snapshot) == torch.cuda.memory_allocated()
assert all(sum(block["size"] for block in one["blocks"]) == one["total_size"] for one in snapshot)
summary = torch.cuda.memory_summary()
assert "Allocated memory" in summary and "from small pool" in summary and "small pool" not in torch.cuda.memory_summary(abbreviated=True)
assert len({len(line) for line in summary.splitlines()}) == 1
assert summary.splitlines()[1] == "|" + "PyTorch CUDA memory summary, device ID 0".center(75) + "|"
assert summary.splitlines()[3] == "|            CUDA OOMs: 0            |        cudaMalloc retries: 0         |"
assert "|       from small pool |" in summary and "| Oversize GPU segments |       0    |" in summary
assert torch.cuda.memory_stats_as_nested_dict()["allocation"]["all"]["current"] == len(live)
live.clear()
torch.cuda.reset_accumulated_memory_stats()
torch.cuda.reset_peak_memory_stats()
assert torch.cuda.max_memory_allocated() == torch.cuda.memory_stats()["allocation.all.allocated"] == 0
assert torch.cuda.memory_cached() == torch.cuda.memory_reserved() and torch.cuda.max_memory_cached() == torch.cuda.max_memory_reserved()
pointer = torch.cuda.caching_allocator_alloc(1000)
assert torch.cuda.memory_allocated() == 1024
torch.cuda.caching_allocator_delete(pointer)
assert torch.cuda.memory_allocated() == 0
"""
    )


@needs_soft_card
def test_memory_runs_out():
    soft_card.run(
        RAISES
        + """
kept = torch.zeros(1 << 20, device="cuda")
freed = torch.zeros(8 << 20, device="cuda")
del freed
# 32 MiB are kept for reuse: they are returned before memory runs out.
torch.zeros(11 << 20, device="cuda")
assert torch.cuda.memory_stats()["num_alloc_retries"] == 1
torch.cuda.empty_cache()
error = raises(torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 80.00 MiB. GPU 0 has a total capacity of 64.00 MiB of which",
               lambda: torch.zeros(20 << 20, device="cuda"))
# A request that fails counts once, although it is tried again after the streams that use freed memory.
assert torch.cuda.memory_stats()["num_alloc_retries"] == 2 and torch.cuda.memory_stats()["num_ooms"] == 1
assert "tensors" in str(error) and "4.00 MiB  in 1 blocks" in str(error) and "from the driver" in str(error), error
assert torch.cuda.get_per_process_memory_fraction() == 1.0
torch.cuda.set_per_process_memory_fraction(0.5)
assert torch.cuda.get_per_process_memory_fraction() == 0.5
error = raises(torch.OutOfMemoryError, "CUDA out of memory.", lambda: torch.zeros(8 << 20, device="cuda"))
assert "32.00 MiB allowed" in str(error), error
torch.cuda.set_per_process_memory_fraction(1.0)
assert torch.zeros(8 << 20, device="cuda").numel() == 8 << 20
""",
        SOFTCUDA_MEMORY=64 << 20,
    )


@needs_soft_card
def test_generators():
    """Requirement CUD-10: one seed gives the same numbers on every device, before and after the first use."""
    soft_card.run(
        RAISES
        + """
torch.manual_seed(5)
assert not torch.cuda.is_initialized()
states = torch.cuda.get_rng_state_all()
assert len(states) == 2 and states[0].shape == (16,) and torch.equal(states[0], states[1]) and torch.cuda.initial_seed() == 5
generator = torch.Generator("cuda:1")
assert generator.device == torch.device("cuda:1") and generator.initial_seed() == torch.Generator().initial_seed()
generator.manual_seed(9)
assert generator.get_state().view(torch.int64).tolist() == [9, 0] and generator.get_offset() == 0
generator.set_offset(8)
assert generator.clone_state().get_state().view(torch.int64).tolist() == [9, 8] and generator.clone_state().device.index == 1
import pickle
assert torch.equal(pickle.loads(pickle.dumps(generator)).get_state(), generator.get_state())
raises(RuntimeError, "offset must be a multiple of 4", lambda: generator.set_offset(3))
raises(RuntimeError, "RNG state is wrong size", lambda: generator.set_state(torch.zeros(5, dtype=torch.uint8)))
raises(RuntimeError, "Expected a 'cpu' device type for generator but found 'cuda'", lambda: torch.rand(2, generator=generator))
raises(RuntimeError, "Expected a 'cuda' device type for generator but found 'cpu'",
       lambda: torch.rand(2, generator=torch.Generator(), device="cuda"))
assert torch.cuda.default_generators[1].device.index == 1
torch.cuda.manual_seed_all(11)
assert [one.initial_seed() for one in torch.cuda.default_generators] == [11, 11] and torch.initial_seed() == 5
torch.cuda.set_device(1)
torch.cuda.manual_seed(12)
assert [one.initial_seed() for one in torch.cuda.default_generators] == [11, 12]
torch.cuda.set_rng_state_all(states)
assert [one.initial_seed() for one in torch.cuda.default_generators] == [5, 5]
torch.cuda.seed_all()
assert torch.cuda.initial_seed() == torch.cuda.default_generators[0].initial_seed() != 5
""",
        SOFTCUDA_DEVICES=2,
    )


@pytest.mark.parametrize("seed", [0, 3])
def test_streams_and_events(seed):
    run(
        RAISES
        + """
import ctypes
side = torch.cuda.Stream(priority=-1)
assert side.priority == -1 and side.device_index == 0 and torch.cuda.Stream.priority_range()[0] == 0
with side:
    assert torch.cuda.current_stream() == side
    x = torch.ones(1000, device="cuda")
assert torch.cuda.current_stream() == torch.cuda.default_stream()
assert torch.cuda.ExternalStream(side.cuda_stream) == side and torch.cuda.Stream(stream_id=side.stream_id, device_index=0) == side
event, later = torch.cuda.Event(), torch.cuda.Event(enable_timing=True)
assert event.query() and event.cuda_event == 0
event.record(side)
assert event.cuda_event != 0
event.wait()
assert (x + 1).sum().item() == 2000
raises(ValueError, "Both events must be created with argument 'enable_timing=True'.", lambda: event.elapsed_time(later))
raises(ValueError, "Both events must be recorded before calculating elapsed time.", lambda: later.elapsed_time(torch.cuda.Event(enable_timing=True)))
# A block that another stream reads is not used again before: by operators, or by work that only the program knows.
copy = ctypes.CDLL("libcuda.so.1").cuMemcpyDtoDAsync_v2
for step in range(20):
    x = torch.full((1000,), float(step), device="cuda")
    other = torch.empty(1000, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    if step % 2:
        with torch.cuda.stream(side):
            torch.mul(x, 1, out=other)
    else:
        assert copy(*map(ctypes.c_void_p, (other.data_ptr(), x.data_ptr(), 4000, side.cuda_stream))) == 0
        x.record_stream(side)
    del x
    torch.full((1000,), -1.0, device="cuda")
    # What would overwrite the block too early runs now, and the other stream last.
    torch.cuda.current_stream().synchronize()
    side.synchronize()
    assert other.sum().item() == 1000 * step
""",
        SOFTCUDA_SEED=seed,
    )
    assert run("print((torch.ones(3, device='cuda') + 1).tolist())", CUDA_LAUNCH_BLOCKING=1) == "[2.0, 2.0, 2.0]\n"


@pytest.mark.parametrize("devices", [1, 3])
def test_data_parallel(devices):
    run(
        """
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8, affine=False).eval(), torch.nn.Linear(8, 2)).cuda()
        x = torch.linspace(-1, 1, 30 * 4).reshape(30, 4).cuda()
        net(x).square().sum().backward()
        want = [p.grad.clone() for p in net.parameters()]
        net.zero_grad()
        seen = []
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = net
            def forward(self, x, *, scale):
                seen.append((x.device.index, len(x), torch.cuda.current_device()))
                return {"out": self.inner(x) * scale["by"], "size": torch.tensor([len(x)], device=x.device)}
        model = torch.nn.DataParallel(Net())
        result = model(x, scale={"by": 1.0})
        result["out"].square().sum().backward()
        count = torch.cuda.device_count()
        assert sorted(seen) == [(i, 30 // count, i) for i in range(count)], seen
        assert result["size"].tolist() == [30 // count] * count and result["out"].device.index == 0
        torch.testing.assert_close(result["out"].cpu(), net(x).cpu())
        for p, grad in zip(net.parameters(), want):
            torch.testing.assert_close(p.grad.cpu(), grad.cpu(), rtol=1e-4, atol=1e-5)
        if count == 3:
            from rushlight.cuda import comm
            parts = comm.scatter(torch.arange(6.0), [0, 1, 2])
            assert [(one.device.index, one.tolist()) for one in parts] == [(0, [0, 1]), (1, [2, 3]), (2, [4, 5])]
            assert comm.gather(parts, destination=1).tolist() == [0, 1, 2, 3, 4, 5]
            assert comm.reduce_add(parts, 2).tolist() == [6, 9]
            copies = comm.broadcast(parts[0], [0, 1])
            assert copies[1].device.index == 1 and copies[1].tolist() == [0, 1]
            y = torch.ones(5, 2, device="cuda", requires_grad=True)
            pieces = torch.nn.parallel.scatter(y, [0, 1, 2])
            assert [len(one) for one in pieces] == [2, 2, 1]
            torch.nn.parallel.gather([one * 2 for one in pieces], 0).sum().backward()
            assert y.grad.cpu().unique().tolist() == [2.0]
            try:
                torch.nn.DataParallel(Net().to("cuda:1"))(x, scale={"by": 1.0})
            except RuntimeError as error:
                assert "found one of them on device: cuda:1" in str(error), error
            else:
                raise AssertionError
        """,
        SOFTCUDA_DEVICES=devices,
    )


@needs_soft_card
def test_accelerator():
    soft_card.run(
        """
        a = torch.accelerator
        assert a.is_available() and a.device_count() == 2 and a.current_accelerator() == torch.device("cuda")
        assert a.current_device_index() == 0
        with a.device_index(1):
            assert a.current_device_index() == 1
        a.set_device_index("cuda:1")
        assert torch.cuda.current_device() == 1 and a.current_stream() == torch.cuda.current_stream()
        x = torch.ones(100, device=a.current_accelerator())
        a.synchronize()
        assert x.device.index == 1 and a.memory_allocated() == 512 and a.get_memory_info()[1] == 1 << 30
        assert torch.float16 in a.get_device_capability()["supported_dtypes"]
        graph, side = a.Graph(), torch.Stream()
        graph.enable_debug_mode()
        with side, graph:
            x += 1
        assert x[0].item() == 1
        graph.replay()
        a.synchronize()
        assert x.tolist() == [2.0] * 100 and graph.pool() == graph.pool()
        """,
        SOFTCUDA_DEVICES=2,
    )


@needs_soft_card
def test_storages_and_files(tmp_path):
    soft_card.run(
        f"""
        import copy, pickle
        path = {str(tmp_path / "x.pt")!r}
        x = torch.arange(3.0, device="cuda:1")
        s = x.untyped_storage()
        assert repr(s).endswith("[torch.storage.UntypedStorage(device=cuda:1) of size 12]") and s[6] == 128 and s.tolist()[:4] == [0] * 4
        assert s.clone().tolist() == s.tolist() and s.clone().device == s.device and s.cpu().device.type == "cpu"
        assert s.cuda(0).device.index == 0 and s.cuda(1) is s
        for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), pickle.loads(pickle.dumps(s)), copy.deepcopy(s)):
            assert y.device == torch.device("cuda:1") and y.tolist() in ([0.0, 1.0, 2.0], s.tolist())
        torch.save({{"x": x, "view": x[1:]}}, path)
        loaded = torch.load(path)
        assert loaded["x"].device == torch.device("cuda:1") and loaded["view"].tolist() == [1.0, 2.0]
        loaded["x"][1] = 9
        assert loaded["view"][0].item() == 9
        assert torch.load(path, map_location="cpu")["x"].device.type == "cpu"
        assert torch.load(path, map_location="cuda:0")["x"].device.index == 0
        assert torch.load(path, map_location={{"cuda:1": "cuda:0"}})["view"].device.index == 0
        torch.save(x, path + "1", _use_new_zipfile_serialization=False)
        for options in ({{}}, {{"weights_only": False}}, {{"weights_only": False, "map_location": "cuda:1"}}):
            assert torch.load(path + "1", **options).tolist() == [0.0, 1.0, 2.0]
        net = torch.nn.Linear(2, 2).cuda()
        twin = copy.deepcopy(net)
        assert twin.weight.is_cuda and twin.weight is not net.weight and torch.equal(twin.weight.cpu(), net.weight.cpu())
        """,
        SOFTCUDA_DEVICES=2,
    )
    program = f"""
try:
    torch.load({str(tmp_path / "x.pt")!r})
except RuntimeError as error:
    print(error)
"""
    shown = soft_card.run(program, CUDA_VISIBLE_DEVICES="")
    assert shown.startswith("Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.")


SENDER = """
import os, sys
import rushlight as torch
import rushlight.multiprocessing as mp

LAST = torch.cuda.device_count() - 1

def consume(queue, answers, release):
    x = queue.get()
    y = queue.get()
    assert x.device == torch.device("cuda", LAST) and x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    x += 1
    torch.cuda.synchronize(LAST)
    try:
        mp.get_context("spawn").SimpleQueue().put(x)
    except RuntimeError as error:
        answers.put(str(error))
    answers.put((x.tolist(), y.tolist()))
    if release.get() == "die":
        os._exit(9)
    del x, y

if __name__ == "__main__":
    context = mp.get_context("spawn")
    for end in ("die", "return"):
        queue, answers, release = context.Queue(), context.Queue(), context.Queue()
        child = context.Process(target=consume, args=(queue, answers, release))
        child.start()
        x = torch.arange(4.0, device=torch.device("cuda", LAST))
        queue.put(x)
        queue.put(x[2:])
        assert answers.get().startswith("Attempted to send CUDA tensor received from another process")
        assert answers.get() == ([1.0, 2.0, 3.0, 4.0], [3.0, 4.0])
        assert x.tolist() == [1.0, 2.0, 3.0, 4.0]
        del x
        torch.cuda.ipc_collect()
        assert torch.cuda.memory_allocated(LAST) == 512, "the sender keeps what the other process uses"
        release.put(end)
        child.join()
        assert child.exitcode == (9 if end == "die" else 0), child.exitcode
        torch.cuda.ipc_collect()
        assert torch.cuda.memory_allocated(LAST) == 0
"""


def test_tensors_travel_between_processes(tmp_path):
    """Requirement MUL-11: the sender keeps the block until the receiver has released it or has died."""
    run_file(tmp_path / "sender.py", SENDER, SOFTCUDA_DEVICES=2)


@needs_soft_card
def test_the_doctor():
    command = [sys.executable, "-m", "rushlight", "doctor"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cuda:0: Software card, capability 9.0" in done.stdout and "a kernel: compiled and run" in done.stdout
    (compiler,) = re.findall(r"NVRTC, .*, from (.*)", done.stdout)
    assert os.path.realpath(compiler) == os.path.realpath(FOLDER / "libcuda.so.1")
    hidden = {**environment(CUDA_VISIBLE_DEVICES="")}
    done = subprocess.run(command, env=hidden, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "unset CUDA_VISIBLE_DEVICES" in done.stdout
    done = subprocess.run([*command, "--all"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and "doctor takes no arguments, but got: --all" in done.stderr
    bare = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run(command, env=bare, capture_output=True, text=True, timeout=120, check=False)
    assert "driver" in done.stdout and "NVRTC" in done.stdout


@needs_soft_card
def test_a_missing_compiler_is_named(tmp_path):
    """The driver's stand-in alone is in the loader's path, and NVRTC is nowhere."""
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver/libcuda.so.1").symlink_to(FOLDER / "libcuda.so.1")
    settings = {
        **environment(),
        "LD_LIBRARY_PATH": str(tmp_path / "driver"),
        "RUSHLIGHT_KERNEL_CACHE": str(tmp_path / "cache"),
    }
    program = """
try:
    print((torch.ones(2, device="cuda") + 1).tolist())
except RuntimeError as error:
    print(error)
"""

    def shown(*packages):
        path = os.pathsep.join([str(ROOT / "python"), *map(str, packages)])
        command = [sys.executable, "-S", "-c", "import rushlight as torch\n" + program]
        done = subprocess.run(
            command, env={**settings, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    missing = shown()
    assert missing.startswith("NVRTC, which compiles the kernels for CUDA, is not installed")
    assert "rushlight[cuda13]" in missing and "nvidia-cuda-nvrtc" in missing and "rushlight doctor" in missing

"""Programs on the card made of software. Each runs in a process whose dynamic loader finds it in place of the driver."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from soft_card import environment, needs_soft_card, run

pytestmark = needs_soft_card


def test_first_program():
    """Requirement CUD-8: add, print, move back as double."""
    shown = run(
        """
        x = torch.ones(2, 3, device="cuda") * 2 + torch.arange(3, device="cuda")
        print(x)
        y = x.to("cpu", torch.double)
        print(y, y.device, x.device, x.is_cuda, x.get_device(), x[1, 2].item(), x.sum().item(), x.tolist()[0])
        """
    )
    assert shown.splitlines() == [
        "tensor([[2., 3., 4.],",
        "        [2., 3., 4.]], device='cuda:0')",
        "tensor([[2., 3., 4.],",
        "        [2., 3., 4.]], dtype=torch.float64) cpu cuda:0 True 0 4.0 18.0 [2.0, 3.0, 4.0]",
    ]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_training_gives_the_numbers_of_the_cpu(seed):
    """A small network with two optimizers; after the first steps the driver gives no more memory."""
    run(
        """
        import ctypes
        driver = ctypes.CDLL("libcuda.so.1")
        driver.softcuda_allocations.restype = ctypes.c_uint64

        def train(device, kind, **options):
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).to(device)
            x = torch.linspace(-1, 1, 60).reshape(10, 6).to(device)
            y = torch.linspace(0, 1, 30).reshape(10, 3).to(device)
            optimizer = kind(model.parameters(), **options)
            losses, blocks = [], []
            for _ in range(8):
                optimizer.zero_grad()
                loss = ((model(x).softmax(1) - y) ** 2).mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                blocks.append(driver.softcuda_allocations())
            assert blocks[2] == blocks[-1], blocks
            return losses, [p.detach().cpu() for p in model.parameters()]

        for kind, options in [
            (torch.optim.SGD, {"lr": 0.5, "momentum": 0.9, "weight_decay": 0.01}),
            (torch.optim.Adam, {"lr": 0.1}),
        ]:
            here, there = train("cpu", kind, **options), train("cuda", kind, **options)
            assert here[0][-1] < here[0][0]
            torch.testing.assert_close(torch.tensor(here[0]), torch.tensor(there[0]), rtol=1e-4, atol=1e-6)
            torch.testing.assert_close(here[1], there[1], rtol=1e-3, atol=1e-5)
        """,
        SOFTCUDA_SEED=seed,
    )


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_streams(seed):
    run(
        """
        side = torch.cuda.Stream()
        assert side != torch.cuda.default_stream() == torch.cuda.current_stream() and side.query()
        for step in range(10):
            x = torch.full((1000,), float(step), device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                assert torch.cuda.current_stream() == side
                y = x * 2 + 1
                event = side.record_event()
            # The memory of `x` may not be used again before `side` has read it.
            del x
            z = torch.full((1000,), -1.0, device="cuda")
            torch.cuda.current_stream().wait_event(event)
            total = (y + z).sum()
            assert total.item() == 1000 * step * 2, (step, total)
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        z = z * 2
        last.record()
        last.synchronize()
        assert last.query() and first.elapsed_time(last) >= 0
        """,
        SOFTCUDA_SEED=seed,
    )


def test_memory():
    run(
        """
        import gc
        assert torch.cuda.memory_allocated() == 0 and not torch.cuda.is_initialized()
        x = torch.zeros(1000, device="cuda")
        assert torch.cuda.is_initialized() and torch.cuda.memory_allocated() == 4096
        assert torch.cuda.memory_reserved() == 2 << 20
        y = torch.zeros(3 << 20, device="cuda")
        assert torch.cuda.memory_reserved() == 14 << 20
        del y
        assert torch.cuda.memory_allocated() == 4096 and torch.cuda.max_memory_allocated() == 4096 + (12 << 20)
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved() == 2 << 20
        assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == 4096 + (12 << 20)
        torch.cuda.reset_peak_memory_stats()
        assert torch.cuda.max_memory_allocated() == 4096
        free, total = torch.cuda.mem_get_info()
        assert total == 64 << 20 and free == total - (2 << 20)
        try:
            torch.zeros(1 << 25, device="cuda")
        except torch.cuda.OutOfMemoryError as error:
            assert str(error).startswith("CUDA out of memory. Tried to allocate 128.00 MiB. GPU 0 has a total capacity of"), error
        else:
            raise AssertionError("there was enough memory")
        assert torch.cuda.memory_stats()["num_ooms"] == 1 and (x + 1).sum().item() == 1000
        """,
        SOFTCUDA_MEMORY=64 << 20,
    )


def test_devices():
    run(
        """
        assert torch.cuda.device_count() == 3 and torch.cuda.current_device() == 0
        x = torch.ones(3, device="cuda:1")
        with torch.cuda.device(2):
            a, b = torch.zeros(3, device="cuda"), torch.ones(3).cuda()
            assert a.device == b.device == torch.device("cuda:2") and (x + x).device.index == 1
            c = x.to("cuda")
            assert c.device.index == 2 and c.tolist() == [1.0] * 3
        assert torch.cuda.current_device() == 0 and torch.zeros(1, device="cuda").device.index == 0
        assert x.to("cuda:1") is x and x.cuda(2).t().cpu().tolist() == [1.0] * 3
        b.copy_(x * 5)
        assert b.tolist() == [5.0] * 3 and (x + torch.tensor(1.0)).tolist() == [2.0] * 3
        for call, sentence in [
            (lambda: x + b, "Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:2!"),
            (lambda: torch.zeros(1, device="cuda:3"), "CUDA error: invalid device ordinal"),
            (lambda: x.numpy(), "can't convert cuda:1 device type tensor to numpy."),
        ]:
            try:
                call()
            except (RuntimeError, TypeError) as error:
                assert str(error).startswith(sentence), error
            else:
                raise AssertionError(sentence)
        properties = torch.cuda.get_device_properties(1)
        assert properties.name == torch.cuda.get_device_name() == "Software card" and properties.warp_size == 32
        """,
        SOFTCUDA_DEVICES=3,
    )
    assert run("print(torch.cuda.device_count(), torch.cuda.is_available())", CUDA_VISIBLE_DEVICES="").split() == [
        "0",
        "False",
    ]


def test_a_forked_child_gets_an_error():
    """Requirement ERR-5. Tensors of the parent may still be dropped in the child."""
    shown = run(
        """
        import os
        x = torch.ones(3, device="cuda")
        child = os.fork()
        if child == 0:
            try:
                x + 1
            except RuntimeError as error:
                print(error, flush=True)
            del x
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print((x + 1).tolist())
        """
    )
    assert shown.startswith(
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"
    )
    assert shown.endswith("[2.0, 2.0, 2.0]\n")


def test_semi_structured_tensors_are_refused():
    shown = run(
        """
        for make in (
            torch.sparse.to_sparse_semi_structured,
            torch.sparse.SparseSemiStructuredTensorCUTLASS.from_dense,
        ):
            try:
                make(torch.zeros(64, 64, device="cuda"))
            except NotImplementedError as error:
                print(error)
        """
    )
    assert shown == "There are no kernels for semi-structured sparse tensors. Multiply the dense tensor.\n" * 2


def test_the_cache_of_kernels_survives_damage(tmp_path):
    program = "print((torch.ones(3, device='cuda') * 7).tolist())"
    for _ in range(2):
        assert run(program, RUSHLIGHT_KERNEL_CACHE=tmp_path) == "[7.0, 7.0, 7.0]\n"
        kernels = list(tmp_path.glob("*.cubin"))
        assert len(kernels) == 2 and not list(tmp_path.glob("*.draft"))
        for kernel in kernels:
            kernel.write_bytes(kernel.read_bytes()[:100])
    # Whole files under each other's names, and a pipe, which has no end while no one writes to it.
    assert run(program, RUSHLIGHT_KERNEL_CACHE=tmp_path) == "[7.0, 7.0, 7.0]\n"
    first, second = kernels
    codes = first.read_bytes(), second.read_bytes()
    first.write_bytes(codes[1])
    second.write_bytes(codes[0])
    assert run(program, RUSHLIGHT_KERNEL_CACHE=tmp_path) == "[7.0, 7.0, 7.0]\n"
    assert (first.read_bytes(), second.read_bytes()) == codes
    first.unlink()
    os.mkfifo(first)
    assert run(program, RUSHLIGHT_KERNEL_CACHE=tmp_path) == "[7.0, 7.0, 7.0]\n"
    assert first.read_bytes() == codes[0]


def test_a_part_of_the_operator_table():
    """The rest runs with `make test-cuda`."""
    part = " or ".join(f"[{name}]" for name in ("add", "exp", "where", "sum.dim", "mean", "clone", "copy", "mm", "cat"))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", part]
    table = Path(__file__).with_name("test_table_on_device.py")
    done = subprocess.run(
        [*command, str(table)], env=environment(), capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout, done.stdout


def test_nvidias_compiler_runs_beside_the_drivers_stand_in():
    """NVRTC asks the driver for tables of functions that have no name."""
    program = """
import ctypes, importlib.metadata, re
try:
    files = importlib.metadata.files("nvidia-cuda-nvrtc") or []
except importlib.metadata.PackageNotFoundError:
    raise SystemExit(print("absent"))
[path] = [str(one.locate()) for one in files if re.fullmatch(r"libnvrtc\\.so\\.\\d+", one.name)]
nvrtc, program = ctypes.CDLL(path), ctypes.c_void_p()
source = b'extern "C" __global__ void kernel(int* out) { *out = 1; }'
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", 0, None, None) == 0
print(nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90")))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    if done.stdout == "absent\n":
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr

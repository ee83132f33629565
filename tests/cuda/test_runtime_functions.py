"""Functions of the CUDA runtime, of NVIDIA's management library, and calls that wait for a GPU."""

import pytest
import soft_card
from card import needs_card, run
from soft_card import RAISES, needs_soft_card

import rushlight as torch


@needs_card
def test_functions_of_the_runtime():
    run(
        RAISES
        + """
import ctypes
runtime = torch.cuda.cudart()
names = [name for name in dir(runtime) if name.startswith("cuda")]
assert names == [
    "cudaError", "cudaGetErrorString", "cudaHostRegister", "cudaHostUnregister", "cudaMemGetInfo", "cudaProfilerStart",
    "cudaProfilerStop", "cudaStreamCreate", "cudaStreamDestroy",
]
success = runtime.cudaError.success
assert success == 0 and repr(success) == "<cudaError.success: 0>" and str(runtime.cudaError(2)) == "cudaError.???"
free, whole = runtime.cudaMemGetInfo(0)
assert 0 < free <= whole and (free, whole) == torch.cuda.mem_get_info()
x = torch.ones(1 << 16)
assert runtime.cudaHostRegister(x.data_ptr(), x.nbytes, 0) == success
again = runtime.cudaHostRegister(x.data_ptr(), x.nbytes, 0)
assert again == 712 and runtime.cudaGetErrorString(again) == "part or all of the requested memory range is already mapped"
assert torch.equal(x.to("cuda").cpu(), x)
assert runtime.cudaHostUnregister(x.data_ptr()) == success and runtime.cudaHostUnregister(x.data_ptr()) == 713
handle = ctypes.c_size_t()
assert runtime.cudaStreamCreate(ctypes.addressof(handle)) == success and handle.value
with torch.cuda.stream(torch.cuda.ExternalStream(handle.value)):
    y = torch.ones(3, device="cuda") + 1
torch.cuda.synchronize()
assert y.tolist() == [2.0] * 3
del y
torch.cuda.empty_cache()
assert runtime.cudaStreamDestroy(handle.value) == success
raises(TypeError, "cudaGetErrorString(): incompatible function arguments", lambda: runtime.cudaGetErrorString(2))
assert str(torch.cuda.CudaError(2)) == "out of memory (2)"
assert str(torch.cuda.CudaError(999999)) .endswith(" (999999)")
raises(torch.cuda.CudaError, "out of memory (2)", lambda: torch.cuda.check_error(2))
raises(torch.cuda.CudaError, "out of memory (cudaError.???)", lambda: torch.cuda.check_error(runtime.cudaError(2)))
torch.cuda.check_error(success)
"""
    )


@needs_soft_card
def test_a_profiler_collects_between_start_and_stop():
    soft_card.run(
        """
        import ctypes
        is_profiled = ctypes.CDLL("libcuda.so.1").softcuda_is_profiled
        profiler = torch.cuda.profiler
        profiler.start()
        assert is_profiled() == 1
        profiler.stop()
        assert is_profiled() == 0
        try:
            with profiler.profile():
                assert is_profiled() == 1
                raise KeyError
        except KeyError:
            assert is_profiled() == 0
        """
    )


@needs_soft_card
def test_the_management_library_tells_of_devices():
    soft_card.run(
        """
        import os
        cuda = torch.cuda
        assert (cuda.utilization(), cuda.memory_usage(), cuda.temperature(), cuda.clock_rate()) == (37, 12, 41, 1980)
        assert cuda.power_draw() == 71500
        assert cuda.list_gpu_processes() == "GPU:0\\nno processes are running"
        x = torch.ones(1, device="cuda:1")
        assert cuda.device_memory_used(1) == 2 << 20 and cuda.device_memory_used("cuda:0") == 0
        shown = f"GPU:1\\nprocess {os.getpid():>10d} uses        2.000 MB GPU memory"
        assert cuda.list_gpu_processes(1) == shown
        """,
        SOFTCUDA_DEVICES=2,
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a driver")
def test_without_the_management_library_devices_are_not_asked():
    with pytest.raises(ModuleNotFoundError, match="nvidia-ml-py does not seem to be installed or it can't be imported"):
        torch.cuda.utilization()
    assert torch.cuda.list_gpu_processes() == "pynvml module not found, please install nvidia-ml-py"


@needs_soft_card
def test_architectures_are_the_compilers():
    soft_card.run(
        """
        assert torch.cuda.get_arch_list() == ["sm_80", "sm_90"]
        flags = "-gencode compute=compute_80,code=sm_80 -gencode compute=compute_90,code=sm_90"
        assert torch.cuda.get_gencode_flags() == flags
        """
    )


@needs_card
def test_calls_that_wait_are_announced():
    run(
        RAISES
        + """
import warnings
cuda = torch.cuda
x = torch.arange(4.0, device="cuda")
index = torch.tensor([1, 0], device="cuda")
host = torch.ones(4).pin_memory()
waits = [
    x.sum().item, x.cpu, lambda: x.to("cpu"), lambda: x.nonzero(), lambda: x[x > 1], lambda: torch.ones(2).cuda(),
    lambda: x.index_select(0, index), x.tolist, lambda: bool(x[0]),
]
goes_on = [
    lambda: x + 1, lambda: host.to("cuda", non_blocking=True), lambda: x.to("cpu", non_blocking=True),
    lambda: torch.zeros(3, device="cuda"), cuda.synchronize,
]
assert cuda.get_sync_debug_mode() == 0
cuda.set_sync_debug_mode("warn")
assert cuda.get_sync_debug_mode() == 1
for call in waits:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()
    assert told and all(str(one.message) == "called a synchronizing CUDA operation" for one in told), call
cuda.set_sync_debug_mode(2)
for call in waits:
    raises(RuntimeError, "called a synchronizing CUDA operation", call)
for call in goes_on:
    call()
cuda.set_sync_debug_mode("default")
assert x.sum().item() == 6
raises(RuntimeError, "invalid value of debug_mode, expected one of `default`, `warn`, `error`", lambda: cuda.set_sync_debug_mode("some"))
raises(RuntimeError, "invalid value of debug_mode, expected 0,1,2", lambda: cuda.set_sync_debug_mode(3))
"""
    )


@needs_card
def test_copies_that_a_mode_handles_wait_no_longer():
    """Handlers of operators see the device with its number and `non_blocking`; what is there already is not copied."""
    run(
        RAISES
        + """
from rushlight.utils._python_dispatch import TorchDispatchMode
seen = []
class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen.append((str(func), kwargs))
        return func(*args, **kwargs)
host, there = torch.ones(3).pin_memory(), torch.ones(3, device="cuda")
torch.cuda.set_sync_debug_mode("error")
with Seen():
    moved = [
        host.to("cuda", non_blocking=True), host.cuda(non_blocking=True), host.cuda(0, True), host.cuda("cuda:0", non_blocking=True),
        there.to("cpu", non_blocking=True),
    ]
    assert there.to("cuda") is there and there.cuda() is there and there.to("cuda:0") is there
    raises(RuntimeError, "Invalid device, must be cuda device", lambda: host.cuda("cpu"))
torch.cuda.set_sync_debug_mode("default")
to_card = ("aten._to_copy.default", {"device": torch.device("cuda:0"), "non_blocking": True})
assert seen == [to_card] * 4 + [("aten._to_copy.default", {"device": torch.device("cpu"), "non_blocking": True})], seen
assert all(one.tolist() == [1.0] * 3 for one in moved)
"""
    )


@needs_card
def test_other_libraries_get_handles_of_the_stream():
    run(
        """
blas, solver = torch.cuda.current_blas_handle(), torch.cuda.current_solver_handle()
assert blas and solver and torch.cuda.current_blas_handle() == blas and torch.cuda.current_solver_handle() == solver
with torch.cuda.stream(torch.cuda.Stream()):
    assert torch.cuda.current_blas_handle() != blas
a = torch.eye(3, device="cuda") * 2
assert torch.equal(torch.linalg.inv(a), torch.eye(3, device="cuda") / 2)
"""
    )

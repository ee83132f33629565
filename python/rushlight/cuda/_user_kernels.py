"""Kernels that a program writes in CUDA C++, compiled by NVRTC when they are first needed."""

from __future__ import annotations

from rushlight import _C

from ._streams import current_stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: A block may have more shared memory than this if `set_shared_memory_config` allows it.
_SHARED = 48 * 1024


class _CudaKernel:
    """A kernel. It is called with its grid, the size of its blocks and its arguments.

    Args:
        kernel: the compiled kernel.
    """

    def __init__(self, kernel: _C._CudaKernel) -> None:
        self._kernel, self._max_shared_mem_bytes = kernel, 0

    def __call__(
        self,
        grid: tuple[int, int, int] = (1, 1, 1),
        block: tuple[int, int, int] = (1, 1, 1),
        args: list[Any] | None = None,
        shared_mem: int = 0,
        stream: Any = None,
    ) -> None:
        """Enqueues the kernel.

        Args:
            grid: the number of blocks.
            block: the number of threads of each.
            args: tensors on the kernel's GPU, whose addresses are passed, and numbers, one for each parameter. An int becomes an integer
                of the parameter's size, a float a ``float`` or ``double``.
            shared_mem: the bytes of shared memory of a block.
            stream: the stream, by default the current one.

        Raises:
            TypeError: an argument is something else, or there are too many or too few.
            OverflowError: an int has no place in its parameter.
            ValueError: a tensor is elsewhere.
            RuntimeError: a block needs more shared memory than `set_shared_memory_config` has allowed.
        """
        if shared_mem >= _SHARED and shared_mem > self._max_shared_mem_bytes:
            allowed = self._max_shared_mem_bytes
            what = f"only {allowed} bytes configured" if allowed else "not configured"
            raise RuntimeError(
                f"Kernel requires {shared_mem} bytes of shared memory (>= 48KB), but {what}. Call "
                "kernel.set_shared_memory_config(shared_mem) after compilation and before launching the kernel."
            )
        chosen = current_stream(self._kernel.device) if stream is None else stream
        self._kernel.launch(tuple(grid), tuple(block), shared_mem, chosen.cuda_stream, list(args or ()))

    def set_shared_memory_config(self, shared_mem_bytes: int) -> None:
        """Allows blocks of the kernel to have this much shared memory.

        Raises:
            AcceleratorError: the GPU has less.
        """
        self._kernel.allow_shared(shared_mem_bytes)
        self._max_shared_mem_bytes = shared_mem_bytes


def _compile_kernel(
    kernel_source: str,
    kernel_name: str,
    compute_capability: str | None = None,
    cuda_include_dirs: list[str] | None = None,
    nvcc_options: list[str] | None = None,
) -> _CudaKernel:
    """Compiles a kernel for the current GPU.

    Args:
        kernel_source: CUDA C++.
        kernel_name: the name of the kernel, a function that returns ``void``.
        compute_capability: that of the code, such as ``"90"``, by default the GPU's.
        cuda_include_dirs: folders of headers.
        nvcc_options: more options of NVRTC.

    Returns:
        the kernel; see `_CudaKernel`.

    Raises:
        ValueError: the source is empty.
        RuntimeError: it cannot be compiled, or there is no GPU or no NVRTC.
    """
    import re

    if not kernel_source.strip():
        raise ValueError("Kernel source cannot be empty")
    _C._cuda_init()
    # The driver finds kernels by names that the compiler leaves as they are.
    head = rf'(?:extern\s+"C"\s+)?__global__\s+void\s+(?={re.escape(kernel_name)}\b)'
    source = re.sub(head, 'extern "C" __global__ void ', kernel_source)
    options = [f"--include-path={folder}" for folder in cuda_include_dirs or ()]
    if compute_capability is not None:
        options.append(f"--gpu-architecture=sm_{compute_capability}")
    return _CudaKernel(_C._CudaKernel(source, kernel_name, [*options, *(nvcc_options or ())]))


_SLEEP = """
extern "C" __global__ void sleep(double cycles) {
    long long begin = clock64();
    while (clock64() - begin < (long long)cycles) {
    }
}
"""
_sleepers: dict[int, _CudaKernel] = {}


def _sleep(cycles: int) -> None:
    """Keeps the current stream busy, for tests of what overlaps.

    Args:
        cycles: how many cycles of the GPU's clock the stream waits.

    Raises:
        TypeError: the number is no int.
    """
    if not isinstance(cycles, int) or isinstance(cycles, bool):
        raise TypeError("torch.cuda._sleep(): expected 'int'")
    device = _C._cuda_current_device()
    if device not in _sleepers:
        _sleepers[device] = _compile_kernel(_SLEEP, "sleep")
    _sleepers[device](args=[float(cycles)])

"""Allocators that a program brings: functions of a library of its own, in place of the caching allocator."""

from __future__ import annotations

from rushlight import _C
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _CUDAAllocator:
    """An allocator: the caching one, or a program's.

    Args:
        allocator: the addresses of the program's two functions; None for the caching allocator.
    """

    def __init__(self, allocator: tuple[int, int] | None) -> None:
        self._allocator = allocator

    def allocator(self) -> Any:
        """What `MemPool` takes."""
        return self._allocator


class CUDAPluggableAllocator(_CUDAAllocator):
    """Two functions of a library that give out the memory of GPUs and take it back.

    They are ``void* alloc(ssize_t size, int device, cudaStream_t stream)`` and
    ``void free(void* ptr, ssize_t size, int device, cudaStream_t stream)``, and may call neither Python nor rushlight. Memory that
    other streams use as well is freed after their work.

    Args:
        path_to_so_file: the library.
        alloc_fn_name, free_fn_name: the names of the functions.

    Raises:
        OSError: there is no such library.
        AttributeError: it has no such function.
    """

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        import ctypes

        library = ctypes.CDLL(path_to_so_file)
        names = (alloc_fn_name, free_fn_name)
        allocate, free = (ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names)
        assert allocate is not None and free is not None
        super().__init__((allocate, free))


#: The allocator that a program has chosen.
_chosen: _CUDAAllocator | None = None


def change_current_allocator(allocator: CUDAPluggableAllocator) -> None:
    """Makes a program's functions the allocator of all memory of GPUs. Nothing is cached or counted then.

    Args:
        allocator: the functions.

    Raises:
        RuntimeError: a GPU is in use already, or the allocator was changed before.
    """
    global _chosen
    _C._cuda_choose_allocator(*allocator.allocator())
    _chosen = allocator


def _get_current_allocator() -> _CUDAAllocator:
    """The allocator of all memory of GPUs."""
    return _chosen or _CUDAAllocator(None)


def get_allocator_backend() -> str:
    """``"native"`` for the caching allocator, ``"pluggable"`` for a program's.

    >>> torch.cuda.get_allocator_backend()
    'native'
    """
    return "pluggable" if _C._cuda_has_chosen_allocator() else "native"


def _set_allocator_settings(env: str) -> None:
    """The old name of `torch._C._accelerator_setAllocatorSettings`.

    Args:
        env: settings in the grammar of ``PYTORCH_ALLOC_CONF``.

    Raises:
        ValueError: a key is unknown, or a value is no number or out of its range.
        IndexError: a number is too large.
        RuntimeError: a value is missing.
    """
    from rushlight._engine_names import _accelerator_setAllocatorSettings
    from rushlight._warnings import warn

    warn(
        "torch.cuda._set_allocator_settings is deprecated. Use torch._C._accelerator_setAllocatorSettings instead.",
        FutureWarning,
    )
    _accelerator_setAllocatorSettings(env)


def need_caching(function: str) -> None:
    """Raises torch's error if a program's allocator, which has no statistics, gives out all memory."""
    if _C._cuda_has_chosen_allocator():
        raise RuntimeError(
            f"CUDAPluggableAllocator does not yet support {function}. If you need it, please file an issue describing your "
            "use case."
        )


set_module("rushlight.cuda", CUDAPluggableAllocator, change_current_allocator, get_allocator_backend)

"""Pools of memory that a program makes: what is allocated in a ``with`` block comes from one of them."""

from __future__ import annotations

from contextlib import contextmanager

from rushlight import _C
from rushlight._set_module import set_module

from ._devices import index_of
from ._memory import memory_snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class MemPool:
    """A pool of the current GPU's memory. No other work takes memory from it, except as `use_on_oom` says.

    Tensors keep their memory when the pool is deleted; what none uses then goes back to the driver. A graph can be recorded with the
    pool's `id`.

    Args:
        allocator: functions of a program that give out the pool's memory (`CUDAPluggableAllocator.allocator`), by default the driver.
        use_on_oom: whether other work may use the pool's free memory when there is no other.
        no_split: whether each tensor gets memory that the driver gave at once, so that tensors of other sizes cannot divide it.

    Raises:
        RuntimeError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     pool = torch.cuda.MemPool()
    ...     with torch.cuda.use_mem_pool(pool):
    ...         x = torch.ones(3, device="cuda")
    """

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        _C._cuda_init()
        self._allocator = allocator
        self._pool = _C._CudaMemPool(use_on_oom, no_split, allocator)

    @property
    def id(self) -> tuple[int, int]:
        """The name of the pool, for `CUDAGraph.capture_begin` and `memory_snapshot`."""
        return 0, self._pool.number

    @property
    def allocator(self) -> Any:
        """The functions that give out the memory; None for the driver."""
        return self._allocator

    def use_count(self) -> int:
        """How many owners and users the pool has: itself, ``with`` blocks and graphs."""
        return self._pool.use_count()

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """The pool's segments and their blocks. See `memory_snapshot`."""
        return memory_snapshot(self.id, include_traces)


@contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """Takes this thread's memory of a GPU from a pool inside a ``with`` block. Work that is being recorded in a graph has the graph's.

    Args:
        pool: the pool.
        device: the GPU, by default the current one.

    >>> if torch.cuda.is_available():
    ...     with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    ...         x = torch.ones(3, device="cuda")
    """
    index = index_of(device)
    number = pool.id[1]
    _C._cuda_enter_pool(index, number)
    try:
        yield
    finally:
        _C._cuda_leave_pool(index, number)


set_module("rushlight.cuda", MemPool, use_mem_pool)

"""Marks and ranges for NVIDIA's profilers (`torch.cuda.nvtx`).

A profiler that watches the program sets the variable ``NVTX_INJECTION64_PATH`` to its library. Without one the functions do nothing.
"""

from __future__ import annotations

from contextlib import contextmanager

from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["range_push", "range_pop", "range_start", "range_end", "mark", "range"]


def range_push(msg: str) -> int:
    """Begins a range inside of this thread's last one.

    Returns:
        the depth of the range, from 0 on; -2 if no profiler counts.

    >>> depth = torch.cuda.nvtx.range_push("step")
    >>> torch.cuda.nvtx.range_pop() == depth
    True
    """
    return _C._nvtx_push(msg)


def range_pop() -> int:
    """Ends this thread's last range; see `range_push`.

    Returns:
        the depth of the range; -2 if no profiler counts.

    >>> _ = torch.cuda.nvtx.range_push("step")
    >>> torch.cuda.nvtx.range_pop() in (0, -2)
    True
    """
    return _C._nvtx_pop()


def range_start(msg: str) -> int:
    """Begins a range that any thread may end.

    Returns:
        its number, for `range_end`.

    >>> torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start("copy"))
    """
    return _C._nvtx_start(msg)


def range_end(range_id: int) -> None:
    """Ends a range of `range_start`.

    >>> torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start("copy"))
    """
    _C._nvtx_end(range_id)


def _device_range_start(msg: str, stream: int = 0) -> _C._NvtxDeviceRange:
    """Begins a range once the work of a stream so far has run.

    Args:
        msg: the name of the range.
        stream: the handle of a stream of the current GPU (`Stream.cuda_stream`), by default the default stream.

    Returns:
        the range, for `_device_range_end`.

    Raises:
        RuntimeError: there is no GPU, or the stream is being recorded in a graph.
    """
    return _C._nvtx_device_start(msg, stream)


def _device_range_end(range_handle: _C._NvtxDeviceRange, stream: int = 0) -> None:
    """Ends a range of `_device_range_start` once the work of a stream so far has run."""
    _C._nvtx_device_end(range_handle, stream)


def mark(msg: str) -> None:
    """Marks a moment.

    >>> torch.cuda.nvtx.mark("begin")
    """
    _C._nvtx_mark(msg)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Makes a range of a ``with`` block, or of each call of a function.

    Args:
        msg: the name, in which ``str.format`` puts the other arguments.

    >>> with torch.cuda.nvtx.range("epoch {}", 3):
    ...     pass
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


def __dir__() -> list[str]:
    return __all__

"""`torch.accelerator`: the GPUs of this machine, under names that do not depend on their kind."""

from __future__ import annotations

from rushlight import _C, cuda
from rushlight.cuda._devices import number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import device
    from rushlight.cuda import Stream

__all__ = [
    "Graph",
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def _need() -> None:
    if not is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")


def _index(device: Any) -> int:
    """The number of a device, the current one for None."""
    _need()
    if isinstance(device, (str, _C.device)):
        device = _C.device(device)
        if device.type != "cuda":
            raise ValueError(f"{device.type} doesn't match the current accelerator cuda.")
        device = device.index
    return number_of(device)


def is_available() -> bool:
    """Whether there is an accelerator.

    >>> torch.accelerator.is_available() == torch.cuda.is_available()
    True
    """
    return _C._cuda_device_count() > 0


def device_count() -> int:
    """The number of accelerators that can be used.

    >>> torch.accelerator.device_count() == torch.cuda.device_count()
    True
    """
    return _C._cuda_device_count()


def current_accelerator(check_available: bool = False) -> device | None:
    """The type of the accelerator, or None.

    >>> torch.accelerator.current_accelerator() in (None, torch.device("cuda"))
    True
    """
    return _C.device("cuda") if is_available() else None


class device_index:
    """Selects an accelerator inside a ``with`` block; None leaves it as it is.

    >>> with torch.accelerator.device_index(None):
    ...     pass
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx is not None:
            _need()
            self.prev_idx = cuda._exchange_device(self.idx)

    def __exit__(self, *exc_info: object) -> None:
        cuda._exchange_device(self.prev_idx)


def current_device_index() -> int:
    """The index of the accelerator in use.

    Raises:
        RuntimeError: there is no accelerator.
    """
    return _index(None)


def current_device_idx() -> int:
    """The old name of `current_device_index`."""
    return _index(None)


def set_device_index(device: Any, /) -> None:
    """Selects the accelerator to use. A negative number has no effect.

    Raises:
        RuntimeError: there is no accelerator.
    """
    cuda.set_device(_index(device))


def set_device_idx(device: Any, /) -> None:
    """The old name of `set_device_index`."""
    set_device_index(device)


def synchronize(device: Any = None, /) -> None:
    """Waits until all work that was enqueued on an accelerator has run.

    Raises:
        RuntimeError: there is no accelerator.
    """
    cuda.synchronize(_index(device))


def current_stream(device: Any = None, /) -> Stream:
    """This thread's current stream of an accelerator.

    Raises:
        RuntimeError: there is no accelerator.
    """
    return cuda.current_stream(_index(device))


def set_stream(stream: Any) -> None:
    """Makes a stream the current one of its accelerator, and the accelerator the current one.

    Raises:
        RuntimeError: there is no accelerator.
    """
    _need()
    _C._cuda_set_device(stream.device_index)
    cuda.set_stream(stream)


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """What an accelerator supports: ``supported_dtypes`` is the set of the dtypes of tensors on it.

    Raises:
        RuntimeError: there is no accelerator.
    """
    _index(device)
    import rushlight as torch

    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    return {"supported_dtypes": dtypes}


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """The free and the whole memory of an accelerator in bytes.

    Raises:
        RuntimeError: there is no accelerator.
    """
    return cuda.mem_get_info(_index(device_index))


def empty_cache() -> None:
    """Returns the memory that no tensor uses to the driver.

    >>> torch.accelerator.empty_cache()
    """
    cuda.empty_cache()


def empty_host_cache() -> None:
    """Returns the page-locked memory that no tensor uses to the driver.

    >>> torch.accelerator.empty_host_cache()
    """
    if _C._cuda_is_initialized():
        _C._cuda_empty_host_cache()


def memory_stats(device_index: Any = None, /) -> dict[str, int]:
    """The statistics of an accelerator's allocator; see `torch.cuda.memory_stats`.

    >>> torch.accelerator.memory_stats()
    {}
    """
    return cuda.memory_stats(device_index) if _C._cuda_is_initialized() else {}


def memory_allocated(device_index: Any = None, /) -> int:
    """The number of bytes of an accelerator that tensors use.

    >>> torch.accelerator.memory_allocated()
    0
    """
    return memory_stats(device_index).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The largest number of bytes that tensors used since the start, or since `reset_peak_memory_stats`.

    >>> torch.accelerator.max_memory_allocated()
    0
    """
    return memory_stats(device_index).get("allocated_bytes.all.peak", 0)


def memory_reserved(device_index: Any = None, /) -> int:
    """The number of bytes that the allocator has from the driver.

    >>> torch.accelerator.memory_reserved()
    0
    """
    return memory_stats(device_index).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device_index: Any = None, /) -> int:
    """The largest number of bytes that the allocator had from the driver.

    >>> torch.accelerator.max_memory_reserved()
    0
    """
    return memory_stats(device_index).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Makes the present amounts the largest ones.

    >>> torch.accelerator.reset_peak_memory_stats()
    """
    cuda.reset_peak_memory_stats(device_index)


def reset_accumulated_memory_stats(device_index: Any = None, /) -> None:
    """Makes the sums of increases and decreases zero.

    >>> torch.accelerator.reset_accumulated_memory_stats()
    """
    cuda.reset_accumulated_memory_stats(device_index)


class Graph:
    """Recorded work of an accelerator; see `torch.cuda.CUDAGraph`. As a context manager it records the work of a ``with`` block.

    Args:
        keep_graph: whether the record can be changed until it is run.
        pool: the name of another graph's pool of memory, in place of one of its own.
        capture_error_mode: see `CUDAGraph.capture_begin`.

    Raises:
        RuntimeError: there is no accelerator.
    """

    def __init__(self, keep_graph: bool = False, *, pool: Any = None, capture_error_mode: str = "default") -> None:
        _need()
        self._graph = cuda.CUDAGraph(keep_graph)
        self._pool, self._mode = pool, capture_error_mode

    def capture_begin(self) -> None:
        """Begins to record the work of the current stream."""
        self._graph.capture_begin(self._pool, self._mode)

    def capture_end(self) -> None:
        """Ends the record."""
        self._graph.capture_end()

    def instantiate(self) -> None:
        """Takes over the changes of a graph that was recorded with ``keep_graph=True``."""
        if self._graph._keeps:
            self._graph.instantiate()

    def replay(self) -> None:
        """Runs the recorded work on the current stream."""
        self._graph.replay()

    def reset(self) -> None:
        """Forgets the recorded work."""
        self._graph.reset()

    def pool(self) -> tuple[int, int]:
        """The name of the graph's pool of memory."""
        return self._graph.pool()

    def enable_debug_mode(self) -> None:
        """Keeps what `debug_dump` writes."""
        self._graph.enable_debug_mode()

    def debug_dump(self, path: str) -> None:
        """Writes the record to a file for Graphviz; see `CUDAGraph.debug_dump`."""
        self._graph.debug_dump(path)

    def __enter__(self) -> None:
        # The graph gets memory of its own; the rest is better given back first.
        synchronize()
        empty_cache()
        empty_host_cache()
        self.capture_begin()

    def __exit__(self, *exc_info: object) -> None:
        self.capture_end()


def __getattr__(name: str) -> Any:
    if name in ("graphs", "memory"):
        from rushlight._loading import load

        return load(f"rushlight.accelerator.{name}")
    from rushlight._missing_names import missing_from

    raise missing_from("torch.accelerator", name, lambda: __all__)


def __dir__() -> list[str]:
    return __all__

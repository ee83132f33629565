"""Context managers of `torch.cuda`: the current GPU and the current stream of a ``with`` block."""

from __future__ import annotations

from contextlib import contextmanager

from rushlight import _C
from rushlight._set_module import set_module

from ._devices import _exchange_device, number_of
from ._streams import _given, current_stream, set_stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


@contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Gives the memory that tensors give up in a ``with`` block back to the driver at once.

    >>> with torch.cuda.caching_allocator_disabled():
    ...     pass
    """
    before = _C._cuda_is_caching()
    _C._cuda_set_caching(False)
    try:
        yield
    finally:
        _C._cuda_set_caching(before)


class device:
    """Selects a GPU inside a ``with`` block; None and negative indices leave it as it is.

    >>> with torch.cuda.device(None):
    ...     pass
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else number_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        _exchange_device(self.prev_idx)


class device_of(device):
    """Selects the GPU of a tensor inside a ``with`` block; a tensor on the CPU leaves it as it is.

    >>> with torch.cuda.device_of(torch.ones(1)):
    ...     pass
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class StreamContext:
    """Selects a stream inside a ``with`` block; None leaves it as it is.

    >>> with torch.cuda.StreamContext(None):
    ...     pass
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        _given(self.stream, "stream")
        self._device = _C._cuda_set_device(self.stream.device_index)
        self._before = current_stream(self.stream.device_index)
        set_stream(self.stream)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        if self.stream is None:
            return
        set_stream(self._before)
        _C._cuda_set_device(self._device)


def stream(stream: Any) -> StreamContext:
    """Selects a stream inside a ``with`` block; None leaves it as it is.

    >>> with torch.cuda.stream(None):
    ...     pass
    """
    return StreamContext(stream)


set_module("rushlight.cuda", device, device_of, StreamContext, stream)

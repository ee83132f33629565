"""Context managers of `torch.cuda`: they do nothing for no GPU, and refuse any other."""

from __future__ import annotations

from rushlight import _C
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class device:
    """Selects a GPU inside a ``with`` block; None and negative indices leave it as it is.

    >>> with torch.cuda.device(None):
    ...     pass
    """

    def __init__(self, device: Any) -> None:
        index = device if isinstance(device, int) else getattr(device, "index", device)
        self.idx = -1 if index is None else index

    def __enter__(self) -> None:
        if not isinstance(self.idx, int) or self.idx >= 0:
            _C._refuse_cuda()

    def __exit__(self, *exception: object) -> None:
        pass


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
        if self.stream is not None:
            _C._refuse_cuda()

    def __exit__(self, *exception: object) -> None:
        pass


def stream(stream: Any) -> StreamContext:
    """Selects a stream inside a ``with`` block; None leaves it as it is.

    >>> with torch.cuda.stream(None):
    ...     pass
    """
    return StreamContext(stream)


set_module("rushlight.cuda", device, device_of, StreamContext, stream)

"""`torch.cpu`: functions for device-independent programs that run on the CPU."""

from __future__ import annotations

from rushlight.cpu import amp as amp

from ._capabilities import (
    _init_amx,
    _is_amx_fp16_supported,
    _is_amx_tile_supported,
    _is_avx2_supported,
    _is_avx512_bf16_supported,
    _is_avx512_supported,
    _is_vnni_supported,
    get_capabilities,
)
from ._streams import Event, Stream, StreamContext, current_stream, stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is a CPU: always True.

    >>> torch.cpu.is_available()
    True
    """
    return True


def device_count() -> int:
    """The number of CPU devices: always 1.

    >>> torch.cpu.device_count()
    1
    """
    return 1


def is_initialized() -> bool:
    """Whether the CPU is in use: always True.

    >>> torch.cpu.is_initialized()
    True
    """
    return True


def set_device(device: Any) -> None:
    """Has no effect, because there is one CPU.

    >>> torch.cpu.set_device("cpu")
    """


def current_device() -> str:
    """The current device.

    >>> torch.cpu.current_device()
    'cpu'
    """
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Waits for the CPU. It has no effect, because calls are synchronous.

    >>> torch.cpu.synchronize()
    """


def __dir__() -> list[str]:
    return __all__

"""`torch.cpu`: the names by which programs written for any device ask about the CPU."""

from __future__ import annotations

from rushlight.cpu import amp as amp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "amp",
    "current_device",
    "device_count",
    "is_available",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is a CPU.

    >>> torch.cpu.is_available()
    True
    """
    return True


def device_count() -> int:
    """The number of CPUs as devices: one.

    >>> torch.cpu.device_count()
    1
    """
    return 1


def current_device() -> str:
    """The device in use.

    >>> torch.cpu.current_device()
    'cpu'
    """
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Waits for the CPU: calls have ended when they return.

    >>> torch.cpu.synchronize()
    """


def __dir__() -> list[str]:
    return __all__

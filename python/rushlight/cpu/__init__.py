"""`torch.cpu`: the names by which programs written for any device ask about the CPU."""

from __future__ import annotations

from rushlight.cpu import amp as amp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_available() -> bool:
    """Whether there is a CPU."""
    return True


def device_count() -> int:
    """The number of CPUs as devices: one."""
    return 1


def current_device() -> str:
    """The device in use."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Waits for the CPU: calls have ended when they return."""

"""`torch._guards`: what libraries ask about a compiler's fake tensors. There are none."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["active_fake_mode", "detect_fake_mode"]


def active_fake_mode() -> None:
    """The mode that makes fake tensors, or None.

    >>> torch._guards.active_fake_mode() is None
    True
    """


def detect_fake_mode(inputs: Any = None) -> None:
    """The mode that has made one of the inputs, or None.

    >>> torch._guards.detect_fake_mode([torch.ones(2)]) is None
    True
    """


def __dir__() -> list[str]:
    return __all__

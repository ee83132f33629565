"""Names of `torch._dynamo.utils` that libraries import."""

from __future__ import annotations

from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_warned: set[str] = set()


def is_compile_supported(device_type: Any) -> bool:
    """Whether functions can be compiled for a type of devices: always False.

    >>> from rushlight._dynamo.utils import is_compile_supported
    >>> is_compile_supported("cpu")
    False
    """
    return False


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Gives a warning, unless it was given before."""
    if msg not in _warned:
        _warned.add(msg)
        warn(msg)

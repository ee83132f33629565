"""Settings of oneDNN, which is not used."""

from __future__ import annotations

from ._settings import held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "allow_tf32",
    "deterministic",
    "enabled",
    "flags",
    "is_available",
]


enabled: bool = True
deterministic: bool = False
allow_tf32: bool = True


def is_available() -> bool:
    """Whether oneDNN is there.

    >>> torch.backends.mkldnn.is_available()
    False
    """
    return False


def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True) -> Any:
    """The settings inside a ``with`` block.

    >>> with torch.backends.mkldnn.flags(deterministic=True):
    ...     torch.backends.mkldnn.deterministic
    True
    """
    return held(globals(), locals().copy())


def __dir__() -> list[str]:
    return __all__

"""Settings of oneDNN, which is not used."""

from __future__ import annotations

from ._settings import temporary_settings

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
    """Whether oneDNN is available: always False.

    >>> torch.backends.mkldnn.is_available()
    False
    """
    return False


def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True) -> Any:
    """Changes settings inside a ``with`` block.

    >>> with torch.backends.mkldnn.flags(deterministic=True):
    ...     torch.backends.mkldnn.deterministic
    True
    """
    return temporary_settings(globals(), locals().copy())


def __dir__() -> list[str]:
    return __all__

"""Settings of NNPACK, which is not used."""

from __future__ import annotations

from ._settings import temporary_settings

__all__ = ["flags", "is_available", "set_flags"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_enabled: bool = True


def is_available() -> bool:
    """Whether NNPACK is available: always False.

    >>> torch.backends.nnpack.is_available()
    False
    """
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Sets whether it is allowed, and returns the old setting. It has no effect.

    >>> torch.backends.nnpack.set_flags(True)
    (True,)
    """
    before = globals()["_enabled"]
    globals()["_enabled"] = _enabled
    return (before,)


def flags(enabled: bool = False) -> AbstractContextManager[None]:
    """Changes the setting inside a ``with`` block.

    >>> with torch.backends.nnpack.flags(enabled=False):
    ...     torch.backends.nnpack.set_flags(True)
    (False,)
    """
    return temporary_settings(globals(), {"_enabled": enabled})


def __dir__() -> list[str]:
    return __all__

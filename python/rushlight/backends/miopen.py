"""Settings of MIOpen, which is not used."""

from __future__ import annotations

from ._settings import temporary_settings

__all__ = ["flags", "immediate", "set_flags"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

immediate: bool = False


def set_flags(_immediate: bool) -> tuple[bool]:
    """Sets the setting, and returns the old one. It has no effect.

    >>> torch.backends.miopen.set_flags(False)
    (False,)
    """
    global immediate
    before, immediate = immediate, _immediate
    return (before,)


def flags(immediate: bool = False) -> AbstractContextManager[None]:
    """Changes the setting inside a ``with`` block.

    >>> with torch.backends.miopen.flags(immediate=True):
    ...     torch.backends.miopen.immediate
    True
    """
    return temporary_settings(globals(), {"immediate": immediate})


def __dir__() -> list[str]:
    return __all__

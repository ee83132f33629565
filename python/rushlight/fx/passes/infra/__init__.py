"""The base class of programs over graphs."""

from __future__ import annotations

from . import pass_base

__all__ = ["pass_base"]


def __dir__() -> list[str]:
    return __all__

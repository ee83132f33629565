"""What programs over graphs share."""

from __future__ import annotations

from . import matcher_utils

__all__ = ["matcher_utils"]


def __dir__() -> list[str]:
    return __all__

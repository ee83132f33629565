"""Programs over graphs."""

from __future__ import annotations

from . import infra, shape_prop, utils

__all__ = ["infra", "shape_prop", "utils"]


def __dir__() -> list[str]:
    return __all__

"""Data pipes: datasets that are chained by methods. torch no longer develops them; programs and torchdata use them."""

from __future__ import annotations

from . import datapipe, iter, map

__all__ = ["datapipe", "iter", "map"]


def __dir__() -> list[str]:
    return __all__

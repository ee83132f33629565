"""Algorithms of `torch.distributed`, of which there are only the names."""

from __future__ import annotations

from . import join

__all__ = ["join"]


def __dir__() -> list[str]:
    return __all__

"""Parts of `torch.fx` that torch calls experimental."""

from __future__ import annotations

from . import proxy_tensor

__all__ = ["proxy_tensor"]


def __dir__() -> list[str]:
    return __all__

"""`torch.ao.nn`: quantised layers."""

from __future__ import annotations

from . import quantized

__all__ = ["quantized"]


def __dir__() -> list[str]:
    return __all__

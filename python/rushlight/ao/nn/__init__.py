"""`torch.ao.nn`: quantised layers."""

from __future__ import annotations

from . import intrinsic, qat, quantized

__all__ = ["intrinsic", "qat", "quantized"]


def __dir__() -> list[str]:
    return __all__

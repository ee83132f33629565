"""`torch.ao`: quantisation."""

from __future__ import annotations

from . import nn, quantization

__all__ = ["nn", "quantization"]


def __dir__() -> list[str]:
    return __all__

"""`torch.ao`: quantisation, and pruning during training."""

from __future__ import annotations

from . import nn, pruning, quantization

__all__ = ["nn", "pruning", "quantization"]


def __dir__() -> list[str]:
    return __all__

"""The layers of `torch.ao.nn.quantized`."""

from __future__ import annotations

from . import conv, functional_modules, linear
from .conv import Conv1d, Conv2d, Conv3d
from .functional_modules import FloatFunctional, FXFloatFunctional, QFunctional
from .linear import Linear, LinearPackedParams
from .stubs import DeQuantize, Quantize

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "DeQuantize",
    "FXFloatFunctional",
    "FloatFunctional",
    "Linear",
    "LinearPackedParams",
    "QFunctional",
    "Quantize",
    "conv",
    "functional_modules",
    "linear",
]


def __dir__() -> list[str]:
    return __all__

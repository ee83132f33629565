"""The layers of `torch.ao.nn.quantized`."""

from __future__ import annotations

from . import batchnorm, conv, embedding_ops, functional_modules, linear
from .batchnorm import BatchNorm2d, BatchNorm3d
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .embedding_ops import Embedding, EmbeddingBag, EmbeddingPackedParams
from .functional_modules import FloatFunctional, FXFloatFunctional, QFunctional
from .linear import Linear, LinearPackedParams
from .stubs import DeQuantize, Quantize

__all__ = [
    "BatchNorm2d",
    "BatchNorm3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Embedding",
    "EmbeddingBag",
    "EmbeddingPackedParams",
    "batchnorm",
    "embedding_ops",
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

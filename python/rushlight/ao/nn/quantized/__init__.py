"""`torch.ao.nn.quantized`: layers over quantised tensors, and in `dynamic` those that quantise their inputs."""

from __future__ import annotations

from rushlight._unsupported import declare

from . import dynamic, modules
from .modules import (
    BatchNorm2d,
    BatchNorm3d,
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    DeQuantize,
    Embedding,
    EmbeddingBag,
    FloatFunctional,
    FXFloatFunctional,
    Linear,
    QFunctional,
    Quantize,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "BatchNorm2d",
    "BatchNorm3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Embedding",
    "EmbeddingBag",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "DeQuantize",
    "FXFloatFunctional",
    "FloatFunctional",
    "Linear",
    "QFunctional",
    "Quantize",
    "dynamic",
    "modules",
    *declare(
        globals(),
        "there is no quantised layer of this kind",
        """
        class Dropout ELU GroupNorm Hardswish InstanceNorm1d InstanceNorm2d InstanceNorm3d LSTM LayerNorm LeakyReLU
        class MultiheadAttention PReLU ReLU6 Sigmoid Softmax
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

"""`torch.ao.nn.quantized`: quantised layers, which rushlight does not have."""

from __future__ import annotations

from rushlight._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "there are no quantised layers",
        """
        class BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
        class DeQuantize Dropout ELU Embedding EmbeddingBag FXFloatFunctional FloatFunctional GroupNorm
        class Hardswish InstanceNorm1d InstanceNorm2d InstanceNorm3d LSTM LayerNorm LeakyReLU Linear
        class MultiheadAttention PReLU QFunctional Quantize ReLU6 Sigmoid Softmax
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

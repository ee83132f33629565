"""The two ends of the quantised part of a model."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor, nn

__all__ = ["DeQuantize", "Quantize"]


class Quantize(nn.Module):
    """Quantises tensors with a scale and a zero point.

    >>> torch.ao.nn.quantized.Quantize(0.5, 1, torch.quint8)(torch.ones(1)).int_repr()
    tensor([3], dtype=torch.uint8)
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(self, scale: float, zero_point: int, dtype: Any, factory_kwargs: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor([scale]))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.long))
        self.dtype = dtype

    def forward(self, X: Tensor) -> Tensor:
        made: Tensor = torch.quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)
        return made

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Quantize:
        """The module for a prepared `QuantStub`."""
        if not hasattr(mod, "activation_post_process"):
            raise AssertionError("Expected mod to have an activation_post_process attribute")
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return Quantize(float(scale), int(zero_point), mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(nn.Module):
    """Gives the numbers of quantised tensors.

    >>> q = torch.quantize_per_tensor(torch.ones(1), 0.5, 0, torch.quint8)
    >>> torch.ao.nn.quantized.DeQuantize()(q)
    tensor([1.])
    """

    def forward(self, Xq: Tensor) -> Tensor:
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        """The module for a prepared `DeQuantStub`."""
        return DeQuantize()


def __dir__() -> list[str]:
    return __all__

"""Normalisations of quantised tensors, with known means and variances."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor, nn
from rushlight import _quantized_ops as ops
from rushlight.nn.modules.batchnorm import _BatchNorm as _FloatBatchNorm

__all__ = ["BatchNorm2d", "BatchNorm3d"]


class _BatchNorm(_FloatBatchNorm):
    """A normalisation whose result has the scale and the zero point of the layer."""

    _call: Any = None
    _dims = 2
    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(num_features, eps, momentum, device=device, dtype=dtype)
        self.register_buffer("scale", torch.tensor(1.0))
        self.register_buffer("zero_point", torch.tensor(0))

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != self._dims + 2:
            raise ValueError(f"Input shape must be `{'(N, C, H, W)' if self._dims == 2 else '(N, C, H, W, D)'}`!")
        given: Any = self.weight, self.bias, self.running_mean, self.running_var
        return self._call(input, *(part.detach() for part in given), self.eps, float(self.scale), int(self.zero_point))

    def _get_name(self) -> str:
        return f"QuantizedBatchNorm{self._dims}d"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer of a prepared normalisation: with the range that its observer saw."""
        layer = mod[0] if isinstance(mod, nn.Sequential) else mod
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        made = cls(layer.num_features, layer.eps)
        made.weight, made.bias = layer.weight, layer.bias
        made.running_mean, made.running_var = layer.running_mean, layer.running_var
        made.scale, made.zero_point = scale, zero_point
        return made


class BatchNorm2d(_BatchNorm):
    """A normalisation of quantised images.

    >>> q = torch.quantize_per_tensor(torch.ones(1, 2, 3, 3), 0.1, 0, torch.quint8)
    >>> torch.ao.nn.quantized.BatchNorm2d(2)(q).shape
    torch.Size([1, 2, 3, 3])
    """

    _call = staticmethod(ops.batch_norm2d)


class BatchNorm3d(_BatchNorm):
    """A normalisation of quantised volumes."""

    _call = staticmethod(ops.batch_norm3d)
    _dims = 3


def __dir__() -> list[str]:
    return __all__

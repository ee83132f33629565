"""`torch.ao.nn.intrinsic.quantized`: quantised layers without negative results."""

from __future__ import annotations

from rushlight import Tensor
from rushlight import _quantized_ops as ops
from rushlight.ao.nn import quantized

__all__ = ["BNReLU2d", "BNReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU"]


class LinearReLU(quantized.Linear):
    """A quantised linear layer without negative results.

    >>> q = torch.quantize_per_tensor(torch.ones(1, 2), 0.1, 0, torch.quint8)
    >>> torch.ao.nn.intrinsic.quantized.LinearReLU(2, 3)(q).shape
    torch.Size([1, 3])
    """

    def forward(self, x: Tensor) -> Tensor:
        return ops.linear_relu(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLinearReLU"


class ConvReLU1d(quantized.Conv1d):
    """A quantised convolution of 1 dimension without negative results."""

    _call = staticmethod(ops.conv1d_relu)

    def _get_name(self) -> str:
        return "QuantizedConvReLU1d"


class ConvReLU2d(quantized.Conv2d):
    """A quantised convolution of 2 dimensions without negative results."""

    _call = staticmethod(ops.conv2d_relu)

    def _get_name(self) -> str:
        return "QuantizedConvReLU2d"


class ConvReLU3d(quantized.Conv3d):
    """A quantised convolution of 3 dimensions without negative results."""

    _call = staticmethod(ops.conv3d_relu)

    def _get_name(self) -> str:
        return "QuantizedConvReLU3d"


class BNReLU2d(quantized.BatchNorm2d):
    """A normalisation of quantised tensors of 2 dimensions without negative results."""

    _call = staticmethod(ops.batch_norm2d_relu)

    def _get_name(self) -> str:
        return "QuantizedBNReLU2d"


class BNReLU3d(quantized.BatchNorm3d):
    """A normalisation of quantised tensors of 3 dimensions without negative results."""

    _call = staticmethod(ops.batch_norm3d_relu)

    def _get_name(self) -> str:
        return "QuantizedBNReLU3d"


def __dir__() -> list[str]:
    return __all__

"""`torch.ao.nn.intrinsic.qat`: layers that are quantised together, for training with rounded weights.

A convolution or a linear layer and the normalisation behind it have one weight when they are quantised. Training rounds
this product, divides by the factors of the normalisation again, and normalises as usual.
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor, nn
from rushlight.ao.nn import intrinsic, qat
from rushlight.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

__all__ = [
    "ConvBn1d",
    "ConvBn2d",
    "ConvBn3d",
    "ConvBnReLU1d",
    "ConvBnReLU2d",
    "ConvBnReLU3d",
    "ConvReLU1d",
    "ConvReLU2d",
    "ConvReLU3d",
    "LinearBn1d",
    "LinearReLU",
    "freeze_bn_stats",
    "update_bn_stats",
]


class _Normalised(nn.Module):
    """A layer with a normalisation behind it (`bn`)."""

    _FLOAT_MODULE: Any = None
    _with_relu = False
    weight: Any
    bias: Any
    bn: Any

    def _add(self, bn: Any, freeze_bn: bool, qconfig: Any) -> None:
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = bn
        self.weight_fake_quant = qconfig.weight()
        self.bn.training = self.training and not freeze_bn

    def reset_running_stats(self) -> None:
        """Forgets the statistics of the normalisation."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self) -> None:
        """Gives the normalisation its first parameters and statistics again."""
        self.bn.reset_running_stats()
        nn.init.uniform_(self.bn.weight)
        nn.init.zeros_(self.bn.bias)

    def update_bn_stats(self) -> Any:
        """Lets training change the statistics of the normalisation."""
        self.freeze_bn = False
        self.bn.training = True
        return self

    def freeze_bn_stats(self) -> Any:
        """Keeps the statistics of the normalisation as they are."""
        self.freeze_bn = True
        self.bn.training = False
        return self

    def train(self, mode: bool = True) -> Any:
        """Sets the mode of the layer, and that of the normalisation unless its statistics are frozen."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():
                module.train(mode)
        return self

    def _layer(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        raise NotImplementedError

    def _channels(self, dim: int) -> list[int]:
        """The shape of the factors beside a result of so many dimensions."""
        return [1, -1, *[1] * (dim - 2)]

    def forward(self, input: Tensor) -> Tensor:
        factor = self.bn.weight / torch.sqrt(self.bn.running_var + self.bn.eps)
        rounded = self.weight_fake_quant(self.weight * factor.reshape([-1, *[1] * (self.weight.dim() - 1)]))
        zeros = None if self.bias is None else torch.zeros_like(self.bias)
        result = self._layer(input, rounded, zeros)
        shape = self._channels(result.dim())
        result = result / factor.reshape(shape)
        if self.bias is not None:
            result = result + self.bias.reshape(shape)
        result = self.bn(result)
        return result.relu() if self._with_relu else result

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer for a fused float one with a configuration, with the same parameters."""
        qconfig = qat.checked_config(mod, cls, (cls._FLOAT_MODULE,))
        layer, bn = mod[0], mod[1]
        made: Any = cls(
            **cls._of(layer), bias=layer.bias is not None, eps=bn.eps, momentum=bn.momentum, qconfig=qconfig
        )
        made.weight, made.bias, made.bn = layer.weight, layer.bias, bn
        return made

    @classmethod
    def _of(cls, layer: Any) -> dict[str, Any]:
        raise NotImplementedError

    def joined(self) -> tuple[Tensor, Any]:
        """The weight and the bias that do the work of both layers."""
        raise NotImplementedError


class _ConvBnNd(_Normalised):
    """A convolution with a normalisation behind it."""

    _conv: Any = None
    _bn: Any = None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool | None = None,
        padding_mode: str = "zeros",
        eps: float = 1e-05,
        momentum: float = 0.1,
        freeze_bn: bool = False,
        qconfig: Any = None,
    ) -> None:
        geometry = stride, padding, dilation, groups
        self._conv.__init__(self, in_channels, out_channels, kernel_size, *geometry, bool(bias), padding_mode)
        self._add(self._bn(out_channels, eps, momentum, True, True), freeze_bn, qconfig)

    def _layer(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        own: Any = self
        return own._conv_forward(input, weight, bias)

    @classmethod
    def _of(cls, layer: Any) -> dict[str, Any]:
        return {name: getattr(layer, name) for name in qat._ConvNd._options}

    def joined(self) -> tuple[Tensor, Any]:
        bn = self.bn
        return fuse_conv_bn_weights(self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)


class LinearBn1d(_Normalised, nn.Linear):
    """A linear layer with a normalisation behind it, for training.

    >>> layer = torch.ao.nn.intrinsic.qat.LinearBn1d(2, 3, qconfig=torch.ao.quantization.default_qat_qconfig)
    >>> layer(torch.ones(4, 2)).shape
    torch.Size([4, 3])
    """

    _FLOAT_MODULE = intrinsic.LinearBn1d

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        eps: float = 1e-05,
        momentum: float = 0.1,
        freeze_bn: bool = False,
        qconfig: Any = None,
    ) -> None:
        nn.Linear.__init__(self, in_features, out_features, bias)
        self._add(nn.BatchNorm1d(out_features, eps, momentum, True, True), freeze_bn, qconfig)

    def _layer(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return nn.functional.linear(input, weight, bias)

    @classmethod
    def _of(cls, layer: Any) -> dict[str, Any]:
        return {"in_features": layer.in_features, "out_features": layer.out_features}

    def joined(self) -> tuple[Tensor, Any]:
        bn = self.bn
        return fuse_linear_bn_weights(
            self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )


class _WithoutNegatives(nn.Module):
    """Replaces the negative results of the class behind it by zero."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).relu()


class LinearReLU(_WithoutNegatives, qat.Linear):
    """A linear layer without negative results, for training.

    >>> layer = torch.ao.nn.intrinsic.qat.LinearReLU(2, 3, qconfig=torch.ao.quantization.default_qat_qconfig)
    >>> bool((layer(torch.ones(1, 2)) >= 0).all())
    True
    """

    _FLOAT_MODULE = intrinsic.LinearReLU


class ConvReLU1d(_WithoutNegatives, qat.Conv1d):
    """A convolution of 1 dimension without negative results, for training."""

    _FLOAT_MODULE = intrinsic.ConvReLU1d


class ConvBn1d(_ConvBnNd, nn.Conv1d):
    """A convolution of 1 dimension with a normalisation behind it, for training."""

    _FLOAT_MODULE, _conv, _bn = intrinsic.ConvBn1d, nn.Conv1d, nn.BatchNorm1d


class ConvBnReLU1d(ConvBn1d):
    """A convolution of 1 dimension with a normalisation behind it and without negative results, for training."""

    _FLOAT_MODULE, _with_relu = intrinsic.ConvBnReLU1d, True


class ConvReLU2d(_WithoutNegatives, qat.Conv2d):
    """A convolution of 2 dimensions without negative results, for training."""

    _FLOAT_MODULE = intrinsic.ConvReLU2d


class ConvBn2d(_ConvBnNd, nn.Conv2d):
    """A convolution of 2 dimensions with a normalisation behind it, for training."""

    _FLOAT_MODULE, _conv, _bn = intrinsic.ConvBn2d, nn.Conv2d, nn.BatchNorm2d


class ConvBnReLU2d(ConvBn2d):
    """A convolution of 2 dimensions with a normalisation behind it and without negative results, for training."""

    _FLOAT_MODULE, _with_relu = intrinsic.ConvBnReLU2d, True


class ConvReLU3d(_WithoutNegatives, qat.Conv3d):
    """A convolution of 3 dimensions without negative results, for training."""

    _FLOAT_MODULE = intrinsic.ConvReLU3d


class ConvBn3d(_ConvBnNd, nn.Conv3d):
    """A convolution of 3 dimensions with a normalisation behind it, for training."""

    _FLOAT_MODULE, _conv, _bn = intrinsic.ConvBn3d, nn.Conv3d, nn.BatchNorm3d


class ConvBnReLU3d(ConvBn3d):
    """A convolution of 3 dimensions with a normalisation behind it and without negative results, for training."""

    _FLOAT_MODULE, _with_relu = intrinsic.ConvBnReLU3d, True


def update_bn_stats(mod: Any) -> None:
    """Lets training change the statistics of a layer's normalisation, in ``model.apply(update_bn_stats)``."""
    if isinstance(mod, _Normalised):
        mod.update_bn_stats()


def freeze_bn_stats(mod: Any) -> None:
    """Keeps the statistics of a layer's normalisation, in ``model.apply(freeze_bn_stats)``."""
    if isinstance(mod, _Normalised):
        mod.freeze_bn_stats()


def __dir__() -> list[str]:
    return __all__

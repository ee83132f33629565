"""Fuses batch normalisation with the layer before it, for evaluation."""

from __future__ import annotations

import copy

import rushlight as torch

from ..parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from rushlight import Tensor

    from ..modules.batchnorm import _BatchNorm
    from ..modules.conv import _ConvNd
    from ..modules.linear import Linear

    C = TypeVar("C", bound=_ConvNd)
    L = TypeVar("L", bound=Linear)

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def fuse_conv_bn_eval(conv: C, bn: _BatchNorm, transpose: bool = False) -> C:
    """Fuses a convolution and the batch normalisation after it into one convolution.

    Args:
        conv, bn: the two modules, in evaluation.
        transpose: whether the convolution is transposed.

    Raises:
        AssertionError: a module is in training mode, or there are no running statistics.

    >>> conv, norm = torch.nn.Conv2d(1, 2, 1).eval(), torch.nn.BatchNorm2d(2).eval()
    >>> image = torch.ones(1, 1, 1, 1)
    >>> torch.allclose(fuse_conv_bn_eval(conv, norm)(image), norm(conv(image)))
    True
    """
    mean, var = _statistics(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution that is fused with the batch normalisation after it.

    Args:
        conv_w, conv_b: weight and bias (or None) of the convolution.
        bn_rm, bn_rv, bn_eps: running mean, running variance and epsilon of the normalisation.
        bn_w, bn_b: its weight and bias, or None.
        transpose: whether the convolution is transposed.

    >>> conv, norm = torch.nn.Conv1d(2, 3, 1), torch.nn.BatchNorm1d(3).eval()
    >>> statistics = norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    >>> weight, bias = torch.nn.utils.fuse_conv_bn_weights(conv.weight, conv.bias, *statistics)
    >>> x = torch.ones(1, 2, 4)
    >>> torch.allclose(torch.nn.functional.conv1d(x, weight, bias), norm(conv(x)), atol=1e-6)
    True
    """
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    scale = torch.rsqrt(bn_rv + bn_eps)
    if bn_w is not None:
        scale = scale * bn_w
    return _fused(conv_w, conv_b, bn_rm, bn_b, scale, scale.reshape(shape))


def fuse_linear_bn_eval(linear: L, bn: _BatchNorm) -> L:
    """Fuses a linear layer and the batch normalisation after it into one linear layer.

    Raises:
        AssertionError: a module is in training mode, the sizes differ, or there are no running statistics.

    >>> linear, norm = torch.nn.Linear(1, 2).eval(), torch.nn.BatchNorm1d(2).eval()
    >>> torch.allclose(fuse_linear_bn_eval(linear, norm)(torch.ones(1, 1)), norm(linear(torch.ones(1, 1))))
    True
    """
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    mean, var = _statistics(linear, bn)
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias)
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer that is fused with the batch normalisation after it.

    Args:
        linear_w, linear_b: weight and bias (or None) of the layer.
        bn_rm, bn_rv, bn_eps: running mean, running variance and epsilon of the normalisation.
        bn_w, bn_b: its weight and bias.

    >>> linear, norm = torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3).eval()
    >>> statistics = norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    >>> weight, bias = torch.nn.utils.fuse_linear_bn_weights(linear.weight, linear.bias, *statistics)
    >>> x = torch.ones(1, 2)
    >>> torch.allclose(torch.nn.functional.linear(x, weight, bias), norm(linear(x)), atol=1e-6)
    True
    """
    scale = bn_w * torch.rsqrt(bn_rv + bn_eps)
    return _fused(linear_w, linear_b, bn_rm, bn_b, scale, scale.unsqueeze(-1))


def _statistics(layer: _ConvNd | Linear, bn: _BatchNorm) -> tuple[Tensor, Tensor]:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return bn.running_mean, bn.running_var


def _fused(
    weight: Tensor, bias: Tensor | None, mean: Tensor, shift: Tensor | None, scale: Tensor, factors: Tensor
) -> tuple[Parameter, Parameter]:
    dtype = weight.dtype if bias is None else bias.dtype
    trained = bias is not None and bias.requires_grad
    moved = ((-mean if bias is None else bias - mean) * scale).to(dtype)
    if shift is not None:
        moved = moved + shift
    return Parameter((weight * factors).to(weight.dtype), weight.requires_grad), Parameter(moved.to(dtype), trained)

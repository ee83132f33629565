"""Initialisation of weights. Every function fills a tensor in place, without recording gradients, and returns it.

Bounds are computed in Python floats in torch's order, so that the same seed gives torch's values.
"""

from __future__ import annotations

import functools
import math

import rushlight as torch
from rushlight._overridable import overridable
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]


_PLAIN_GAINS = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The gain for a nonlinearity: the factor that preserves the variance of activations.

    Args:
        param: the negative slope of ``"leaky_relu"``, 0.01 by default.

    Raises:
        ValueError: the nonlinearity is unknown, or the slope is not a number.

    >>> calculate_gain("leaky_relu", 0.2)
    1.3867504905630728
    """
    if nonlinearity in _PLAIN_GAINS:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


@overridable
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fills with uniform values between ``a`` and ``b``.

    >>> weight = uniform_(torch.empty(3), 2.0, 4.0)
    >>> bool((weight >= 2).all() and (weight < 4).all())
    True
    """
    with torch.no_grad():
        return tensor.uniform_(a, b, generator=generator)


@overridable
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fills with normally distributed values.

    >>> normal_(torch.empty(3), mean=7.0, std=0.0)
    tensor([7., 7., 7.])
    """
    with torch.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Fills with normally distributed values between ``a`` and ``b``. Values outside are drawn again.

    >>> bool((trunc_normal_(torch.empty(100), std=2.0).abs() <= 2).all())
    True
    """
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
        )

    def normal() -> tuple[Tensor, Tensor]:
        values = torch.empty_like(tensor).normal_(mean, std, generator=generator)
        return values, (values < low) | (values > high)

    def uniform() -> tuple[Tensor, Tensor]:
        values = torch.empty_like(tensor).uniform_(a, b, generator=generator)
        if is_steep:
            chance = (values - mode) * ((values - mode) + 2 * (mode - mean)) * (-0.5 / std**2)
        else:
            chance = ((values - mean) / std) ** 2 * -0.5 - log_peak
        return values, torch.empty_like(tensor).uniform_(generator=generator).log() > chance

    # Bounds rounded to the tensor's dtype, so that no value is outside of a rounded bound.
    low, high = (torch.tensor(bound, dtype=tensor.dtype).item() for bound in (a, b))
    share_inside = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std)
    # A negative deviation has the same density. The share is then negative, so that uniform values are drawn, as in torch.
    std = abs(std)
    mode = max(a, min(mean, b))
    peak = abs(mode - mean) / std
    log_peak = -0.5 * peak * peak
    # Far out in a tail, nearly all uniform values would be rejected, except close to one bound, and the log density
    # would lose its digits to that of the peak. Beyond `reach` the density is less than e**-40 of the peak.
    reach = std * 80 / (math.sqrt(peak * peak + 80) + peak)
    start, end = max(a, mode - reach), min(b, mode + reach)
    is_steep = share_inside <= 0.3 and b - a > 1000 * (end - start)
    if is_steep:
        a, b = start, end
    with torch.no_grad():
        # If most normal values would be outside, draw uniform values and accept them according to the density.
        draw = normal if share_inside > 0.3 else uniform
        values, rejected = draw()
        while rejected.any():
            again, still_rejected = draw()
            values = torch.where(rejected, again, values)
            rejected = rejected & still_rejected
        return tensor.copy_(values)


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


@overridable
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills with one value.

    >>> constant_(torch.empty(2), 0.3)
    tensor([0.3000, 0.3000])
    """
    with torch.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills with ones.

    >>> ones_(torch.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills with zeros.

    >>> zeros_(torch.empty(2))
    tensor([0., 0.])
    """
    with torch.no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Fills with the identity matrix.

    Raises:
        ValueError: the tensor is not a matrix.

    >>> eye_(torch.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with torch.no_grad():
        return tensor.copy_(torch.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fills convolution kernels so that as many input channels as possible are passed on unchanged, in each group.

    Raises:
        ValueError: the tensor does not have 3 to 5 dimensions, or ``groups`` does not divide its first.

    >>> dirac_(torch.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    out_channels, in_channels, *kernel = tensor.shape
    if out_channels % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    in_group = out_channels // groups
    center = tuple(size // 2 for size in kernel)
    with torch.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(in_group, in_channels)):
                tensor[(group * in_group + channel, channel, *center)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """The number of inputs of each output, and the number of outputs of each input."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    fan_out, fan_in, *kernel = tensor.shape
    field = math.prod(kernel)
    return fan_in * field, fan_out * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    modes = ["fan_in", "fan_out"]
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fills with uniform values within ``gain * sqrt(6 / (fan_in + fan_out))`` (Glorot and Bengio 2010).

    Raises:
        ValueError: the tensor has fewer than 2 dimensions.

    >>> bool((xavier_uniform_(torch.empty(3, 3)).abs() <= 1).all())
    True
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fills with normal values of deviation ``gain * sqrt(2 / (fan_in + fan_out))`` (Glorot and Bengio 2010).

    Raises:
        ValueError: the tensor has fewer than 2 dimensions.

    >>> xavier_normal_(torch.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out))


@overridable
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Fills with uniform values within ``gain * sqrt(3 / fan)`` (He and others 2015).

    Args:
        tensor: the tensor to fill.
        a: the negative slope of ``"leaky_relu"``.
        mode: ``"fan_in"`` preserves the variance in the forward pass, ``"fan_out"`` in the backward pass.
        nonlinearity: the nonlinearity after the layer; see `calculate_gain`.
        generator: the random generator; the default generator if None.

    Raises:
        ValueError: the tensor has fewer than 2 dimensions, or the mode is unknown.

    >>> bool((kaiming_uniform_(torch.empty(3, 6), nonlinearity="relu").abs() <= 1).all())
    True
    """
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Fills with normal values of deviation ``gain / sqrt(fan)`` (He and others 2015). See `kaiming_uniform_`.

    Raises:
        ValueError: the tensor has fewer than 2 dimensions, or the mode is unknown.

    >>> kaiming_normal_(torch.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return tensor
    return normal_(tensor, 0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: torch.Generator | None = None) -> Tensor:
    """Fills with normal values of deviation ``std``, and with zeros for a share ``sparsity`` of each column.

    Raises:
        ValueError: the tensor is not a matrix.

    >>> int((sparse_(torch.empty(10, 2), sparsity=0.5) == 0).sum())
    10
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with torch.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[torch.randperm(rows)[:zeros], column] = 0
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: torch.Generator | None = None) -> Tensor:
    """Fills with orthonormal rows or columns, whichever are fewer, times ``gain`` (Saxe et al. 2013).

    The dimensions after the first count as one.

    Raises:
        ValueError: the tensor has fewer than 2 dimensions.

    >>> weight = orthogonal_(torch.empty(3, 5))
    >>> torch.allclose(weight @ weight.T, torch.eye(3), atol=1e-6)
    True
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    with torch.no_grad():
        rows = tensor.size(0)
        drawn = tensor.new_empty((rows, tensor.numel() // rows)).normal_(0, 1, generator=generator)
        wide = rows < drawn.size(1)
        q, r = torch.linalg.qr(drawn.T if wide else drawn)
        # The factorisation with a positive diagonal is uniformly distributed; the others are not.
        q = q * r.diagonal().sign()
        return tensor.copy_((q.T if wide else q).reshape(tensor.shape)).mul_(gain)


# Torch's names of the functions that run without recording. All functions here do; programs import these names.
_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_


def _deprecated(function: Callable[..., Any]) -> Callable[..., Any]:
    new_name = function.__name__
    old_name = new_name[:-1]

    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> Any:
        warn(f"`nn.init.{old_name}` is now deprecated in favor of `nn.init.{new_name}`.", FutureWarning)
        return function(*args, **kwargs)

    renamed.__name__ = renamed.__qualname__ = old_name
    renamed.__doc__ = f"Deprecated name of `{new_name}`, with the same arguments and results. Gives a FutureWarning."
    return renamed


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)


def __dir__() -> list[str]:
    return __all__

"""Numbers rounded as quantisation rounds them, with gradients: ``fake_quantize_per_tensor_affine`` and the others.

The gradient passes where the integer was within its limits, as if there were no rounding. The learnable forms have
gradients of the scale and of the zero point too, those of "Learned Step Size Quantization" (Esser et al., 2020).
"""

from __future__ import annotations

import rushlight as torch
from rushlight._compiled import compiled
from rushlight._set_module import set_module
from rushlight.autograd import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = ["fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine", "fused_moving_avg_obs_fake_quant"]


def _rounded(
    input: Tensor, scale: Any, zero_point: Any, limits: tuple[int, int], ends: bool = True
) -> tuple[Tensor, Tensor]:
    """The rounded numbers, and where the integers were within the limits.

    Scales are float32, whatever the dtype of the tensor. With `ends`, positive infinity is the greatest integer. Without,
    numbers beyond 64 bits are the least, as a processor converts them.
    """
    wide = input if input.dtype is torch.float64 else input.float()
    scale = torch.as_tensor(scale, dtype=torch.float32)
    integers = wide * (1 / scale).to(wide.dtype)
    if isinstance(zero_point, torch.Tensor) and zero_point.is_floating_point():
        integers = (integers + zero_point).round()
    else:
        integers = integers.round() + zero_point
    beyond = integers.abs() < 2.0**63
    integers = torch.where(beyond | ((integers > 0) & ends), integers, -_INFINITE)
    within = (integers >= limits[0]) & (integers <= limits[1])
    limited = integers.clamp(*limits)
    if isinstance(zero_point, torch.Tensor) and zero_point.is_floating_point():
        return ((limited.double() - zero_point) * scale).to(input.dtype), within
    return ((limited.float() - zero_point) * scale).to(input.dtype), within


_INFINITE = float("inf")


class FakeQuantizePerTensorAffineCachemask(Function):
    """One scale, as a number or as a tensor, without a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Tensor:
        numbers, within = _rounded(
            input, scale, zero_point, (quant_min, quant_max), not isinstance(scale, torch.Tensor) or scale.numel() == 1
        )
        ctx.save_for_backward(within)
        return numbers

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (within,) = ctx.saved_tensors
        return grads[0] * within, None, None, None, None


class FakeQuantizePerTensorAffineCachemaskTensorQparams(FakeQuantizePerTensorAffineCachemask):
    """The same for parameters that are tensors."""


class FakeQuantizePerChannelAffineCachemask(FakeQuantizePerTensorAffineCachemask):
    """The same with a scale for each channel."""


class FakeQuantizeLearnable(Function):
    """Scales and zero points of the shape of the tensor's channels, with gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        scale: Tensor,
        zero_point: Tensor,
        shape: list[int],
        quant_min: int,
        quant_max: int,
        grad_factor: float,
        per_channel: bool,
    ) -> Tensor:
        zeros = zero_point.round().clamp(quant_min, quant_max).view(shape)
        # torch rounds a single zero point differently for the gradients.
        rounded = zeros if per_channel else (zero_point + 0.5).clamp(quant_min, quant_max).trunc().view(shape)
        ctx.save_for_backward(input, scale, rounded)
        ctx.rest = shape, quant_min, quant_max, grad_factor
        return _rounded(input, scale.view(shape), zeros, (quant_min, quant_max))[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        input, scale, zeros = ctx.saved_tensors
        shape, quant_min, quant_max, factor = ctx.rest
        grad, wide = grads[0], scale.view(shape)
        integers = (input * (1 / wide) + zeros).round()
        below, above = integers < quant_min, integers > quant_max
        numbers, within = (integers - zeros) * wide, ~(below | above)
        dims = [dim for dim, size in enumerate(shape) if size == 1]
        of_scale = torch.where(
            below, quant_min - zeros, torch.where(above, quant_max - zeros, (numbers - input) * (1 / wide))
        )
        of_zero = torch.where(within, torch.zeros_like(input), -wide.expand_as(input))
        sums = [(grad * own * factor).sum(dims).view(scale.shape) for own in (of_scale, of_zero)]
        return grad * within, *sums, None, None, None, None, None


def _check_limits(quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or         equal to `quant_max`.")


@compiled(
    "Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max",
    "Tensor input, float scale, int zero_point, int quant_min, int quant_max",
)
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """The numbers that quantised ones would be: ``(clamp(round(input / scale) + zero_point) - zero_point) * scale``.

    Scale and zero point are numbers, or tensors with one number.

    Raises:
        RuntimeError: the limits are in the wrong order, or the zero point is not between them.

    >>> x = torch.tensor([0.26, 9.0], requires_grad=True)
    >>> y = torch.fake_quantize_per_tensor_affine(x, 0.5, 0, 0, 15)
    >>> y.detach()
    tensor([0.5000, 7.5000])
    >>> y.sum().backward()
    >>> x.grad
    tensor([1., 0.])
    """
    _check_limits(quant_min, quant_max)
    if isinstance(scale, torch.Tensor):
        apply = FakeQuantizePerTensorAffineCachemaskTensorQparams.apply
        return apply(input, scale.detach(), torch.as_tensor(zero_point).detach(), quant_min, quant_max)
    if not quant_min <= zero_point <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    return FakeQuantizePerTensorAffineCachemask.apply(input, scale, zero_point, quant_min, quant_max)


def _channel_shape(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int) -> list[int]:
    """The shape in which the channels' parameters broadcast to the tensor; checks their sizes."""
    if scale.dim() != 1:
        raise RuntimeError("scale should be a 1-D tensor")
    if zero_point.dim() != 1:
        raise RuntimeError("zero point should be a 1-D tensor")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    if not 0 <= axis < input.dim():
        raise RuntimeError("`axis` must be between 0 and number of dimensions of input")
    if scale.numel() != input.size(axis):
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    return [scale.numel() if dim == axis else 1 for dim in range(input.dim())]


@compiled()
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point for each index of dimension `axis`.

    Raises:
        RuntimeError: there are not as many scales and zero points as indices, or a zero point is not between the limits.

    >>> x = torch.tensor([[0.3, 0.8], [0.3, 0.8]])
    >>> zeros = torch.zeros(2, dtype=torch.int32)
    >>> torch.fake_quantize_per_channel_affine(x, torch.tensor([0.5, 1.0]), zeros, 0, 0, 255)
    tensor([[0.5000, 1.0000],
            [0.0000, 1.0000]])
    """
    if scale.dtype is not torch.float32 and scale.dtype is not torch.bfloat16:
        raise RuntimeError(f"Scale must be Float or BFloat16, found {_name(scale.dtype)}")
    if zero_point.dtype not in (torch.int32, torch.float32, torch.float16):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {_name(zero_point.dtype)}")
    shape = _channel_shape(input, scale, zero_point, axis)
    _check_limits(quant_min, quant_max)
    if not zero_point.is_floating_point() and zero_point.numel():
        least, most = (int(end) for end in zero_point.aminmax())
        if least < quant_min or most > quant_max:
            raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    wide = scale.detach().view(shape), zero_point.detach().view(shape)
    return FakeQuantizePerChannelAffineCachemask.apply(input, *wide, quant_min, quant_max)


def _name(dtype: torch.dtype) -> str:
    """torch's name of a dtype in errors."""
    return torch.empty(0, dtype=dtype).type().removeprefix("torch.").removesuffix("Tensor")


@compiled()
def _fake_quantize_learnable_per_tensor_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Tensor:
    """`fake_quantize_per_tensor_affine` with gradients of the scale and of the zero point, times `grad_factor`.

    >>> scale = torch.tensor([0.5], requires_grad=True)
    >>> x = torch.tensor([0.3, 9.0])
    >>> torch._fake_quantize_learnable_per_tensor_affine(x, scale, torch.zeros(1), 0, 15).sum().backward()
    >>> scale.grad
    tensor([15.4000])
    """
    shape = [1] * max(input.dim(), 1)
    return FakeQuantizeLearnable.apply(input, scale, zero_point, shape, quant_min, quant_max, grad_factor, False)


@compiled()
def _fake_quantize_learnable_per_channel_affine(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> Tensor:
    """The same with a scale and a zero point for each index of dimension `axis`.

    >>> scale, zero = torch.tensor([0.5, 1.0], requires_grad=True), torch.zeros(2)
    >>> torch._fake_quantize_learnable_per_channel_affine(torch.ones(2, 3), scale, zero, 0, 0, 255).sum().backward()
    >>> scale.grad
    tensor([0., 0.])
    """
    shape = _channel_shape(input, scale, zero_point, axis)
    return FakeQuantizeLearnable.apply(input, scale, zero_point, shape, quant_min, quant_max, grad_factor, True)


def choose_qparams(low: Tensor, high: Tensor, limits: tuple[int, int], symmetric: bool) -> tuple[Tensor, Tensor]:
    """Scales and zero points for ranges, as ``fused_moving_avg_obs_fake_quant`` chooses them."""
    from rushlight import _C

    quant_min, quant_max = limits
    scales, zeros = [], []
    for least, most in zip(low.reshape(-1).tolist(), high.reshape(-1).tolist()):
        if symmetric and least < 0 < most:
            # The range of integers is signed, and its middle stands for zero.
            ends = -((quant_max - quant_min) // 2 + 1), (quant_max - quant_min) // 2
            step = max(abs(least / ends[0]), abs(most / ends[1]))
            scale, _ = _C._choose_qparams(step * ends[0], step * ends[1], quant_min, quant_max)
            zero = round((quant_min + quant_max) / 2)
        else:
            scale, zero = _C._choose_qparams(least, most, quant_min, quant_max)
        scales.append(scale)
        zeros.append(zero)
    return torch.tensor(scales, dtype=torch.float32), torch.tensor(zeros, dtype=torch.int32)


@compiled()
def fused_moving_avg_obs_fake_quant(
    input: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> Tensor:
    """Observes a tensor and rounds it as quantisation does.

    With `observer_on` the running minimum and maximum, and the scale and the zero point for them, change in place. With
    `fake_quant_on` the result is that of `fake_quantize_per_tensor_affine`, or of the form with channels.

    >>> ends = torch.tensor([float("inf")]), torch.tensor([float("-inf")])
    >>> scale, zero, on = torch.ones(1), torch.zeros(1, dtype=torch.int32), torch.ones(1, dtype=torch.int64)
    >>> x = torch.tensor([-1.0, 1.0])
    >>> torch.fused_moving_avg_obs_fake_quant(x, on, on, *ends, scale, zero, 0.01, 0, 255, 0).shape
    torch.Size([2])
    >>> scale
    tensor([0.0078])
    """
    _check_limits(quant_min, quant_max)
    if int(observer_on):
        with torch.no_grad():
            _observe(input.detach(), running_min, running_max, averaging_const, ch_axis if per_row_fake_quant else None)
            new = choose_qparams(running_min, running_max, (quant_min, quant_max), symmetric_quant)
            for own, value in zip((scale, zero_point), new):
                if own.shape != value.shape:
                    own.resize_(value.shape)
                own.copy_(value)
    if not int(fake_quant_on):
        return input.view_as(input) if input.requires_grad else input.clone()
    if per_row_fake_quant:
        return fake_quantize_per_channel_affine(input, scale, zero_point, ch_axis, quant_min, quant_max)
    return fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max)


def _observe(input: Tensor, low: Tensor, high: Tensor, constant: float, axis: int | None) -> None:
    """Moves the running ends of the range towards those of a tensor."""
    if axis is None:
        ends = [end.reshape(low.shape if low.numel() == 1 else 1) for end in input.aminmax()]
    else:
        flat = input.movedim(axis, 0).reshape(input.size(axis), -1)
        ends = list(flat.aminmax(dim=1))
    for own, end in zip((low, high), ends):
        if own.shape != end.shape:
            own.resize_(end.shape).copy_(end)
        else:
            new = torch.where(torch.isinf(own), end, own + constant * (end - own))
            own.copy_(new)


set_module(
    "rushlight",
    fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine,
    fused_moving_avg_obs_fake_quant,
    _fake_quantize_learnable_per_channel_affine,
    _fake_quantize_learnable_per_tensor_affine,
)

"""Functions of torch's engine for quantised tensors that `torch.nn` has under other names, and the search for a range."""

from __future__ import annotations

import math

import rushlight as torch
from rushlight._compiled import compiled
from rushlight._loading import load
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "choose_qparams_optimized",
    "empty_quantized",
    "quantized_batch_norm",
    "quantized_max_pool1d",
    "quantized_max_pool2d",
    "quantized_max_pool3d",
]


def _needs_quantized(name: str, tensor: Tensor) -> None:
    if not tensor.is_quantized:
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the '{tensor.device.type.upper()}' backend.\n"
            "  The tensor is not quantised."
        )


@compiled()
def empty_quantized(size: Sequence[int], qtensor: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """An uninitialised quantised tensor with the scales and zero points of another one.

    >>> q = torch.quantize_per_tensor(torch.ones(3), 0.5, 2, torch.quint8)
    >>> torch.empty_quantized((2, 2), q).q_scale()
    0.5
    """
    _needs_quantized("empty_quantized", qtensor)
    dtype = qtensor.dtype if dtype is None else dtype
    if qtensor.qscheme() == torch.per_tensor_affine:
        return torch._empty_affine_quantized(
            size, scale=qtensor.q_scale(), zero_point=qtensor.q_zero_point(), dtype=dtype
        )
    scales, zeros = qtensor.q_per_channel_scales(), qtensor.q_per_channel_zero_points()
    axis = qtensor.q_per_channel_axis()
    return torch._empty_per_channel_affine_quantized(size, scales=scales, zero_points=zeros, axis=axis, dtype=dtype)


@compiled()
def quantized_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    output_scale: float,
    output_zero_point: int,
) -> Tensor:
    """`torch.ops.quantized.batch_norm2d`: normalises quantised images with given statistics, in evaluation.

    Raises:
        RuntimeError: there is no weight or no bias.

    >>> q = torch.quantize_per_tensor(torch.ones(1, 1, 1, 2), 0.5, 0, torch.quint8)
    >>> torch.quantized_batch_norm(q, torch.ones(1), torch.ones(1), torch.zeros(1), torch.ones(1), 0.0, 0.5, 0).dequantize()
    tensor([[[[2., 2.]]]])
    """
    _needs_quantized("quantized_batch_norm", input)
    for name, given in (("Weight", weight), ("Bias", bias)):
        if given is None:
            raise RuntimeError(f"{name} must be provided")
    images = load("rushlight._quantized_ops")
    return images.batch_norm2d(input, weight, bias, mean, var, eps, output_scale, output_zero_point)


def _pooled(
    dimensions: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> Any:
    _needs_quantized(f"quantized_max_pool{dimensions}d", input)
    stride = kernel_size if isinstance(stride, (tuple, list)) and not stride else stride
    functional = load("rushlight.nn.functional")
    if dimensions > 1:
        return getattr(functional, f"max_pool{dimensions}d")(input, kernel_size, stride, padding, dilation, ceil)
    # Integers have windows over images alone: the rows become images with one row.
    lengths = [one[0] if isinstance(one, (tuple, list)) else one for one in (kernel_size, stride, padding, dilation)]
    windows = [(0 if of == 2 else 1, length) for of, length in enumerate(lengths)]
    return functional.max_pool2d(input.unsqueeze(-2), *windows, ceil).squeeze(-2)


@compiled()
def quantized_max_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """`torch.nn.functional.max_pool1d` of a quantised tensor.

    >>> q = torch.quantize_per_tensor(torch.tensor([[1.0, 2.0, 0.0, 4.0]]), 1.0, 0, torch.quint8)
    >>> torch.quantized_max_pool1d(q, 2).dequantize()
    tensor([[2., 4.]])
    """
    return _pooled(1, input, kernel_size, stride, padding, dilation, ceil_mode)


@compiled()
def quantized_max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """`torch.nn.functional.max_pool2d` of a quantised tensor.

    >>> q = torch.quantize_per_tensor(torch.tensor([[[1.0, 2.0], [0.0, 4.0]]]), 1.0, 0, torch.quint8)
    >>> torch.quantized_max_pool2d(q, 2).dequantize()
    tensor([[[4.]]])
    """
    return _pooled(2, input, kernel_size, stride, padding, dilation, ceil_mode)


@compiled()
def quantized_max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """`torch.nn.functional.max_pool3d` of a quantised tensor.

    >>> q = torch.quantize_per_tensor(torch.ones(1, 1, 2, 2, 2), 1.0, 0, torch.quint8)
    >>> torch.quantized_max_pool3d(q, 2).shape
    torch.Size([1, 1, 1, 1, 1])
    """
    return _pooled(3, input, kernel_size, stride, padding, dilation, ceil_mode)


@compiled()
def choose_qparams_optimized(
    input: Tensor, numel: int, n_bins: int, ratio: float, bit_width: int
) -> tuple[Tensor, Tensor]:
    """The greatest and the least number of the range in which ``bit_width`` bits represent numbers best.

    The search begins with the range of all numbers and makes it smaller at one of its ends by a bin at a time, at that end
    where the numbers change less. It is greedy; the range with the least change of all that it came through is returned.

    Args:
        input: a tensor of float32.
        numel: how many of its first elements count.
        n_bins: into how many bins the range is divided.
        ratio: the search ends when the range has become smaller by this part of it.
        bit_width: the number of bits.

    Raises:
        RuntimeError: ``numel`` is not a number of elements, the dtype is another one, ``n_bins`` is negative, or
            ``ratio`` is so large that the search would not end.
        ValueError: the tensor has no elements.

    >>> torch.choose_qparams_optimized(torch.tensor([0.0, 1.0, 2.0, 3.0]), 4, 200, 0.16, 2)
    (tensor([3.]), tensor([0.]))
    """
    if not 0 <= numel <= input.numel():
        raise RuntimeError("numel is out of the bound of input tensor")
    if input.dtype is not torch.float32:
        found = input.type().rpartition(".")[2].removesuffix("Tensor")
        raise RuntimeError(f"expected scalar type Float but found {found}")
    if n_bins < 0:
        raise RuntimeError(f"n_bins must not be negative, but is {n_bins}")
    if not input.numel():
        raise ValueError("input tensor is empty and has no data")
    numbers = input.detach().reshape(-1)[: max(numel, 1)]
    low, high = numbers.min(), numbers.max()
    numbers = numbers[:numel]
    best = start, end = low, high
    step = (high - low) / n_bins
    least = loss = _change(numbers, low, high, bit_width)
    kept = n_bins * (1.0 - torch.tensor(ratio, dtype=torch.float32).item())
    if kept < -(2**31):
        raise RuntimeError(f"ratio is too large for {n_bins} bins: {ratio}")
    # A ratio that is no number ends the search before it begins, as in torch.
    reserve = int(kept) * step if math.isfinite(kept) else step * math.inf
    while start + reserve < end:
        left, right = (_change(numbers, *ends, bit_width) for ends in ((start + step, end), (start, end - step)))
        if loss < left and loss < right and loss < least:
            least, best = loss, (start, end)
        if left < right:
            start, loss = start + step, left
        else:
            end, loss = end - step, right
    return best[1].reshape(1), best[0].reshape(1)


def _change(numbers: Tensor, low: Tensor, high: Tensor, bit_width: int) -> Tensor:
    """The norm of the change that rounding to `bit_width` bits makes; scale and least number are kept in half precision."""
    low = low.half().float()
    levels = 2**bit_width - 1
    spread = high - low
    scale = torch.ones(()) if not levels or not spread else (spread / levels).half().float()
    inverse = 1 / scale if scale else torch.ones(())
    steps = ((numbers - low) * inverse).round().clamp(0, levels)
    return (numbers - (steps * scale + low)).square().sum().sqrt()


set_module("rushlight", *(globals()[name] for name in __all__))

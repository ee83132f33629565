"""Quantised tensors: numbers stored as integers with a scale and a zero point.

The integers and the quantizer are the engine's (`_C._quantized_over`). Here are torch's functions of them.
"""

from __future__ import annotations

import math

import rushlight as torch
from rushlight import _C
from rushlight._compiled import compiled
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "dequantize",
    "int_repr",
    "q_per_channel_axis",
    "q_per_channel_scales",
    "q_per_channel_zero_points",
    "q_scale",
    "q_zero_point",
    "quantize_per_channel",
    "quantize_per_tensor",
    "quantize_per_tensor_dynamic",
]

#: The dtypes of quantised tensors, and those of their integers.
STORED = {_C.quint8: _C.uint8, _C.qint8: _C.int8, _C.qint32: _C.int32}


def limits(dtype: Any) -> tuple[int, int]:
    """The least and the greatest integer of a quantised dtype, or of one of integers."""
    info = torch.iinfo(STORED.get(dtype, dtype))
    return info.min, info.max


@compiled(
    "Tensor input, Tensor scale, Tensor zero_point, ScalarType dtype",
    "Tensor input, float scale, int zero_point, ScalarType dtype",
    "Tensor[] tensors, Tensor scales, Tensor zero_points, ScalarType dtype",
)
def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: torch.dtype) -> Any:
    """A quantised tensor with one scale: the integers ``round(input / scale) + zero_point``, limited to the dtype.

    Args:
        input: a tensor of float32, or a sequence of tensors, for which scales and zero points are tensors.
        scale: a number, or a tensor with one.
        zero_point: the integer that stands for zero: a number, or a tensor with one.
        dtype: ``torch.quint8``, ``torch.qint8`` or ``torch.qint32``.

    Raises:
        RuntimeError: the tensor's or the result's dtype is another one, or the zero point is not in its range.

    >>> q = torch.quantize_per_tensor(torch.tensor([-1.0, 0.0, 1.0, 2.0]), 0.1, 10, torch.quint8)
    >>> q
    tensor([-1.,  0.,  1.,  2.], size=(4,), dtype=torch.quint8,
           quantization_scheme=torch.per_tensor_affine, scale=0.1, zero_point=10)
    >>> q.int_repr()
    tensor([ 0, 10, 20, 30], dtype=torch.uint8)
    """
    if isinstance(input, (list, tuple)):
        parts = zip(input, scale, zero_point)
        return tuple(quantize_per_tensor(one, own, zero, dtype) for one, own, zero in parts)
    number, zero = (one.item() if isinstance(one, torch.Tensor) else one for one in (scale, zero_point))
    return _C._quantize_per_tensor(input, float(number), int(zero), dtype)


@compiled()
def quantize_per_channel(input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: torch.dtype) -> Tensor:
    """A quantised tensor with a scale and a zero point for each index of dimension `axis`.

    Raises:
        RuntimeError: as for `quantize_per_tensor`; or there are not as many scales and zero points as indices.

    >>> x = torch.tensor([[-1.0, 1.0], [10.0, 20.0]])
    >>> q = torch.quantize_per_channel(x, torch.tensor([0.5, 2.0]), torch.tensor([4, 0]), 0, torch.quint8)
    >>> q.int_repr()
    tensor([[ 2,  6],
            [ 5, 10]], dtype=torch.uint8)
    """
    return _C._quantize_per_channel(input, scales, zero_points, axis, dtype)


@compiled()
def quantize_per_tensor_dynamic(input: Tensor, dtype: torch.dtype, reduce_range: bool) -> Tensor:
    """A quantised tensor with the scale and the zero point that its own range needs.

    Args:
        input: a tensor of float32.
        dtype: ``torch.quint8`` or ``torch.qint8``.
        reduce_range: uses seven bits, so that sums of two products fit in sixteen.

    Raises:
        RuntimeError: the input has no elements, NaN or infinities, or the dtype is another one.

    >>> torch.quantize_per_tensor_dynamic(torch.tensor([-1.0, 2.0]), torch.quint8, False).q_zero_point()
    85
    """
    if dtype not in (torch.quint8, torch.qint8):
        raise RuntimeError("dtype {} not supported".format({torch.qint32: "QInt32"}.get(dtype, dtype)))
    # Without elements `min` has the error.
    low, high = (float(end) for end in (input.aminmax() if input.numel() else (input.min(), input.max())))
    if not low <= high:
        raise RuntimeError("In ChooseQuantizationParams, min should be less than or equal to max\n  The input has NaN.")
    if low == -math.inf or high == math.inf:
        raise RuntimeError(
            "quantize_tensor_per_tensor_affine zero_point -2147483648 is below lower bound.\n  The input has infinities."
        )
    least, most = limits(dtype)
    if reduce_range:
        least, most = int(least / 2), int(most / 2)
    return _C._quantize_per_tensor(input, *_C._choose_qparams(low, high, least, most), dtype)


@compiled("Tensor input", "Tensor[] tensors")
def dequantize(input: Any) -> Any:
    """The numbers of a quantised tensor as float32, or those of several; another tensor in float32.

    >>> torch.dequantize(torch.quantize_per_tensor(torch.tensor([0.26]), 0.5, 0, torch.qint8))
    tensor([0.5000])
    """
    if isinstance(input, (list, tuple)):
        return tuple(one.dequantize() for one in input)
    return input.dequantize()


@compiled()
def int_repr(input: Tensor) -> Tensor:
    """The integers that a quantised tensor stores.

    >>> torch.int_repr(torch.quantize_per_tensor(torch.ones(2), 0.5, 1, torch.qint8))
    tensor([3, 3], dtype=torch.int8)
    """
    return input.int_repr()


@compiled()
def q_scale(input: Tensor) -> float:
    """The scale of a quantised tensor that has a single one.

    >>> torch.q_scale(torch.quantize_per_tensor(torch.ones(2), 0.5, 1, torch.qint8))
    0.5
    """
    return input.q_scale()


@compiled()
def q_zero_point(input: Tensor) -> int:
    """The integer that stands for zero, of a quantised tensor with a single scale.

    >>> torch.q_zero_point(torch.quantize_per_tensor(torch.ones(2), 0.5, 1, torch.qint8))
    1
    """
    return input.q_zero_point()


@compiled()
def q_per_channel_scales(input: Tensor) -> Tensor:
    """The scale of each channel of a quantised tensor.

    >>> q = torch.quantize_per_channel(torch.ones(2), torch.tensor([0.5, 1.0]), torch.tensor([0, 0]), 0, torch.qint8)
    >>> torch.q_per_channel_scales(q)
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    return input.q_per_channel_scales()


@compiled()
def q_per_channel_zero_points(input: Tensor) -> Tensor:
    """For each channel of a quantised tensor the integer that stands for zero.

    >>> q = torch.quantize_per_channel(torch.ones(2), torch.tensor([0.5, 1.0]), torch.tensor([0, 3]), 0, torch.qint8)
    >>> torch.q_per_channel_zero_points(q)
    tensor([0, 3])
    """
    return input.q_per_channel_zero_points()


@compiled()
def q_per_channel_axis(input: Tensor) -> int:
    """The dimension of the channels of a quantised tensor.

    >>> q = torch.quantize_per_channel(torch.ones(2), torch.tensor([0.5, 1.0]), torch.tensor([0, 0]), 0, torch.qint8)
    >>> torch.q_per_channel_axis(q)
    0
    """
    return input.q_per_channel_axis()


def _stored(dtype: Any) -> torch.dtype:
    if dtype not in STORED:
        raise RuntimeError("Creation of quantized tensor requires quantized dtype like torch.quint8")
    return STORED[dtype]


@compiled(
    "int[] size, *, float scale=1, int zero_point=0, MemoryFormat memory_format=None, ScalarType dtype=None, "
    "Layout layout=None, Device device=None, bool pin_memory=False, bool requires_grad=False"
)
def _empty_affine_quantized(
    *size: Any, scale: float = 1, zero_point: int = 0, dtype: Any = None, device: Any = None, **options: Any
) -> Tensor:
    """An uninitialised quantised tensor with one scale.

    >>> torch._empty_affine_quantized([2, 3], scale=0.5, zero_point=1, dtype=torch.quint8).shape
    torch.Size([2, 3])
    """
    integers = torch.empty(*size, dtype=_stored(dtype), device=device, **options)
    return _C._quantized_over(integers, float(scale), int(zero_point))


@compiled(
    "int[] size, *, Tensor scales, Tensor zero_points, int axis, MemoryFormat memory_format=None, ScalarType dtype=None, "
    "Layout layout=None, Device device=None, bool pin_memory=False, bool requires_grad=False"
)
def _empty_per_channel_affine_quantized(
    *size: Any, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any = None, device: Any = None, **options: Any
) -> Tensor:
    """An uninitialised quantised tensor with a scale for each index of a dimension.

    >>> scales, zeros = torch.tensor([0.5, 1.0]), torch.tensor([0, 0])
    >>> made = torch._empty_per_channel_affine_quantized(
    ...     [2, 3], scales=scales, zero_points=zeros, axis=0, dtype=torch.qint8
    ... )
    >>> made.qscheme()
    torch.per_channel_affine
    """
    integers = torch.empty(*size, dtype=_stored(dtype), device=device, **options)
    return _C._quantized_over(integers, scales, zero_points, axis)


@compiled()
def _make_per_tensor_quantized_tensor(input: Tensor, scale: float, zero_point: int) -> Tensor:
    """A quantised tensor with a copy of the given integers.

    >>> torch._make_per_tensor_quantized_tensor(torch.tensor([3], dtype=torch.int8), 0.5, 1).dequantize()
    tensor([1.])
    """
    return _C._quantized_over(input.detach().clone(), float(scale), int(zero_point))


@compiled()
def _make_per_channel_quantized_tensor(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int) -> Tensor:
    """A quantised tensor with a copy of the given integers and a scale for each index of a dimension.

    >>> integers = torch.tensor([3, 3], dtype=torch.int8)
    >>> scales, zeros = torch.tensor([0.5, 1.0]), torch.tensor([1, 1])
    >>> torch._make_per_channel_quantized_tensor(integers, scales, zeros, 0).dequantize()
    tensor([1., 2.])
    """
    return _C._quantized_over(input.detach().clone(), scale, zero_point, axis)


def parameters_of(tensor: Tensor) -> tuple[Any, ...]:
    """The quantizer of a tensor as torch's pickles have it: the scheme and its parameters."""
    scheme = tensor.qscheme()
    if scheme is torch.per_tensor_affine:
        return scheme, tensor.q_scale(), tensor.q_zero_point()
    return (
        scheme,
        tensor.q_per_channel_scales(),
        tensor.q_per_channel_zero_points(),
        tensor.q_per_channel_axis(),
    )


def over(integers: Tensor, parameters: Sequence[Any]) -> Tensor:
    """The quantised tensor over these integers' memory that `parameters_of` describes."""
    scheme, scale, zero_point, *axis = parameters
    if scheme is torch.per_tensor_affine and not axis:
        return _C._quantized_over(integers, float(scale), int(zero_point))
    if scheme in (torch.per_channel_affine, torch.per_channel_affine_float_qparams) and len(axis) == 1:
        scales, zero_points = (torch.as_tensor(part) for part in (scale, zero_point))
        return _C._quantized_over(integers, scales, zero_points, axis[0])
    raise RuntimeError(f"Can't deserialize quantized tensor with qscheme {scheme}")


set_module("rushlight", *(value for name, value in list(globals().items()) if name in __all__ or "quantized" in name))

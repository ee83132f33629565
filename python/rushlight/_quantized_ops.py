"""The operators of `torch.ops.quantized`: layers over quantised tensors, and their packed parameters.

Sums of products are integers, computed exactly; scaling and rounding are those of torch's library for x86.
"""

from __future__ import annotations

import rushlight as torch
from rushlight import _C
from rushlight._quantized import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "ConvPackedParams",
    "LinearPackedParams",
    "add",
    "add_relu",
    "add_scalar",
    "batch_norm2d",
    "batch_norm2d_relu",
    "batch_norm3d",
    "batch_norm3d_relu",
    "cat",
    "conv1d",
    "conv1d_prepack",
    "conv1d_relu",
    "conv1d_unpack",
    "conv2d",
    "conv2d_prepack",
    "conv2d_relu",
    "conv2d_unpack",
    "conv3d",
    "conv3d_prepack",
    "conv3d_relu",
    "conv3d_unpack",
    "conv_transpose1d",
    "conv_transpose1d_prepack",
    "conv_transpose2d",
    "conv_transpose2d_prepack",
    "conv_transpose3d",
    "conv_transpose3d_prepack",
    "embedding_bag_byte",
    "embedding_byte",
    "linear",
    "linear_dynamic",
    "linear_dynamic_fp16",
    "linear_prepack",
    "linear_prepack_fp16",
    "linear_relu",
    "linear_relu_dynamic",
    "linear_unpack",
    "mul",
    "mul_relu",
    "mul_scalar",
]


class LinearPackedParams:
    """The weight and the bias of a linear layer, as ``linear_prepack`` returns them.

    >>> weight = torch.quantize_per_tensor(torch.ones(1, 2), 0.5, 0, torch.qint8)
    >>> packed = torch.ops.quantized.linear_prepack(weight, None)
    >>> packed.unpack()[0].shape
    torch.Size([1, 2])
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias_ = weight, bias

    def unpack(self) -> tuple[Tensor, Tensor | None]:
        """The weight and the bias."""
        return self.weight, self.bias_

    def bias(self) -> Tensor | None:
        """The bias."""
        return self.bias_

    def __deepcopy__(self, memo: Any) -> LinearPackedParams:
        return type(self)(self.weight.clone(), None if self.bias_ is None else self.bias_.detach().clone())


class ConvPackedParams:
    """The weight, the bias and the geometry of a convolution, as ``conv2d_prepack`` returns them."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> None:
        self.weight, self.bias_ = weight, bias
        self.geometry = stride, padding, dilation, groups
        #: That of a transposed convolution.
        self.output_padding: Any = 0

    def unpack(self) -> tuple[Tensor, Tensor | None]:
        """The weight and the bias."""
        return self.weight, self.bias_

    def bias(self) -> Tensor | None:
        """The bias."""
        return self.bias_

    def __deepcopy__(self, memo: Any) -> ConvPackedParams:
        bias = None if self.bias_ is None else self.bias_.detach().clone()
        made = type(self)(self.weight.clone(), bias, *self.geometry)
        made.output_padding = self.output_padding
        return made


def linear_prepack(W: Tensor, B: Tensor | None = None) -> LinearPackedParams:
    """Packs the weight, of dtype ``torch.qint8``, and the bias of a linear layer."""
    if W.dim() != 2:
        raise RuntimeError("The weight tensor for quantized::linear_prepack (fbgemm) should be 2-dimensional.")
    if W.dtype is not torch.qint8:
        raise RuntimeError("expected scalar type QInt8 but found " + W.type().split(".")[-1].removesuffix("Tensor"))
    if B is not None and tuple(B.shape) != (W.shape[0],):
        raise RuntimeError(f"bias should have N elements: {W.shape[0]}")
    return LinearPackedParams(W, None if B is None else B.detach())


def linear_unpack(W_prepack: LinearPackedParams) -> tuple[Tensor, Tensor | None]:
    """The weight and the bias."""
    return W_prepack.unpack()


def linear_dynamic(X: Tensor, W_prepack: LinearPackedParams, reduce_range: bool = False) -> Tensor:
    """A linear layer over float tensors, which are quantised by their own range."""
    weight, bias = W_prepack.unpack()
    return _C._linear_dynamic(X, weight, bias, reduce_range)


def linear_relu_dynamic(X: Tensor, W_prepack: LinearPackedParams, reduce_range: bool = False) -> Tensor:
    """`linear_dynamic` without negative results."""
    return linear_dynamic(X, W_prepack, reduce_range).relu_()


def linear_prepack_fp16(W: Tensor, B: Tensor | None = None) -> LinearPackedParams:
    """Packs a weight that is rounded to half precision."""
    greatest = torch.finfo(torch.float16).max
    rounded = W.detach().clamp(-greatest, greatest).half().float()
    return LinearPackedParams(rounded, None if B is None else B.detach())


def linear_dynamic_fp16(X: Tensor, W_prepack: LinearPackedParams) -> Tensor:
    """A linear layer whose weight was rounded to half precision."""
    weight, bias = W_prepack.unpack()
    return torch.nn.functional.linear(X.detach(), weight, bias)


def _weight_scales(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The scales and the zero points of a weight's outputs."""
    if weight.qscheme() is torch.per_tensor_affine:
        return torch.tensor([weight.q_scale()], dtype=torch.float32), torch.tensor([weight.q_zero_point()])
    return weight.q_per_channel_scales().float(), weight.q_per_channel_zero_points()


def _requantized(
    sums: Tensor, bias: Tensor | None, input: Tensor, weight: Tensor, output: tuple[float, int], relu: bool, dim: int
) -> Tensor:
    """Sums of products as a quantised tensor. Dimension `dim` is that of the outputs."""
    scale, zero_point = float(output[0]), int(output[1])
    shape = [-1 if place == dim % sums.dim() else 1 for place in range(sums.dim())]
    products = (torch.tensor(input.q_scale(), dtype=torch.float32) * _weight_scales(weight)[0]).view(shape)
    numbers = sums.float()
    if bias is not None:
        numbers = numbers + bias.view(shape) / products
    integers = (numbers * (products / torch.tensor(scale, dtype=torch.float32))).round() + zero_point
    least, most = limits(input.dtype)
    integers = integers.clamp(max(least, zero_point) if relu else least, most)
    return _C._quantized_over(
        integers.to(torch.uint8 if input.dtype is torch.quint8 else torch.int8), scale, zero_point
    )


def _linear(X: Tensor, packed: LinearPackedParams, scale: float, zero_point: int, relu: bool) -> Tensor:
    weight, bias = packed.unpack()
    sums = _C._integer_products(X, weight)
    return _requantized(sums, bias, X, weight, (scale, zero_point), relu, -1)


def linear(X: Tensor, W_prepack: LinearPackedParams, Y_scale_i: float, Y_zero_point_i: int) -> Tensor:
    """A linear layer over a quantised tensor; the result has the given scale and zero point.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 2), 0.1, 0, torch.quint8)
    >>> weight = torch.quantize_per_tensor(torch.ones(1, 2), 0.5, 0, torch.qint8)
    >>> packed = torch.ops.quantized.linear_prepack(weight, None)
    >>> torch.ops.quantized.linear(x, packed, 0.5, 3).int_repr()
    tensor([[7]], dtype=torch.uint8)
    """
    return _linear(X, W_prepack, Y_scale_i, Y_zero_point_i, False)


def linear_relu(X: Tensor, W_prepack: LinearPackedParams, Y_scale_i: float, Y_zero_point_i: int) -> Tensor:
    """`linear` without negative results."""
    return _linear(X, W_prepack, Y_scale_i, Y_zero_point_i, True)


def _prepack(
    weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> ConvPackedParams:
    return ConvPackedParams(weight, None if bias is None else bias.detach(), stride, padding, dilation, groups)


conv1d_prepack = conv2d_prepack = conv3d_prepack = _prepack


def _unpack(packed: ConvPackedParams) -> tuple[Tensor, Tensor | None]:
    return packed.unpack()


conv1d_unpack = conv2d_unpack = conv3d_unpack = _unpack


def _conv(x: Tensor, packed: ConvPackedParams, scale: float, zero_point: int, relu: bool) -> Tensor:
    weight, bias = packed.unpack()
    stride, padding, dilation, groups = packed.geometry
    convolve = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)[weight.dim() - 3]
    zeros = _weight_scales(weight)[1].view(-1, *[1] * (weight.dim() - 1))
    # Sums of products of integers are exact in float64.
    sums = convolve(
        x.int_repr().double() - x.q_zero_point(),
        weight.int_repr().double() - zeros,
        None,
        stride,
        padding,
        dilation,
        groups,
    )
    return _requantized(sums, bias, x, weight, (scale, zero_point), relu, 1 - weight.dim())


def _convolution(x: Tensor, packed_weight: ConvPackedParams, output_scale: float, output_zero_point: int) -> Tensor:
    return _conv(x, packed_weight, output_scale, output_zero_point, False)


def _convolution_relu(
    x: Tensor, packed_weight: ConvPackedParams, output_scale: float, output_zero_point: int
) -> Tensor:
    return _conv(x, packed_weight, output_scale, output_zero_point, True)


conv1d = conv2d = conv3d = _convolution
conv1d_relu = conv2d_relu = conv3d_relu = _convolution_relu


def _quantized(numbers: Tensor, scale: float, zero_point: int, like: Tensor) -> Tensor:
    return torch.quantize_per_tensor(numbers, scale, zero_point, like.dtype)


def add(qa: Tensor, qb: Tensor, scale: float, zero_point: int) -> Tensor:
    """The sum of two quantised tensors, with the given scale and zero point."""
    return _quantized(qa.dequantize() + qb.dequantize(), scale, zero_point, qa)


def add_relu(qa: Tensor, qb: Tensor, scale: float, zero_point: int) -> Tensor:
    """`add` without negative results."""
    return _quantized((qa.dequantize() + qb.dequantize()).relu(), scale, zero_point, qa)


def mul(qa: Tensor, qb: Tensor, scale: float, zero_point: int) -> Tensor:
    """The product of two quantised tensors, with the given scale and zero point."""
    return _quantized(qa.dequantize() * qb.dequantize(), scale, zero_point, qa)


def mul_relu(qa: Tensor, qb: Tensor, scale: float, zero_point: int) -> Tensor:
    """`mul` without negative results."""
    return _quantized((qa.dequantize() * qb.dequantize()).relu(), scale, zero_point, qa)


def add_scalar(qa: Tensor, b: float) -> Tensor:
    """The sum with a number: the zero point moves where the range allows it, and otherwise the scale grows."""
    scale, zero_point = qa.q_scale(), qa.q_zero_point()
    least, most = limits(qa.dtype)
    moved = zero_point - round(b / scale)
    if least <= moved <= most:
        return _C._quantized_over(qa.int_repr(), scale, moved)
    # The range that holds all sums.
    ends = (most - moved) if moved < least else (moved - least)
    wide, zero = ends / (most - least) * scale, least if moved < least else most
    ratio = torch.tensor(scale, dtype=torch.float32) / torch.tensor(wide, dtype=torch.float32)
    integers = ((qa.int_repr().int() - moved).float() * ratio).round() + zero
    return _C._quantized_over(integers.clamp(least, most).to(qa.int_repr().dtype), wide, zero)


def mul_scalar(qa: Tensor, b: float) -> Tensor:
    """The product with a number, whose size becomes part of the scale."""
    scale, zero_point = qa.q_scale(), qa.q_zero_point()
    least, most = limits(qa.dtype)
    if b > 0:
        return _C._quantized_over(qa.int_repr(), scale * b, zero_point)
    if b == 0:
        return _C._quantized_over(torch.zeros_like(qa.int_repr()), 1.0, 0)
    turned = (least + most) - qa.int_repr().int()
    return _C._quantized_over(turned.to(qa.int_repr().dtype), scale * -b, least + most - zero_point)


def cat(qx: Any, dim: int, scale: float | None = None, zero_point: int | None = None) -> Tensor:
    """Quantised tensors joined; with a scale and a zero point the result has these."""
    if scale is None or zero_point is None:
        return torch.cat(list(qx), dim)
    return _quantized(torch.cat([one.dequantize() for one in qx], dim), scale, zero_point, qx[0])


def _batch_norm(
    qx: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    output_scale: float,
    output_zero_point: int,
    relu: bool,
) -> Tensor:
    shape = [1, -1, *[1] * (qx.dim() - 2)]
    factor = 1 / torch.sqrt(var + eps)
    factor = factor if weight is None else factor * weight
    offset = -mean * factor if bias is None else bias - mean * factor
    # The factors carry the scales, and the integers are rounded once.
    input_scale = torch.tensor(qx.q_scale(), dtype=torch.float32)
    scale = torch.tensor(output_scale, dtype=torch.float32)
    integers = qx.int_repr().float() - qx.q_zero_point()
    numbers = integers * (factor * input_scale / scale).view(shape) + (offset / scale).view(shape)
    least, most = limits(qx.dtype)
    rounded = (numbers.round() + output_zero_point).clamp(max(least, output_zero_point) if relu else least, most)
    return _C._quantized_over(rounded.to(qx.int_repr().dtype), float(output_scale), int(output_zero_point))


def _normalised(
    qx: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    output_scale: float,
    output_zero_point: int,
) -> Tensor:
    """Normalisation of a quantised tensor with a known mean and variance."""
    return _batch_norm(qx, weight, bias, mean, var, eps, output_scale, output_zero_point, False)


def _normalised_relu(
    qx: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    output_scale: float,
    output_zero_point: int,
) -> Tensor:
    """Normalisation of a quantised tensor with a known mean and variance, without negative results."""
    return _batch_norm(qx, weight, bias, mean, var, eps, output_scale, output_zero_point, True)


batch_norm2d = batch_norm3d = _normalised
batch_norm2d_relu = batch_norm3d_relu = _normalised_relu


def _transposed_prepack(
    weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, output_padding: Any, dilation: Any, groups: int
) -> ConvPackedParams:
    made = ConvPackedParams(weight, None if bias is None else bias.detach(), stride, padding, dilation, groups)
    made.output_padding = output_padding
    return made


conv_transpose1d_prepack = conv_transpose2d_prepack = conv_transpose3d_prepack = _transposed_prepack


def _conv_transpose(x: Tensor, packed_weight: ConvPackedParams, output_scale: float, output_zero_point: int) -> Tensor:
    weight, bias = packed_weight.unpack()
    stride, padding, dilation, groups = packed_weight.geometry
    functional = torch.nn.functional
    convolve = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[weight.dim() - 3]
    if weight.qscheme() is not torch.per_tensor_affine:
        raise RuntimeError("the weight of a transposed convolution has one scale: quantize it with quantize_per_tensor")
    # Sums of products of integers are exact in float64.
    sums = convolve(
        x.int_repr().double() - x.q_zero_point(),
        weight.int_repr().double() - weight.q_zero_point(),
        None,
        stride,
        padding,
        packed_weight.output_padding,
        groups,
        dilation,
    )
    return _requantized(sums, bias, x, weight, (output_scale, output_zero_point), False, 1 - weight.dim())


conv_transpose1d = conv_transpose2d = conv_transpose3d = _conv_transpose


def _rows(weight: Tensor) -> Tensor:
    """The numbers of a table whose rows have their own scales and zero points."""
    scales = weight.q_per_channel_scales().float().unsqueeze(1)
    return weight.int_repr().float() * scales + (-weight.q_per_channel_zero_points().float().unsqueeze(1) * scales)


def embedding_byte(
    weight: Tensor, indices: Tensor, pruned_weights: bool = False, compressed_indices_mapping: Any = None
) -> Tensor:
    """Rows of a quantised table, as numbers."""
    return torch.nn.functional.embedding(indices, _rows(weight))


def embedding_bag_byte(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor | None = None,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    pruned_weights: bool = False,
    per_sample_weights: Tensor | None = None,
    compressed_indices_mapping: Any = None,
    include_last_offset: bool = False,
) -> Tensor:
    """Sums of rows of a quantised table, as numbers."""
    return torch.nn.functional.embedding_bag(
        indices,
        _rows(weight),
        offsets,
        mode="sum",
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
    )

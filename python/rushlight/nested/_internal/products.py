"""Matrix products, layers and attention of jagged tensors."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor

from .nested_tensor import NestedTensor, from_padded, like, padded, size_of, values_of
from .registry import answers, must_be_plain
from .sdpa import jagged_attention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@answers("matmul", "bmm", "__matmul__", "__rmatmul__")
def _matmul(func: Any, input: Any, other: Any) -> Any:
    if func.__name__ == "__rmatmul__":
        input, other = other, input
    made = _product(input, other)
    if made is None:
        left = input._size if isinstance(input, NestedTensor) else input.shape
        raise RuntimeError(f"matmul(): not supported between inputs of shapes {left} and {other.shape}")
    return made


def _product(input: Any, other: Any) -> Any:
    """The product, or None where torch has none."""
    if isinstance(input, NestedTensor) and isinstance(other, NestedTensor):
        if not same_parts_of_sizes(input, other):
            return None
        rank = input.dim()
        if rank == other.dim() and rank > 3 and input._ragged_idx == other._ragged_idx < rank - 2:
            return like(torch.matmul(values_of(input), values_of(other)), input)
        if rank == other.dim() == 3 and (input._ragged_idx, other._ragged_idx) == (2, 1):
            return torch.matmul(padded(input, 0), padded(other, 0))
        return None
    if isinstance(input, NestedTensor):
        if other.dim() == 2 and input._ragged_idx < input.dim() - 1:
            return like(torch.matmul(values_of(input), other), input)
        if other.dim() == input.dim() and input._ragged_idx == input.dim() - 2 and other.shape[0] == len(input._ragged):
            return from_padded(torch.matmul(padded(input, 0), other), input)
        return None
    if other.dim() == input.dim() and other._ragged_idx == other.dim() - 1 and input.shape[0] == len(other._ragged):
        return from_padded(torch.matmul(input, padded(other, 0)), other)
    return None


def same_parts_of_sizes(first: NestedTensor, second: NestedTensor) -> bool:
    return first._ragged.size == second._ragged.size and first._ragged.lengths is None


@answers("linear", "_linear")
def _linear(func: Any, input: Any, weight: Any, bias: Any = None) -> NestedTensor:
    form = "linear_default(input: jt, weight: t, bias: t?)"
    if isinstance(weight, NestedTensor):
        raise ValueError(f"NestedTensor {form}: expected weight to be a tensor")
    must_be_plain(input, form)
    return like(func(values_of(input), weight, bias), input)


@answers("layer_norm", "native_layer_norm")
def _layer_norm(func: Any, input: NestedTensor, normalized_shape: Any, *args: Any, **kwargs: Any) -> Any:
    if input.dim() <= 2:
        raise RuntimeError("layer_norm(): not supported for NestedTensor objects with 2 or fewer dimensions")
    made = func(values_of(input), normalized_shape, *args, **kwargs)
    return like(made, input) if isinstance(made, Tensor) else tuple(like(one, input) for one in made)


@answers("rms_norm")
def _rms_norm(func: Any, input: NestedTensor, normalized_shape: Any, *args: Any, **kwargs: Any) -> NestedTensor:
    if input._ragged_idx >= input.dim() - len(normalized_shape):
        raise ValueError("rms_norm(): Normalization over the ragged dim not supported for nested tensors")
    return like(func(values_of(input), normalized_shape, *args, **kwargs), input)


@answers("embedding")
def _embedding(func: Any, input: Any, weight: Any, *args: Any, **kwargs: Any) -> NestedTensor:
    nested = input if isinstance(input, NestedTensor) else weight
    must_be_plain(
        nested,
        "embedding_default(weight: t, indices: jt, padding_idx: any?, scale_grad_by_freq: any?, sparse: any?)",
    )
    plain = [values_of(one) if isinstance(one, NestedTensor) else one for one in (input, weight)]
    return like(func(*plain, *args, **kwargs), nested)


@answers("scaled_dot_product_attention")
def _attention(func: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> NestedTensor:
    return jagged_attention(query, key, value, *args, **kwargs)


@answers("one_hot")
def _one_hot(func: Any, input: NestedTensor, num_classes: int = -1) -> NestedTensor:
    return like(func(values_of(input), num_classes), input)


@answers("conv1d", "conv2d", "conv3d")
def _convolution(func: Any, input: NestedTensor, weight: Tensor, *args: Any, **kwargs: Any) -> NestedTensor:
    if weight.dim() == input.dim() - 1 or values_of(input).dim() != weight.dim():
        made: Tensor = func(values_of(input), weight, *args, **kwargs)
        return like(made, input)
    raise RuntimeError(f"convolution(): not supported for a jagged tensor of the shape {size_of(input)}")

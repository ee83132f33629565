"""Reductions, products, layers and attention of strided nested tensors."""

from __future__ import annotations

import rushlight as torch

from .registry import answers, dimension, each, like, packed
from .tensor import Geometry, StridedNestedTensor, buffer_of, pack, refusal, samples_of, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tensor import StridedNestedTensor as Nested


@answers("sum")
def _sum(func: Any, input: Nested, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Nested:
    if dim is None:
        raise refusal("sum")
    dims = [dim] if isinstance(dim, int) else list(dim)
    if len(dims) != 1:
        raise RuntimeError("NestedTensor only allows reduction of a single dimension for now.")
    place = dimension(input, dims[0])
    if place != input._geometry.rank - 1:
        raise RuntimeError(
            f"NestedTensor can only be reduced across the last dimension for now got dimension {place} instead."
        )
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    if dtype is not None:
        raise RuntimeError("NestedTensor does not support dtype argument for now.")
    if not input._geometry.is_packed():
        raise RuntimeError("NestedTensor does not support reductions when the input is noncontiguous for now.")
    return each(input, lambda one: one.sum(-1, keepdim=True))


@answers("all")
def _all(func: Any, input: Nested, dim: Any = None, keepdim: bool = False) -> Nested:
    if not isinstance(dim, int):
        raise refusal("all" if dim is None else "all.dims")
    place = dimension(input, dim)
    if place == 0:
        raise RuntimeError("Cannot apply all across nested dimension 0")
    if input.dtype not in (torch.bool, torch.uint8):
        kind = buffer_of(input).type().removeprefix("torch.").removesuffix("Tensor")
        raise RuntimeError(f"all only supports bool tensor for result, got: {kind}")
    return each(input, lambda one: one.all(place - 1, keepdim))


@answers("softmax", "_softmax", "_safe_softmax")
def _softmax(func: Any, input: Nested, dim: int, *args: Any, **kwargs: Any) -> Nested:
    place = dimension(input, dim)
    if place == 0:
        raise RuntimeError("Cannot apply softmax across nested dimension 0")
    return each(input, lambda one: func(one, place - 1, *args, **kwargs))


@answers("matmul", "__matmul__", "__rmatmul__")
def _matmul(func: Any, input: Any, other: Any) -> Nested:
    if func.__name__ == "__rmatmul__":
        input, other = other, input
    for one, words in ((input, "a non-nested self and nested other"), (other, "a nested self and non-nested other")):
        if not isinstance(one, StridedNestedTensor):
            raise RuntimeError(f"Expected both to be nested, but got {words}")
    first, second = samples_of(input), samples_of(other)
    if len(first) != len(second):
        raise RuntimeError(
            f"matmul: Expected size for the 1st dimension of 2nd input tensor to be: {len(first)} but got: {len(second)}."
        )
    for left, right in zip(first, second):
        if left.dim() < 2 or right.dim() < 2:
            raise RuntimeError(
                f"matmul: For nested tensors, only inputs with >= 3 dims are currently supported. 1st input has rank: "
                f"{left.dim() + 1} and 2nd input has rank: {right.dim() + 1}"
            )
        if left.shape[-1] != right.shape[-2]:
            raise RuntimeError(
                "matmul: Nested tensors cannot be matrix multiplied, last dimension of self has sizes "
                f"{left.shape[-1]}\nThe second to last dimension of mat2 has sizes {right.shape[-2]}. These must match."
            )
    return pack([left @ right for left, right in zip(first, second)])


@answers("bmm")
def _bmm(func: Any, input: Any, mat2: Any) -> Nested:
    for place, one in enumerate((input, mat2), 1):
        if one.dim() != 3:
            raise RuntimeError(f"batch{place} must be a 3D tensor")
    parts = [list(one.unbind()) for one in (input, mat2)]
    if len(parts[0]) != len(parts[1]):
        raise RuntimeError(
            f"Expected size for the 1st dimension of batch2 tensor to be: {len(parts[0])} but got: {len(parts[1])}."
        )
    for at, (left, right) in enumerate(zip(*parts)):
        if left.shape[1] != right.shape[0]:
            raise RuntimeError(
                f"{at}-th nested matrices in batch cannot be multiplied ({left.shape[0]}x{left.shape[1]} and "
                f"{right.shape[0]}x{right.shape[1]})"
            )
    return pack([left @ right for left, right in zip(*parts)])


@answers("linear", "_linear")
def _linear(func: Any, input: Any, weight: Any, bias: Any = None) -> Nested:
    if isinstance(weight, StridedNestedTensor) or isinstance(bias, StridedNestedTensor):
        raise RuntimeError("weight and bias must not be nested")
    own = input._geometry
    if own.rank != 3 or weight.dim() != 2:
        raise RuntimeError(
            f"Linear requires nested_tensor.dim == 3 and dense_matrix.dim == 2. Nested tensor dim: {own.rank}. Dense tensor "
            f"dim: {weight.dim()}"
        )
    if not own.is_packed():
        raise RuntimeError("for now linear only supports contiguous nested tensor")
    last = input.size(2)
    if last != weight.shape[1]:
        raise RuntimeError(
            "Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) 'last_dim' to equal 'weight.size(1), "
            f"but got: last_dim = {last}, and weight.size(1) = {weight.shape[1]}"
        )
    made = func(buffer_of(input).reshape(-1, last), weight, bias)
    return wrap(made.reshape(-1), Geometry.packed([(shape[0], weight.shape[0]) for shape in own.shapes]))


@answers("layer_norm")
def _layer_norm(
    func: Any, input: Nested, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Nested:
    if weight is None or bias is None:
        raise ValueError("NestedTensor layer_norm requires weight and bias")
    if not input._geometry.is_packed():
        raise RuntimeError("Expected nested_tensor_impl_is_contiguous(nt_input) to be true, but got false.")
    wanted = tuple(normalized_shape)
    for shape in input._geometry.shapes:
        for at, size in enumerate(wanted):
            if len(shape) < len(wanted) or shape[len(shape) - len(wanted) + at] != size:
                raise RuntimeError(f"The shape at dimension {at}of normalized_shape doesn't match the input")
    made = func(buffer_of(input).reshape(-1, *wanted), wanted, weight, bias, eps)
    return like(made.reshape(-1), input)


@answers("embedding")
def _embedding(func: Any, input: Any, weight: Any, *args: Any, **kwargs: Any) -> Nested:
    # torch.embedding has the indices second.
    indices = input if isinstance(input, StridedNestedTensor) else weight
    own = packed(indices)
    plain = [buffer_of(own) if one is indices else one for one in (input, weight)]
    made = func(*plain, *args, **kwargs)
    shapes = [(*shape, made.shape[-1]) for shape in own._geometry.shapes]
    return wrap(made.reshape(-1), Geometry.packed(shapes))


@answers("scaled_dot_product_attention")
def _attention(
    func: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Nested:
    if attn_mask is not None:
        raise RuntimeError(
            "Scaled_dot_product_attention: Nested tensors for query / key are not supported when an explicit attn_mask is set"
        )
    if not all(isinstance(one, StridedNestedTensor) and one._geometry.is_packed() for one in (query, key, value)):
        raise RuntimeError("scaled_dot_product_attention: If inputs are nested tensors they must be contiguous")
    if is_causal:
        raise RuntimeError(
            "_scaled_dot_product_attention: Nested tensors for query / key are not supported when is_causal=True"
        )
    samples = zip(*map(samples_of, (query, key, value)))
    return pack([func(*parts, None, dropout_p, scale=scale, enable_gqa=enable_gqa) for parts in samples])

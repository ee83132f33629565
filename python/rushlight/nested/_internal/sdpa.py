"""Attention of jagged tensors: sample by sample."""

from __future__ import annotations

import rushlight as torch

from .nested_tensor import NestedTensor, parts_of, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def jagged_attention(
    query: NestedTensor,
    key: NestedTensor,
    value: NestedTensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> NestedTensor:
    """`nn.functional.scaled_dot_product_attention` of tensors of the shape (batch, heads, jagged, features).

    Raises:
        ValueError: an argument is not jagged, the shapes do not match, or there is a mask.
    """
    if not all(isinstance(one, NestedTensor) for one in (query, key, value)):
        raise ValueError(
            "Expected query, key, and value to be nested tensors, but got query.is_nested: "
            f"{query.is_nested}, key.is_nested: {key.is_nested}, and value.is_nested: {value.is_nested} instead."
        )
    if attn_mask is not None:
        raise ValueError("Masks are not yet supported!")
    if any(one.dim() < 3 for one in (query, key, value)):
        raise ValueError(
            f"Expected query, key, and value to all be  at least 3 dimensional, but got Query dim: {query.dim()}, "
            f"Key dim: {key.dim()} and Value dim: {value.dim()} instead."
        )
    along = query._ragged_idx
    if along not in (1, 2) or (along, along) != (key._ragged_idx, value._ragged_idx):
        raise ValueError(
            f"Expected query, key, and value to all be ragged on the same dimension, but got ragged dims "
            f"{query._ragged_idx}, {key._ragged_idx}, and {value._ragged_idx}, respectively."
        )
    attend = torch.nn.functional.scaled_dot_product_attention
    samples = [
        attend(*parts, None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        for parts in zip(parts_of(query), parts_of(key), parts_of(value))
    ]
    # The samples follow each other in memory, with the heads of a position side by side, as in torch.
    values = torch.cat([one.movedim(along - 1, 0) for one in samples])
    ragged = query._ragged if query._ragged.lengths is None else None
    if ragged is None:
        from .nested_tensor import without_holes

        ragged = without_holes(query)._ragged
    return wrap(values.movedim(0, along - 1), ragged, along)

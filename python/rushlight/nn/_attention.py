"""Multi-head attention. `multi_head_attention_forward` is part of `torch.nn.functional`."""

from __future__ import annotations

import math

import rushlight as torch
from rushlight._functions import nn_functional as _nn
from rushlight._overridable import overridable
from rushlight._text import with_shapes
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


# It has torch's name and arguments, because programs with their own attention call it.


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: torch.dtype | None,
    other_name: str,
    target_type: torch.dtype,
    check_other: bool = True,
) -> Tensor | None:
    """Converts a boolean mask into numbers to add: minus infinity where the mask is true."""
    if mask is None:
        return None
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warn(f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.")
    if mask.is_floating_point():
        return mask
    return torch.zeros_like(mask, dtype=target_type).masked_fill_(mask, -math.inf)


#: The function that errors name.
_NAME = "multi_head_attention_forward"


@overridable
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Computes `rushlight.nn.MultiheadAttention` with the weights as arguments.

    Shapes: query ``(L, N, E)``, key and value ``(S, N, *)``, all with or without ``N``; the result is ``(L, N, E)``,
        and
    the weights are ``(N, L, S)`` or, if not averaged, ``(N, heads, L, S)``.

    Raises:
        AssertionError, RuntimeError: the shapes do not match.

    >>> x, weight = torch.ones(2, 1, 4), torch.eye(4)
    >>> output, attention = torch.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 4, 2, torch.cat([weight] * 3), None, None, None, False, 0.0, weight, None
    ... )
    >>> attention
    tensor([[[0.5000, 0.5000],
             [0.5000, 0.5000]]])
    """
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, features = query.shape
    other = None if attn_mask is None else attn_mask.dtype
    padding = _canonical_mask(key_padding_mask, "key_padding_mask", other, "attn_mask", query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    # With this hint, the mask itself is not needed.
    causal = is_causal and key_padding_mask is None and not need_weights
    mask = None if causal else _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype)
    if features != embed_dim_to_check:
        sentence = f"was expecting embedding dimension of {embed_dim_to_check}, but got {features}"
        raise AssertionError(with_shapes(sentence, _NAME, query.shape, key.shape, value.shape))
    size = features // num_heads
    if size * num_heads != features:
        raise AssertionError(f"embed_dim {features} not divisible by num_heads {num_heads}")
    separate = [q_proj_weight, k_proj_weight, v_proj_weight] if use_separate_proj_weight else None
    q, k, v = _projected([query, key, value], in_proj_weight, separate, in_proj_bias)
    if mask is not None:
        mask = _check_mask(mask, length, key.size(0), batch * num_heads)
    added = 0
    if bias_k is not None or bias_v is not None:
        k, v = _with_biases(k, v, bias_k, bias_v, static_k, static_v)
        added += 1
    q, k, v = (part.reshape(part.size(0), batch * num_heads, size).transpose(0, 1) for part in (q, k, v))
    k = k if static_k is None else _static(static_k, "static_k", batch * num_heads, size)
    v = v if static_v is None else _static(static_v, "static_v", batch * num_heads, size)
    if add_zero_attn:
        zeros = q.new_zeros((batch * num_heads, 1, size))
        k, v = torch.cat([k, zeros], 1), torch.cat([v, zeros], 1)
        added += 1
    # Every query may attend to the appended positions.
    if mask is not None and added:
        mask = _nn.pad(mask, (0, added))
    source = k.size(1)
    if padding is not None:
        mask = _with_padding(mask, _nn.pad(padding, (0, added)) if added else padding, batch, num_heads, source)
    if not need_weights:
        # The attention weights are never stored.
        dropout = dropout_p if training else 0.0
        heads = _nn.scaled_dot_product_attention(q, k, v, mask, dropout, causal)
        return _leave(heads, length, batch, features, out_proj_weight, out_proj_bias, batched), None
    q = q * math.sqrt(1.0 / size)
    scores = q.bmm(k.transpose(1, 2)) if mask is None else torch.baddbmm(mask, q, k.transpose(1, 2))
    attention = torch.softmax(scores, -1)
    if training and dropout_p > 0.0:
        attention = _nn.dropout(attention, dropout_p, True)
    output = _leave(attention.bmm(v), length, batch, features, out_proj_weight, out_proj_bias, batched)
    attention = attention.reshape(batch, num_heads, length, source)
    if average_attn_weights:
        attention = attention.mean(1)
    return output, attention if batched else attention.squeeze(0)


def _projected(
    given: list[Tensor], together: Tensor | None, separate: list[Tensor | None] | None, bias: Tensor | None
) -> list[Tensor]:
    """Projects query, key and value. The weights of the projections are one matrix or three."""
    _, key, value = given
    if separate is not None:
        if key.shape[:2] != value.shape[:2]:
            sentence = f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            raise AssertionError(with_shapes(sentence, _NAME, *(tensor.shape for tensor in given)))
        for name, weight in zip("qkv", separate):
            if weight is None:
                raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        weights = separate
    else:
        if key.shape != value.shape:
            sentence = f"key shape {key.shape} does not match value shape {value.shape}"
            raise AssertionError(with_shapes(sentence, _NAME, *(tensor.shape for tensor in given)))
        if together is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        weights = list(together.chunk(3))
    biases = [None] * 3 if bias is None else list(bias.chunk(3))
    return [_nn.linear(each, weight, bias) for each, weight, bias in zip(given, weights, biases)]  # type: ignore[arg-type]


def _with_biases(
    k: Tensor,
    v: Tensor,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    static_k: Tensor | None,
    static_v: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Appends a learned key and a learned value."""
    if bias_k is None or bias_v is None:
        given, lacking = ("bias_v", "bias_k") if bias_k is None else ("bias_k", "bias_v")
        raise AssertionError(f"{given} is set but {lacking} is None")
    if static_k is not None or static_v is not None:
        raise AssertionError(f"bias cannot be added to static {'key' if static_k is not None else 'value'}.")
    batch = k.size(1)
    return torch.cat([k, bias_k.repeat(1, batch, 1)]), torch.cat([v, bias_v.repeat(1, batch, 1)])


def _with_padding(mask: Tensor | None, padding: Tensor, batch: int, heads: int, source: int) -> Tensor:
    """The mask of each head, combined with the padding mask of each sample."""
    for dim, wanted in enumerate((batch, source)):
        if padding.shape[dim] != wanted:
            sentence = f"Expected key_padded_mask.shape[{dim}] to be {wanted}, but got {padding.shape[dim]}"
            raise AssertionError(with_shapes(sentence, _NAME, padding.shape, (batch, source)))
    padding = padding.reshape(batch, 1, 1, source).expand(-1, heads, -1, -1).reshape(-1, 1, source)
    return padding if mask is None else mask + padding


def _leave(
    heads: Tensor, length: int, batch: int, features: int, weight: Tensor, bias: Tensor | None, batched: bool
) -> Tensor:
    """Concatenates the outputs of the heads and applies the output projection."""
    output = _nn.linear(heads.transpose(0, 1).reshape(length, batch, features), weight, bias)
    return output if batched else output.squeeze(1)


def _static(given: Tensor, name: str, heads: int, size: int) -> Tensor:
    for dim, wanted in ((0, heads), (2, size)):
        if given.size(dim) != wanted:
            raise AssertionError(f"expecting {name}.size({dim}) of {wanted}, but got {given.size(dim)}")
    return given


def _check_mask(mask: Tensor, length: int, source: int, heads: int) -> Tensor:
    wanted = (length, source) if mask.dim() == 2 else (heads, length, source)
    if mask.shape != wanted:
        sentence = f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {wanted}."
        raise RuntimeError(with_shapes(sentence, _NAME, mask.shape, wanted))
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _check_shapes(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None, heads: int
) -> bool:
    """Whether there is a batch. Raises an error if the numbers of dimensions do not match."""
    dims = query.dim()
    if dims not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {dims}-D query tensor")
    which = f"For {'batched' if dims == 3 else 'unbatched'} ({dims}-D) `query`, expected"
    if key.dim() != dims or value.dim() != dims:
        sentence = (
            f"{which} `key` and `value` to be {dims}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively"
        )
        raise AssertionError(with_shapes(sentence, _NAME, query.shape, key.shape, value.shape))
    if padding is not None and padding.dim() != dims - 1:
        raise AssertionError(
            f"{which} `key_padding_mask` to be `None` or {dims - 1}-D but found {padding.dim()}-D tensor instead"
        )
    if mask is not None:
        if mask.dim() not in (2, 3):
            raise AssertionError(
                f"{which} `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor instead"
            )
        if dims == 2 and mask.dim() == 3:
            wanted = (heads, query.shape[0], key.shape[0])
            if mask.shape != wanted:
                sentence = f"Expected `attn_mask` shape to be {wanted} but got {mask.shape}"
                raise AssertionError(with_shapes(sentence, _NAME, mask.shape, wanted))
    return dims == 3

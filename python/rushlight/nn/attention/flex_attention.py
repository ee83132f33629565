"""Attention whose scores or mask a function computes. It runs eagerly: all scores are in memory at once."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypedDict

import rushlight as torch
from rushlight import Tensor
from rushlight._warnings import warn_once

from ._block_mask import _DEFAULT_SPARSE_BLOCK_SIZE as _DEFAULT_SPARSE_BLOCK_SIZE
from ._block_mask import BlockMask, create_block_mask, create_mask, noop_mask, over_indices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    _ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
    _MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]


class AuxRequest(NamedTuple):
    """What `flex_attention` returns besides its result.

    >>> torch.nn.attention.flex_attention.AuxRequest(lse=True)
    AuxRequest(lse=True, max_scores=False)
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What `flex_attention` returns besides its result: the logarithms of the sums of exponentials, the largest scores.

    >>> torch.nn.attention.flex_attention.AuxOutput()
    AuxOutput(lse=None, max_scores=None)
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class FlexKernelOptions(TypedDict, total=False):
    """Options of torch's kernels for GPUs. They have no effect.

    >>> torch.nn.attention.flex_attention.FlexKernelOptions(num_warps=4)
    {'num_warps': 4}
    """

    BACKEND: Any
    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int


def or_masks(*mask_mods: _MaskMod) -> _MaskMod:
    """The mask function that allows what one of several allows.

    Raises:
        RuntimeError: an argument is not a function.

    >>> flex = torch.nn.attention.flex_attention
    >>> mask = flex.or_masks(lambda b, h, q, k: q == k, lambda b, h, q, k: k == 0)
    >>> flex.create_mask(mask, 1, 1, 2, 3)[0, 0]
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return _combined(mask_mods, torch.logical_or, False)


def and_masks(*mask_mods: _MaskMod) -> _MaskMod:
    """The mask function that allows what each of several allows.

    Raises:
        RuntimeError: an argument is not a function.

    >>> flex = torch.nn.attention.flex_attention
    >>> mask = flex.and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: k > 0)
    >>> flex.create_mask(mask, 1, 1, 2, 3)[0, 0]
    tensor([[False, False, False],
            [False,  True, False]])
    """
    return _combined(mask_mods, torch.logical_and, True)


def _combined(mask_mods: tuple[_MaskMod, ...], join: Callable[[Tensor, Tensor], Tensor], start: bool) -> _MaskMod:
    if not all(callable(mask_mod) for mask_mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def combined(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_full((), start, dtype=torch.bool)
        for mask_mod in mask_mods:
            result = join(result, mask_mod(b, h, q_idx, kv_idx))
        return result

    return combined


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: _ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention whose scores a function changes, and whose mask another function computes.

    Args:
        query: a tensor of shape (batch, heads, queries, features).
        key: a tensor of shape (batch, heads, keys, features).
        value: a tensor of shape (batch, heads, keys, features of the result).
        score_mod: ``score_mod(score, batch, head, query, key)`` returns the score to use. Its arguments are tensors
            without dimensions.
        block_mask: what `create_block_mask` returned. Queries without any key have zeros as their result.
        scale: the factor of the products; by default, one over the root of the number of features.
        enable_gqa: whether several heads of the query may share one of the keys and values.
        return_lse: whether to return the logarithms of the sums of the exponentials, too. Deprecated in favour of
            ``return_aux=AuxRequest(lse=True)``.
        kernel_options: a dictionary, which has no effect.
        return_aux: what to return besides the result, as an `AuxOutput`.

    Returns:
        a tensor of shape (batch, heads, queries, features of the result).

    Raises:
        ValueError: the shapes or devices do not fit each other or the mask, or ``return_lse`` and ``return_aux`` are both given.
            Keys of one batch serve many only with a mask of as many.
        NotImplementedError: a tensor does not have four dimensions, or the query has bools.
        TypeError: ``kernel_options`` is no dictionary.
        AssertionError: it has the key ``OUTPUT_LOGSUMEXP``.

    >>> query, key, value = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4), torch.eye(2).view(1, 1, 2, 2)
    >>> causal = lambda score, b, h, q, k: torch.where(q >= k, score, -torch.inf)
    >>> torch.nn.attention.flex_attention.flex_attention(query, key, value, score_mod=causal)
    tensor([[[[1.0000, 0.0000],
              [0.5000, 0.5000]]]])
    """
    _check(query, key, value, block_mask, enable_gqa)
    _check_options(return_lse, return_aux, kernel_options)
    if query.dtype is torch.bool:
        raise NotImplementedError("\"bmm\" not implemented for 'Bool'")
    heads = query.size(1)
    if key.size(1) != heads:
        share = heads // key.size(1)
        key, value = key.repeat_interleave(share, 1), value.repeat_interleave(share, 1)
    precise = torch.float64 if query.dtype is torch.float64 else torch.float32
    factor = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = (query.to(precise) @ key.to(precise).transpose(-2, -1)) * factor
    if score_mod is not None:
        scores = over_indices(score_mod, scores.shape, query.device, scores)
    if block_mask is not None:
        allowed = over_indices(block_mask.mask_mod, scores.shape, query.device)
        scores = scores.masked_fill(~allowed, -torch.inf)
    lost = (scores == -torch.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(lost, 0).softmax(-1).masked_fill(lost, 0)
    result = (weights @ value.to(precise)).to(query.dtype)
    if return_aux is not None:
        largest = scores.amax(-1) if return_aux.max_scores else None
        return result, AuxOutput(scores.logsumexp(-1) if return_aux.lse else None, largest)
    return (result, scores.logsumexp(-1)) if return_lse else result


def _check(query: Tensor, key: Tensor, value: Tensor, block_mask: BlockMask | None, enable_gqa: bool) -> None:
    if not query.device == key.device == value.device:
        raise ValueError(
            f"Expected query, key, and value to have the same device type, but got query.device: {query.device}, "
            f"key.device: {key.device}, and value.device: {value.device} instead."
        )
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.size(-1) != key.size(-1):
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension "
            f"but got E={query.size(-1)} and E={key.size(-1)}."
        )
    heads, others = query.size(1), key.size(1)
    if not enable_gqa and heads != others:
        raise ValueError(
            "Expect query and key/value to have the same number of heads "
            f"but got Hq={heads} and Hkv={others}. Try setting enable_gqa=True for GQA."
        )
    if heads % others:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={others}."
        )
    _check_batches(query.size(0), key.size(0), block_mask)
    if block_mask is not None and block_mask.seq_lengths != (query.size(2), key.size(2)):
        _refuse_lengths(block_mask, query.size(2), key.size(2))


def _check_options(return_lse: bool, return_aux: AuxRequest | None, kernel_options: Any) -> None:
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    if return_lse:
        warn_once(
            "return_lse is deprecated and will be removed in v2.10. Please use return_aux=AuxRequest(lse=True) instead.",
            FutureWarning,
        )
    # This refuses what is no dictionary.
    if "OUTPUT_LOGSUMEXP" in dict(kernel_options or {}):
        raise AssertionError("OUTPUT_LOGSUMEXP must not be in kernel_options")


def _check_batches(own: int, others: int, block_mask: BlockMask | None) -> None:
    """Keys of one batch serve all batches of the query only with a block mask of as many batches."""
    if own == others:
        return
    if block_mask is None:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, "
            f"but got block_mask=None, Bq={own}, and Bkv={others}."
        )
    if block_mask.kv_num_blocks.size(0) != own:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or block_mask and query to have the same batch size, "
            f"but got Bq={own}, Bkv={others}, B_block_mask={block_mask.kv_num_blocks.size(0)}."
        )
    if others != 1:
        raise RuntimeError(f"Bq and Bkv must broadcast. Got Bq={own} and Bkv={others}")


def _refuse_lengths(block_mask: BlockMask, queries: int, keys: int) -> None:
    sentence = (
        f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={queries} and kv_len={keys}. "
    )
    if queries <= block_mask.seq_lengths[0] and keys <= block_mask.seq_lengths[1]:
        raise ValueError(
            f"{sentence}As the block mask was created for a larger length than you're using it for, you can either 1. create a new "
            "block mask with the correct length, or 2. 'adjust' the existing block mask to the correct length by calling "
            "block_mask._adjust(q_len, kv_len). This essentially 'crops' the block mask to the upper left corner, which does not "
            "work for all mask_mods!"
        )
    raise ValueError(
        f"{sentence}As the block mask was created for a smaller length than you're using it for, you likely need to create a new "
        "block mask."
    )


def __dir__() -> list[str]:
    return __all__

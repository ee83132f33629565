"""`nn.MultiheadAttention` of nested tensors, sample by sample. torch has it for inference alone."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor
from rushlight.backends import mha
from rushlight.nn import functional as F

from ._strided.tensor import StridedNestedTensor, pack, samples_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.nn import MultiheadAttention


def nested_attention(
    module: MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    masks: tuple[Tensor | None, Tensor | None],
    need_weights: bool,
    average_attn_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """The output as a nested tensor, and with ``need_weights`` the weights, with zeros behind the smaller samples.

    Raises:
        AssertionError: the module is in training mode, gradients are needed, or it is not self-attention with the
            options for which torch has it.
    """
    why = _why_not(module, query, key, value, masks)
    if why:
        raise AssertionError(
            f"MultiheadAttention does not support NestedTensor outside of its fast path. The fast path was not hit because {why}"
        )
    if not isinstance(query, StridedNestedTensor):
        raise NotImplementedError("aten._native_multi_head_attention.default")
    outputs: list[Tensor] = []
    weights: list[Any] = []
    for sample in samples_of(query):
        output, weight = F.multi_head_attention_forward(
            sample,
            sample,
            sample,
            module.embed_dim,
            module.num_heads,
            module.in_proj_weight,
            module.in_proj_bias,
            None,
            None,
            False,
            0.0,
            module.out_proj.weight,
            module.out_proj.bias,
            training=False,
            need_weights=need_weights,
            average_attn_weights=average_attn_weights,
        )
        outputs.append(output)
        weights.append(weight)
    if not need_weights:
        return pack(outputs), None
    longest = max((one.shape[-1] for one in weights), default=0)
    return pack(outputs), torch.stack([F.pad(one, [0, longest - one.shape[-1]] * 2) for one in weights])


def _why_not(module: MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, masks: Any) -> str:
    """Why torch would not compute it, in its words; otherwise nothing."""
    weight, bias = module.in_proj_weight, module.in_proj_bias
    reasons = [
        (not mha.get_fastpath_enabled(), "torch.backends.mha.get_fastpath_enabled() was not True"),
        (query.dim() != 3, f"input not batched; expected query.dim() of 3 but got {query.dim()}"),
        (
            query is not key or key is not value,
            "non-self attention was used (query, key, and value are not the same Tensor)",
        ),
        (
            bias is not None and query.dtype != bias.dtype,
            f"dtypes of query ({query.dtype}) and self.in_proj_bias ({getattr(bias, 'dtype', None)}) don't match",
        ),
        (weight is None, "in_proj_weight was None"),
        (
            weight is not None and query.dtype != weight.dtype,
            f"dtypes of query ({query.dtype}) and self.in_proj_weight ({getattr(weight, 'dtype', None)}) don't match",
        ),
        (module.training, "training is enabled"),
        (module.num_heads % 2 != 0, "self.num_heads is not even"),
        (not module.batch_first, "batch_first was not True"),
        (module.bias_k is not None, "self.bias_k was not None"),
        (module.bias_v is not None, "self.bias_v was not None"),
        (module.add_zero_attn, "add_zero_attn was enabled"),
        (not module._qkv_same_embed_dim, "_qkv_same_embed_dim was not True"),
        (
            any(mask is not None for mask in masks),
            "supplying both src_key_padding_mask and src_mask at the same time                                  is not "
            "supported with NestedTensor input",
        ),
        (torch.is_autocast_enabled(), "autocast is enabled"),
        (
            torch.is_grad_enabled() and any(one.requires_grad for one in (query, *module.parameters())),
            "grad is enabled and at least one of query or the input/output projection weights or biases requires_grad",
        ),
    ]
    return next((why for holds, why in reasons if holds), "")

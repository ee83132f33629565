"""Multi-head attention. It is part of `activation`."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor
from rushlight._text import must_be_tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class MultiheadAttention(Module):
    """Multi-head attention (Vaswani et al. 2017): each query gets a mean of the values, weighted by the keys.

    Args:
        embed_dim: the number of features E, which is divided among the heads.
        num_heads: the number of heads.
        dropout: the dropout probability of the attention weights.
        bias: whether the projections have biases.
        add_bias_kv: whether to append a learned key and value.
        add_zero_attn: whether to append a key and value of zeros.
        kdim, vdim: the number of features of keys and values, E by default.
        batch_first: whether inputs and output are ``(N, L, E)`` instead of ``(L, N, E)``.

    ``forward`` takes query ``(L, N, E)``, key and value ``(S, N, *)`` (or all without N), ``key_padding_mask`` ``(N,
    S)`` and ``attn_mask`` ``(L, S)`` or ``(N * heads, L, S)``. Masks are boolean (True positions are ignored) or
    numbers to add. It returns the output and, with ``need_weights``, the weights ``(N, L, S)``, or those of each head
    if ``average_attn_weights`` is false.

    Raises:
        ValueError: a size is not positive.
        AssertionError: ``num_heads`` does not divide ``embed_dim``, or the shapes do not match.

    >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> output, weights = attention(*[torch.ones(3, 5, 8)] * 3)
    >>> output.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))
    """

    __constants__ = ["batch_first"]
    in_proj_weight: Tensor | None
    in_proj_bias: Tensor | None
    q_proj_weight: Tensor
    k_proj_weight: Tensor
    v_proj_weight: Tensor
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def learned(*shape: int) -> Parameter:
            return Parameter(torch.empty(shape, device=device, dtype=dtype))

        separate = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        if self._qkv_same_embed_dim:
            self.in_proj_weight = learned(3 * embed_dim, embed_dim)
            for name in separate:
                self.register_parameter(name, None)
        else:
            for name, size in zip(separate, (embed_dim, self.kdim, self.vdim)):
                setattr(self, name, learned(embed_dim, size))
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", learned(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        if add_bias_kv:
            self.bias_k = learned(1, 1, embed_dim)
            self.bias_v = learned(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        weights = (
            ["in_proj_weight"] if self._qkv_same_embed_dim else ["q_proj_weight", "k_proj_weight", "v_proj_weight"]
        )
        for name in weights:
            init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Files of torch 1.1 do not have this attribute.
        super().__setstate__({"_qkv_same_embed_dim": True, **state})

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if query.is_nested or key.is_nested or value.is_nested:
            from rushlight.nested._attention import nested_attention

            masks = (key_padding_mask, attn_mask)
            return nested_attention(self, query, key, value, masks, need_weights, average_attn_weights)
        for mask in (attn_mask, key_padding_mask):
            if mask is not None:
                must_be_tensor("is_floating_point", "input", 1, mask)
        turned = self.batch_first and query.dim() == 3
        if turned:
            query, key, value = (part.transpose(0, 1) for part in (query, key, value))
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return output.transpose(0, 1) if turned else output, weights

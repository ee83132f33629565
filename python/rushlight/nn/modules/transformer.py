"""The transformer: layers of attention and feed-forward networks (Vaswani et al. 2017)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable  # noqa: TC003

import rushlight as torch
from rushlight import Tensor
from rushlight._text import with_shapes
from rushlight._warnings import warn
from rushlight.backends.mha import get_fastpath_enabled

from .. import functional as F
from .. import init
from .activation import GELU, MultiheadAttention, ReLU
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Activation = str | Callable[[Tensor], Tensor]

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


# They have torch's names, because programs with their own transformers import them.


def _get_activation_fn(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


def _get_clones(module: Module, N: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _causal(mask: Tensor | None, said: bool | None) -> bool:
    """Whether a mask hides exactly the later positions, according to the hint or to its values."""
    if said is not None or mask is None:
        return bool(said)
    size = mask.size(0)
    return mask.shape == (size, size) and torch.equal(mask, _later(size, mask.device, mask.dtype))


def _later(size: int, device: Any = None, dtype: Any = None) -> Tensor:
    return torch.full((size, size), -math.inf, dtype=dtype, device=device).triu(1)


class _Layer(Module):
    """The base of both kinds of layers: self-attention, the feed-forward network, and residual connections."""

    __constants__ = ["norm_first"]
    activation: Callable[[Tensor], Tensor]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, device=device, dtype=dtype
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **place)
        self.norm_first = norm_first
        parts = range(1, len(self._attentions) + 2)
        for part in parts:
            setattr(self, f"norm{part}", LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype))
        for part in parts:
            setattr(self, f"dropout{part}", Dropout(dropout))
        self.activation = _get_activation_fn(activation)

    _attentions: tuple[str, ...] = ("self_attn",)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("activation", F.relu)

    def _joined(self, part: int, x: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        """The sum of an input and the output of a block, normalised before or after."""
        norm = getattr(self, f"norm{part}")
        if self.norm_first:
            return x + block(norm(x))
        return norm(x + block(x))

    # The blocks have torch's names, because programs override them.

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        """Self-attention."""
        options = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask, "is_causal": is_causal}
        return self.dropout1(self.self_attn(x, x, x, need_weights=False, **options)[0])

    def _ff_block(self, x: Tensor) -> Tensor:
        """The feed-forward network."""
        dropout = getattr(self, f"dropout{len(self._attentions) + 1}")
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual connection and a normalisation.

    Args:
        d_model: the number of features E.
        nhead: the number of attention heads.
        dim_feedforward: the width of the network.
        dropout: the dropout probability.
        activation: ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps, bias: the epsilon of the normalisations, and whether the layers have biases.
        batch_first: whether sequences are ``(N, S, E)`` instead of ``(S, N, E)``.
        norm_first: whether to normalise before attention and network instead of after.

    Raises:
        RuntimeError: the activation is unknown.

    >>> torch.nn.TransformerEncoderLayer(8, 2, 16)(torch.ones(5, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    @property
    def activation_relu_or_gelu(self) -> int:
        """1 for relu, 2 for gelu, 0 for another function."""
        for number, (function, kind) in enumerate(((F.relu, ReLU), (F.gelu, GELU)), 1):
            if self.activation is function or isinstance(self.activation, kind):
                return number
        return 0

    def __getstate__(self) -> dict[str, Any]:
        # torch reads these attributes from a pickled module.
        return {**self.__dict__, "activation_relu_or_gelu": self.activation_relu_or_gelu}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({key: value for key, value in state.items() if key != "activation_relu_or_gelu"})

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attended(x: Tensor) -> Tensor:
            return self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal)

        return self._joined(2, self._joined(1, src, attended), self._ff_block)


class TransformerDecoderLayer(_Layer):
    """`TransformerEncoderLayer` with attention to the output of the encoder in between. Same arguments.

    >>> layer = torch.nn.TransformerDecoderLayer(8, 2, 16)
    >>> layer(torch.ones(5, 3, 8), torch.ones(7, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attended(x: Tensor) -> Tensor:
            return self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def remembered(x: Tensor) -> Tensor:
            return self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)

        return self._joined(3, self._joined(2, self._joined(1, tgt, attended), remembered), self._ff_block)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """Attention to the output of the encoder."""
        options = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask, "is_causal": is_causal}
        return self.dropout2(self.multihead_attn(x, mem, mem, need_weights=False, **options)[0])


class TransformerEncoder(Module):
    """A stack of copies of an encoder layer.

    Args:
        encoder_layer: the layer to copy.
        num_layers: the number of copies.
        norm: a module that normalises the result, or None.
        enable_nested_tensor: whether padding becomes zero in evaluation without gradients, as it does in torch, which
            computes with a nested tensor there. A warning says why torch does not for some layers.
        mask_check: whether to check for that that the padding follows the elements; otherwise it must.

    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> torch.nn.TransformerEncoder(layer, 2)(torch.ones(5, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        # torch's attributes and its warning
        self.enable_nested_tensor = self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        reason = _why_not_nested(encoder_layer)
        if enable_nested_tensor and reason:
            warn(f"enable_nested_tensor is True, but self.use_nested_tensor is False because {reason}")
            self.use_nested_tensor = False

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        first = self.layers[0]  # raises an error if there are no layers
        causal = _causal(mask, is_causal)
        padding = None
        if (
            mask is None
            and src_key_padding_mask is not None
            and self._is_nested_in_torch(first, src, src_key_padding_mask)
        ):
            padding = src_key_padding_mask if src_key_padding_mask.dtype == torch.bool else src_key_padding_mask != 0
            if padding.all():
                raise RuntimeError("to_padded_tensor: at least one constituent tensor should have non-zero numel")
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask)
        if padding is not None:
            src = src.masked_fill(padding.unsqueeze(-1), 0)
        return src if self.norm is None else self.norm(src)

    def _is_nested_in_torch(self, first: Module, src: Tensor, padding: Tensor) -> bool:
        """Whether torch computes with a nested tensor, so that the padding of the result is zero."""
        return (
            self.use_nested_tensor
            and not first.training
            and src.dim() == 3
            and not src.is_nested
            and get_fastpath_enabled()
            and not torch.is_autocast_enabled()
            and not (torch.is_grad_enabled() and any(one.requires_grad for one in (src, *first.parameters())))
            and (not self.mask_check or bool((padding[:, 1:].bool() >= padding[:, :-1].bool()).all()))
        )


def _why_not_nested(layer: Module) -> str | None:
    """The reason why torch would not use nested tensors for copies of a layer, in torch's words."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    attention = layer.self_attn
    if layer.norm_first:
        reason = "norm_first was True"
    elif not attention.batch_first:
        reason = "self_attn.batch_first was not True(use batch_first for better inference performance)"
    elif not attention._qkv_same_embed_dim:
        reason = "self_attn._qkv_same_embed_dim was not True"
    elif attention.in_proj_bias is None:
        reason = "self_attn was passed bias=False"
    elif not layer.activation_relu_or_gelu:
        reason = "activation_relu_or_gelu was not True"
    elif layer.norm1.eps != layer.norm2.eps:
        reason = "norm1.eps was not equal to encoder_layer.norm2.eps"
    elif attention.num_heads % 2 == 1:
        reason = "self_attn.num_heads is odd"
    else:
        return None
    return f"encoder_layer.{reason}"


class TransformerDecoder(Module):
    """A stack of copies of a decoder layer. Arguments as in `TransformerEncoder`.

    >>> layer = torch.nn.TransformerDecoderLayer(8, 2, 16)
    >>> torch.nn.TransformerDecoder(layer, 2)(torch.ones(5, 3, 8), torch.ones(7, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        self.layers[0]  # raises an error if there are no layers
        causal = _causal(tgt_mask, tgt_is_causal)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder for one sequence and a decoder for another.

    Args:
        d_model, nhead: the number of features E, and the number of attention heads.
        num_encoder_layers, num_decoder_layers: the numbers of layers.
        dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias: as in
            `TransformerEncoderLayer`.
        custom_encoder, custom_decoder: modules that replace encoder and decoder.

    Raises:
        RuntimeError: the batch sizes or the numbers of features of the sequences differ.

    >>> model = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> model(torch.ones(3, 7, 8), torch.ones(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            encoder = TransformerEncoderLayer(*layer, device=device, dtype=dtype)
            custom_encoder = TransformerEncoder(encoder, num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            decoder = TransformerDecoderLayer(*layer, device=device, dtype=dtype)
            custom_decoder = TransformerDecoder(decoder, num_decoder_layers, norm())
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(dim) != tgt.size(dim):
            sentence = "the batch number of src and tgt must be equal"
            raise RuntimeError(with_shapes(sentence, "Transformer", src.shape, tgt.shape))
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            sentence = "the feature number of src and tgt must be equal to d_model"
            raise RuntimeError(with_shapes(sentence, "Transformer", src.shape, tgt.shape))
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """A causal mask: minus infinity above the diagonal.

        >>> torch.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return _later(sz, device, dtype)

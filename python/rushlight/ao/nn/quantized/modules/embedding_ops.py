"""Tables of rows with 8 bits, whose rows are numbers again when they are looked up."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor, nn
from rushlight import _quantized_ops as ops

__all__ = ["Embedding", "EmbeddingBag", "EmbeddingPackedParams"]


class EmbeddingPackedParams(nn.Module):
    """The table, which is state and not a parameter."""

    _version = 1

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: Any = torch.quint8) -> None:
        super().__init__()
        if dtype is not torch.quint8:
            raise NotImplementedError(f"Unsupported dtype on quantized embedding! Supports quint8, got {dtype}")
        self.dtype = dtype
        ones, zeros = (made(num_embeddings, dtype=torch.float) for made in (torch.ones, torch.zeros))
        table = torch.zeros(num_embeddings, embedding_dim)
        self.set_weight(torch.quantize_per_channel(table, ones, zeros, 0, dtype))

    def set_weight(self, weight: Tensor) -> None:
        """Sets the table."""
        self._packed_weight = weight

    def _weight(self) -> Tensor:
        return self._packed_weight

    def forward(self, x: Tensor) -> Tensor:
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._weight()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *rest[1:])

    def __repr__(self) -> str:
        return repr(self._weight())


class Embedding(nn.Module):
    """A table of rows with 8 bits, each with its own scale and zero point.

    >>> torch.ao.nn.quantized.Embedding(4, 3)(torch.tensor([1, 2])).shape
    torch.Size([2, 3])
    """

    _version = 1
    _float: Any = nn.Embedding

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        dtype: Any = torch.quint8,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is not None:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self._packed_params.set_weight(_weight)

    def forward(self, indices: Tensor) -> Tensor:
        return ops.embedding_byte(self.weight(), indices)

    def _get_name(self) -> str:
        return "QuantizedEmbedding"

    def extra_repr(self) -> str:
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, dtype={self._packed_params.dtype}, "
            f"qscheme={self.weight().qscheme()}"
        )

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def set_weight(self, w: Tensor) -> None:
        """Sets the table."""
        self._packed_params.set_weight(w)

    def weight(self) -> Tensor:
        """The table."""
        return self._packed_params._weight()

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The table of a float one, or of one that training has rounded, with a scale and a zero point for each row."""
        from rushlight.ao.quantization.qconfig import float_qparams_weight_only_qconfig

        if hasattr(mod, "weight_fake_quant"):
            observer = mod.weight_fake_quant
        else:
            config = getattr(mod, "qconfig", None) or float_qparams_weight_only_qconfig
            observer = config.weight()
        if observer.qscheme is not torch.per_channel_affine_float_qparams:
            raise AssertionError("Embedding quantization is only supported with float_qparams_weight_only_qconfig.")
        if observer.dtype is not torch.quint8:
            raise AssertionError(
                f"The only supported weight dtype for nnq.{cls.__name__} is torch.quint8, got {observer.dtype}"
            )
        observer(mod.weight)
        scale, zero_point = observer.calculate_qparams()
        rows = torch.quantize_per_channel(mod.weight.detach().float(), scale, zero_point, 0, torch.quint8)
        return cls._with(mod, rows)

    @classmethod
    def _with(cls, mod: Any, rows: Tensor) -> Any:
        return cls(mod.num_embeddings, mod.embedding_dim, _weight=rows)


class EmbeddingBag(Embedding):
    """A table of rows with 8 bits that are added.

    >>> torch.ao.nn.quantized.EmbeddingBag(4, 3)(torch.tensor([1, 2]), torch.tensor([0])).shape
    torch.Size([1, 3])
    """

    _float = nn.EmbeddingBag

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "sum",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        dtype: Any = torch.quint8,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(
        self,
        indices: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
        compressed_indices_mapping: Tensor | None = None,
    ) -> Tensor:
        options: Any = {"per_sample_weights": per_sample_weights, "include_last_offset": self.include_last_offset}
        return ops.embedding_bag_byte(self.weight(), indices, offsets, **options)

    def _get_name(self) -> str:
        return "QuantizedEmbeddingBag"

    @classmethod
    def _with(cls, mod: Any, rows: Tensor) -> Any:
        options = {"mode": mod.mode, "include_last_offset": mod.include_last_offset}
        return cls(mod.num_embeddings, mod.embedding_dim, _weight=rows, **options)


def __dir__() -> list[str]:
    return __all__

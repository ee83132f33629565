"""`torch.ao.nn.qat`: layers whose weights are rounded as quantisation will, for training."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor, nn

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear"]


def checked_config(mod: Any, cls: Any, kinds: tuple[type[nn.Module], ...]) -> Any:
    """The configuration of a layer that is to be replaced by one of this module.

    Raises:
        AssertionError: the layer has another class, or no configuration.
    """
    if type(mod) not in kinds:
        raise AssertionError(
            f"qat.{cls.__name__}.from_float only works for {kinds[0].__name__}, got {type(mod).__name__}"
        )
    if not hasattr(mod, "qconfig"):
        raise AssertionError("Input float module must have qconfig defined")
    if not mod.qconfig:
        raise AssertionError("Input float module must have a valid qconfig")
    return mod.qconfig


class _Trained(nn.Module):
    """What these layers share: a configuration, and the module that rounds the weight."""

    #: The class of the layer that is replaced, alone or in a sequence; that of the float layer; and its options.
    _FLOAT_MODULE: Any = None
    _layer: Any = None
    _options: tuple[str, ...] = ()
    weight: Any
    bias: Any

    def _configure(self, qconfig: Any, **options: Any) -> None:
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(**{name: value for name, value in options.items() if value is not None})

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer for a float one with a configuration, with the same parameters."""
        qconfig = checked_config(mod, cls, (cls._FLOAT_MODULE,))
        layer = mod[0] if isinstance(mod, nn.Sequential) else mod
        options = {name: getattr(layer, name) for name in cls._options}
        if hasattr(layer, "bias"):
            options["bias"] = layer.bias is not None
        made: Any = cls(**options, qconfig=qconfig)
        made.weight = layer.weight
        if hasattr(layer, "bias"):
            made.bias = layer.bias
        return made

    def to_float(self) -> Any:
        """The float layer, with copies of the parameters."""
        options: dict[str, Any] = {name: getattr(self, name) for name in self._options}
        with_bias = hasattr(self, "bias")
        if with_bias:
            options["bias"] = self.bias is not None
        made = self._layer(**options)
        made.weight = nn.Parameter(self.weight.detach())
        if with_bias and self.bias is not None:
            made.bias = nn.Parameter(self.bias.detach())
        made.train(self.training)
        return made


class Linear(_Trained, nn.Linear):
    """A linear layer with a rounded weight.

    >>> layer = torch.ao.nn.qat.Linear(2, 3, qconfig=torch.ao.quantization.default_qat_qconfig)
    >>> layer(torch.ones(1, 2)).shape
    torch.Size([1, 3])
    """

    _FLOAT_MODULE: Any = nn.Linear
    _layer = nn.Linear
    _options = ("in_features", "out_features")

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        qconfig: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        nn.Linear.__init__(self, in_features, out_features, bias, device=device, dtype=dtype)
        self._configure(qconfig, factory_kwargs={"device": device, "dtype": dtype} if device or dtype else None)

    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.linear(input, self.weight_fake_quant(self.weight), self.bias)


class _ConvNd(_Trained):
    """A convolution with a rounded weight."""

    _options = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        qconfig: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        geometry = stride, padding, dilation, groups
        make: Any = self._layer.__init__
        make(self, in_channels, out_channels, kernel_size, *geometry, bias, padding_mode, device, dtype)
        self._configure(qconfig, factory_kwargs={"device": device, "dtype": dtype} if device or dtype else None)

    def forward(self, input: Tensor) -> Tensor:
        own: Any = self
        return own._conv_forward(input, own.weight_fake_quant(own.weight), own.bias)


class Conv1d(_ConvNd, nn.Conv1d):
    """A convolution of sequences with a rounded weight."""

    _FLOAT_MODULE: Any = nn.Conv1d
    _layer = nn.Conv1d


class Conv2d(_ConvNd, nn.Conv2d):
    """A convolution of images with a rounded weight.

    >>> layer = torch.ao.nn.qat.Conv2d(1, 2, 3, qconfig=torch.ao.quantization.default_qat_qconfig)
    >>> layer(torch.ones(1, 1, 4, 4)).shape
    torch.Size([1, 2, 2, 2])
    """

    _FLOAT_MODULE: Any = nn.Conv2d
    _layer = nn.Conv2d


class Conv3d(_ConvNd, nn.Conv3d):
    """A convolution of volumes with a rounded weight."""

    _FLOAT_MODULE: Any = nn.Conv3d
    _layer = nn.Conv3d


def _check_rows(qconfig: Any, name: str) -> None:
    if not qconfig:
        raise AssertionError("qconfig must be provided for QAT module")
    scheme = qconfig.weight().qscheme
    if scheme is not torch.per_channel_affine_float_qparams:
        raise AssertionError(
            f"{name} weights requires a qscheme of torch.per_channel_affine_float_qparams Got {scheme}"
        )


class Embedding(_Trained, nn.Embedding):
    """A table of rows that are rounded.

    >>> config = torch.ao.quantization.qconfig.default_embedding_qat_qconfig
    >>> torch.ao.nn.qat.Embedding(4, 3, qconfig=config)(torch.tensor([1])).shape
    torch.Size([1, 3])
    """

    _FLOAT_MODULE: Any = nn.Embedding
    _layer = nn.Embedding
    _options = (
        *("num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
    )

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
        device: Any = None,
        dtype: Any = None,
        qconfig: Any = None,
    ) -> None:
        options = padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight
        nn.Embedding.__init__(self, num_embeddings, embedding_dim, *options, device=device, dtype=dtype)
        _check_rows(qconfig, "Embedding")
        self._configure(qconfig)

    def forward(self, input: Tensor) -> Tensor:
        options = self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        return nn.functional.embedding(input, self.weight_fake_quant(self.weight), *options)


class EmbeddingBag(_Trained, nn.EmbeddingBag):
    """A table of rows that are rounded and added.

    >>> config = torch.ao.quantization.qconfig.default_embedding_qat_qconfig
    >>> bag = torch.ao.nn.qat.EmbeddingBag(4, 3, mode="sum", qconfig=config)
    >>> bag(torch.tensor([[1, 2]])).shape
    torch.Size([1, 3])
    """

    _FLOAT_MODULE: Any = nn.EmbeddingBag
    _layer = nn.EmbeddingBag
    _options = (
        *("num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse"),
        *("include_last_offset", "padding_idx"),
    )

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        qconfig: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options: Any = max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight, include_last_offset, padding_idx
        made: Any = nn.EmbeddingBag.__init__
        made(self, num_embeddings, embedding_dim, *options[:-1], device=device, dtype=dtype)
        self.padding_idx = padding_idx
        _check_rows(qconfig, "Embedding Bag")
        self._configure(qconfig)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return nn.functional.embedding_bag(
            input,
            self.weight_fake_quant(self.weight),
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )


def __dir__() -> list[str]:
    return __all__

"""Convolutions with weights of 8 bits."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor, nn
from rushlight import _quantized_ops as ops

from .linear import quantized_weight, trained

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _ConvNd(nn.Module):
    """The base of the convolutions, whose weight and bias are state and not parameters."""

    _call: Any = staticmethod(ops.conv2d)
    _dims = 2
    _float: Any = nn.Conv2d
    _options: tuple[str, ...] = (
        "in_channels",
        "out_channels",
        "kernel_size",
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
    )

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
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._begin(padding_mode, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)

    def _begin(self, padding_mode: str, *options: Any) -> None:
        """Takes the options from a float layer, which checks and completes them."""
        if padding_mode != "zeros":
            raise NotImplementedError("quantised convolutions pad with zeros")
        made = self._float(*options)
        self.in_channels, self.out_channels, self.groups = made.in_channels, made.out_channels, made.groups
        self.kernel_size, self.stride, self.padding = made.kernel_size, made.stride, made.padding
        self.output_padding, self.dilation, self.padding_mode = made.output_padding, made.dilation, padding_mode
        weight = torch.quantize_per_tensor(torch.zeros(made.weight.shape), 1.0, 0, torch.qint8)
        self.set_weight_bias(weight, None if made.bias is None else torch.zeros(made.out_channels))
        self.scale = 1.0
        self.zero_point = 0

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Sets the weight and the bias."""
        geometry = self.stride, self.padding, self.dilation, self.groups
        self._packed_params = ops.conv2d_prepack(w, b, *geometry)

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        return self._packed_params.unpack()

    def weight(self) -> Tensor:
        """The quantised weight."""
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """The bias, which is not quantised."""
        return self._weight_bias()[1]

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != self._dims + 2:
            shape = {1: "(N, C, L)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}[self._dims]
            raise ValueError(f"Input shape must be `{shape}`!")
        return self._call(input, self._packed_params, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return f"QuantizedConv{self._dims}d"

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        text += f", scale={self.scale}, zero_point={self.zero_point}"
        if self.padding != (0,) * self._dims:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._dims:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self._dims:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text + (", bias=False" if self.bias() is None else "")

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        weight, bias = self._weight_bias()
        destination[prefix + "weight"], destination[prefix + "bias"] = weight, bias
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *rest[1:])

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer of a prepared convolution: with the range that its observers saw."""
        weight, bias, observer = trained(mod)
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        layer = mod[0] if isinstance(mod, nn.Sequential) else mod
        made = cls(**{name: getattr(layer, name) for name in cls._options}, bias=bias is not None)
        made.set_weight_bias(quantized_weight(weight, observer), bias)
        made.scale, made.zero_point = float(scale), int(zero_point)
        return made


class Conv1d(_ConvNd):
    """A convolution over quantised sequences, whose result has the scale and the zero point of the layer.

    >>> q = torch.quantize_per_tensor(torch.ones(1, 2, 5), 0.1, 0, torch.quint8)
    >>> torch.ao.nn.quantized.Conv1d(2, 3, 3)(q).shape
    torch.Size([1, 3, 3])
    """

    _dims, _float = 1, nn.Conv1d


class Conv2d(_ConvNd):
    """A convolution over quantised images, whose result has the scale and the zero point of the layer.

    >>> q = torch.quantize_per_tensor(torch.ones(1, 2, 5, 5), 0.1, 0, torch.quint8)
    >>> torch.ao.nn.quantized.Conv2d(2, 3, 3)(q).shape
    torch.Size([1, 3, 3, 3])
    """

    _dims, _float = 2, nn.Conv2d


class Conv3d(_ConvNd):
    """A convolution over quantised volumes, whose result has the scale and the zero point of the layer.

    >>> q = torch.quantize_per_tensor(torch.ones(1, 2, 5, 5, 5), 0.1, 0, torch.quint8)
    >>> torch.ao.nn.quantized.Conv3d(2, 3, 3)(q).shape
    torch.Size([1, 3, 3, 3, 3])
    """

    _dims, _float = 3, nn.Conv3d


class _ConvTransposeNd(_ConvNd):
    """The base of the transposed convolutions, whose weights have one scale."""

    _call = staticmethod(ops.conv_transpose2d)
    _options = (*_ConvNd._options, "output_padding")

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        nn.Module.__init__(self)
        self._begin(
            padding_mode,
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias,
            dilation,
        )

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Sets the weight and the bias."""
        geometry = self.stride, self.padding, self.output_padding, self.dilation, self.groups
        self._packed_params = ops.conv_transpose2d_prepack(w, b, *geometry)

    def _get_name(self) -> str:
        return f"QuantizedConvTranspose{self._dims}d"


class ConvTranspose1d(_ConvTransposeNd):
    """A transposed convolution over quantised sequences."""

    _dims, _float = 1, nn.ConvTranspose1d


class ConvTranspose2d(_ConvTransposeNd):
    """A transposed convolution over quantised images.

    >>> q = torch.quantize_per_tensor(torch.ones(1, 2, 4, 4), 0.1, 0, torch.quint8)
    >>> torch.ao.nn.quantized.ConvTranspose2d(2, 3, 3)(q).shape
    torch.Size([1, 3, 6, 6])
    """

    _dims, _float = 2, nn.ConvTranspose2d


class ConvTranspose3d(_ConvTransposeNd):
    """A transposed convolution over quantised volumes."""

    _dims, _float = 3, nn.ConvTranspose3d


def __dir__() -> list[str]:
    return __all__

"""A linear layer with weights of 8 bits."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor, nn
from rushlight import _quantized_ops as ops

__all__ = ["Linear", "LinearPackedParams"]


def quantized_weight(weight: Tensor, observer: Any) -> Tensor:
    """A weight with the scales that an observer chose for it."""
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme in (torch.per_tensor_symmetric, torch.per_tensor_affine):
        return torch.quantize_per_tensor(weight.detach().float(), float(scale), int(zero_point), torch.qint8)
    zeros = zero_point if observer.qscheme is torch.per_channel_affine_float_qparams else zero_point.to(torch.int)
    axis = observer.ch_axis
    return torch.quantize_per_channel(weight.detach().float(), scale.to(torch.double), zeros.long(), axis, torch.qint8)


def trained(mod: Any) -> tuple[Tensor, Tensor | None, Any]:
    """The weight, the bias and the observer of a prepared layer, of the first one of a fused sequence, or of a layer that
    training has joined with the normalisation behind it."""
    layer = mod[0] if isinstance(mod, nn.Sequential) else mod
    if hasattr(mod, "weight_fake_quant"):
        weight, bias = mod.joined() if hasattr(mod, "joined") else (mod.weight, mod.bias)
        observer = mod.weight_fake_quant
        # The factors of the normalisation may have changed since the last step.
        if hasattr(mod, "joined"):
            observer(weight)
    else:
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        weight, bias, observer = layer.weight, layer.bias, mod.qconfig.weight()
        observer(weight)
    if observer.dtype is not torch.qint8:
        raise AssertionError(f"Weight observer must have dtype torch.qint8, got {observer.dtype}")
    return weight, bias, observer


class LinearPackedParams(nn.Module):
    """The weight and the bias of a quantised linear layer, which are its state and not parameters."""

    _version = 3

    def __init__(self, dtype: Any = torch.qint8) -> None:
        super().__init__()
        self.dtype = dtype
        if dtype is torch.qint8:
            weight = torch._empty_affine_quantized([1, 1], scale=1.0, zero_point=0, dtype=torch.qint8)
        elif dtype is torch.float16:
            weight = torch.zeros([1, 1], dtype=torch.float)
        self.set_weight_bias(weight, None)

    def set_weight_bias(self, weight: Tensor, bias: Tensor | None) -> None:
        """Sets both."""
        if self.dtype is torch.qint8:
            self._packed_params = ops.linear_prepack(weight, bias)
        elif self.dtype is torch.float16:
            self._packed_params = ops.linear_prepack_fp16(weight, bias)
        else:
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        return self._packed_params.unpack()

    def forward(self, x: Tensor) -> Tensor:
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: Any,
        unexpected_keys: Any,
        error_msgs: Any,
    ) -> None:
        version = local_metadata.get("version", None)
        if version is None or version < 2:
            self.dtype = torch.qint8
        else:
            self.dtype = state_dict.pop(prefix + "dtype")
        if version is None or version < 3:
            self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        else:
            self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class Linear(nn.Module):
    """A linear layer over quantised tensors, whose result has the scale and the zero point of the layer.

    >>> layer = torch.ao.nn.quantized.Linear(2, 3)
    >>> layer.scale, layer.zero_point = 0.1, 5
    >>> layer(torch.quantize_per_tensor(torch.ones(1, 2), 0.1, 0, torch.quint8)).shape
    torch.Size([1, 3])
    """

    _version = 3
    _FLOAT_MODULE: Any = nn.Linear

    def __init__(self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = torch.qint8) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bias = torch.zeros(out_features, dtype=torch.float) if bias_ else None
        if dtype is torch.qint8:
            weight = torch.quantize_per_tensor(torch.zeros(out_features, in_features), 1.0, 0, torch.qint8)
        elif dtype is torch.float16:
            weight = torch.zeros([out_features, in_features], dtype=torch.float)
        else:
            raise RuntimeError("Unsupported dtype specified for quantized Linear!")
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(weight, bias)
        self.scale = 1.0
        self.zero_point = 0

    def _get_name(self) -> str:
        return "QuantizedLinear"

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, "
            f"zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def forward(self, x: Tensor) -> Tensor:
        return ops.linear(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: Any,
        unexpected_keys: Any,
        error_msgs: Any,
    ) -> None:
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        version = local_metadata.get("version", None)
        if version is None or version == 1:
            weight, bias = state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias")
            state_dict.update({prefix + "_packed_params.weight": weight, prefix + "_packed_params.bias": bias})
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        return self._packed_params._weight_bias()

    def weight(self) -> Tensor:
        """The quantised weight."""
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """The bias, which is not quantised."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Sets the weight and the bias."""
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Linear:
        """The layer of a prepared linear layer: with the range that its observers saw."""
        weight, bias, observer = trained(mod)
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        made = cls(weight.shape[1], weight.shape[0])
        made.set_weight_bias(quantized_weight(weight, observer), bias)
        made.scale, made.zero_point = float(scale), int(zero_point)
        return made


def __dir__() -> list[str]:
    return __all__

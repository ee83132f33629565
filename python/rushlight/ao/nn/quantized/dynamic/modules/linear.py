"""A linear layer with weights of 8 bits, or of half precision, over float tensors."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor, nn
from rushlight import _quantized_ops as ops

from ...modules import linear as static

__all__ = ["Linear"]


class Linear(static.Linear):
    """A linear layer that quantises its input by the input's own range in each call.

    Args:
        bias_: adds a bias.
        dtype: that of the weight, ``torch.qint8`` or ``torch.float16``.

    >>> model = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(3, 4)))
    >>> model[0]
    DynamicQuantizedLinear(in_features=3, out_features=4, dtype=torch.qint8, qscheme=torch.per_tensor_affine)
    >>> model(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    _version = 4
    _FLOAT_MODULE: Any = nn.Linear

    def __init__(self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = torch.qint8) -> None:
        super().__init__(in_features, out_features, bias_, dtype=dtype)
        self.version = 4

    def forward(self, x: Tensor) -> Tensor:
        packed = self._packed_params
        if packed.dtype is torch.float16:
            return ops.linear_dynamic_fp16(x, packed._packed_params)
        reduce_range = self.version is not None and self.version >= 4
        return ops.linear_dynamic(x, packed._packed_params, reduce_range=reduce_range).to(x.dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._packed_params.dtype}"
        if self._packed_params.dtype is torch.qint8:
            text += f", qscheme={self.weight().qscheme()}"
        return text

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        self.version = local_metadata.get("version", None)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Linear:
        """The layer with the weight and the bias of another one, which may have a configuration (``qconfig``)."""
        from rushlight.ao.quantization.qconfig import default_dynamic_qconfig

        qconfig = getattr(mod, "qconfig", None)
        weight = (
            qconfig.weight if qconfig is not None and qconfig.weight is not None else default_dynamic_qconfig.weight
        )
        observer = weight()
        if observer.dtype not in (torch.qint8, torch.float16):
            raise AssertionError(
                f"The only supported dtypes for dynamic quantized linear are qint8 and float16 got: {observer.dtype}"
            )
        observer(mod.weight)
        taken = mod.weight.float() if observer.dtype is torch.float16 else static.quantized_weight(mod.weight, observer)
        made = cls(mod.in_features, mod.out_features, dtype=observer.dtype)
        made.set_weight_bias(taken, mod.bias)
        return made


def __dir__() -> list[str]:
    return __all__

"""The base of observers, and factories of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import rushlight as torch
from rushlight import Tensor, nn
from rushlight._quantized import limits as _dtype_limits
from rushlight._warnings import warn

__all__ = ["ObserverBase", "UniformQuantizationObserverBase"]

INFINITE = float("inf")
EPS = torch.finfo(torch.float32).eps
_SYMMETRIC = torch.per_tensor_symmetric, torch.per_channel_symmetric
_DTYPES = (
    torch.qint8,
    torch.quint8,
    torch.quint4x2,
    torch.qint32,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.float8_e5m2,
    torch.float8_e4m3fn,
    torch.uint16,
)


class PartialWrapper:
    """A function with some arguments given, which is shown and extended as torch's are: ``with_args``."""

    def __init__(self, function: Any) -> None:
        self.p = function
        self.callable_args: dict[str, Any] = {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        made = {name: make() for name, make in self.callable_args.items() if name not in keywords}
        return self.p(*args, **keywords, **made)

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, *args: Any, **keywords: Any) -> PartialWrapper:
        return with_args(self, *args, **keywords)

    def with_callable_args(self, **keywords: Any) -> PartialWrapper:
        result = with_args(self)
        result.callable_args = {**self.callable_args, **keywords}
        return result


def with_args(factory: Any, *args: Any, **keywords: Any) -> PartialWrapper:
    if isinstance(factory, PartialWrapper):
        result = PartialWrapper(partial(factory.p, *args, **keywords))
        result.callable_args = dict(factory.callable_args)
        return result
    return PartialWrapper(partial(factory, *args, **keywords))


def with_callable_args(factory: Any, **keywords: Any) -> PartialWrapper:
    return with_args(factory).with_callable_args(**keywords)


def range_of(
    dtype: Any, reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None
) -> tuple[int, int]:
    """The least and the greatest integer: those given, or those of the dtype; half of them with `reduce_range`."""
    if quant_min is not None and quant_max is not None:
        if not quant_min <= 0 <= quant_max:
            raise AssertionError("Used-specified quantization range must include 0.")
        if quant_min >= quant_max:
            raise AssertionError("qmin must be strictly less than qmax for user-specified quantization range.")
        least, most = quant_min, quant_max
        wide = dtype in (torch.qint32, torch.int32)
        if not 0 < most - least + 1 <= (2**32 if wide else 256 if dtype not in (torch.int16, torch.uint16) else 2**16):
            raise AssertionError("quantization range should be positive and not exceed the maximum bit range (=256).")
    elif dtype is torch.quint4x2:
        return 0, 15
    elif dtype in (torch.float8_e5m2, torch.float8_e4m3fn):
        return 0, 15
    else:
        least, most = _dtype_limits(dtype)
    if reduce_range and dtype not in (torch.qint32, torch.int32):
        return least // 2, most // 2
    return least, most


class ObserverBase(nn.Module):
    """The base of all observers: a module whose call records a tensor and returns it.

    ``with_args`` gives a factory of observers with these arguments, from which modules make one each.

    >>> make = torch.ao.quantization.MinMaxObserver.with_args(dtype=torch.qint8)
    >>> make().dtype
    torch.qint8
    """

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype = dtype
        self.is_dynamic = is_dynamic

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def calculate_qparams(self, **keywords: Any) -> Any:
        """The scale and the zero point for what was recorded."""
        raise NotImplementedError(f"{type(self).__name__} has no calculate_qparams")

    @classmethod
    def with_args(cls, *args: Any, **keywords: Any) -> PartialWrapper:
        return with_args(cls, *args, **keywords)

    @classmethod
    def with_callable_args(cls, **keywords: Any) -> PartialWrapper:
        return with_callable_args(cls, **keywords)


class UniformQuantizationObserverBase(ObserverBase):
    """The base of observers of a range, with a scale for the whole tensor or for each channel.

    Args:
        dtype: the dtype of the quantised tensor.
        qscheme: ``torch.per_tensor_affine``, ``per_tensor_symmetric``, ``per_channel_affine``,
            ``per_channel_symmetric`` or ``per_channel_affine_float_qparams``.
        reduce_range: uses one bit less.
        quant_min, quant_max: the range of integers, if it is not the dtype's.
        factory_kwargs: ``dtype`` and ``device`` of the buffers.
        eps: the least scale.
        is_dynamic: for inputs that are quantised by their own range.
    """

    min_val: Tensor
    max_val: Tensor
    eps: Tensor

    def __init__(
        self,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict[str, Any] | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **keywords: Any,
    ) -> None:
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **keywords)
        self.qscheme = qscheme
        if reduce_range:
            warn(
                "Please use quant_min and quant_max to specify the range for observers. "
                "reduce_range will be deprecated in a future release of PyTorch."
            )
        self.reduce_range = reduce_range
        self._made = {key: value for key, value in (factory_kwargs or {}).items() if value is not None}
        self.register_buffer("eps", torch.tensor([eps], **self._made))
        if not isinstance(qscheme, torch.qscheme):
            raise AssertionError(
                "Default Observer only works for per_tensor_affine, per_tensor_symmetric, per_channel_affine, "
                "per_channel_symmetric and per_channel_float_qparams quantization scheme"
            )
        if dtype not in _DTYPES:
            raise AssertionError(f"Default Observer only works for {_DTYPES} data type")
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        self.quant_min, self.quant_max = range_of(dtype, reduce_range, quant_min, quant_max)

    def _calculate_qparams(self, min_val: Tensor, max_val: Tensor) -> tuple[Tensor, Tensor]:
        """The scales and the zero points for ranges."""
        if not _is_valid(min_val, max_val):
            return torch.tensor([1.0]), torch.tensor([0])
        zero = torch.zeros_like(min_val)
        low, high = torch.minimum(min_val, zero), torch.maximum(max_val, zero)
        steps = float(self.quant_max - self.quant_min)
        if self.qscheme in _SYMMETRIC:
            scale = torch.maximum(torch.maximum(-low, high) / (steps / 2), self.eps)
            zeros = torch.full(scale.shape, self._middle(), dtype=torch.int64)
        elif self.qscheme is torch.per_channel_affine_float_qparams:
            scale = (max_val - min_val) / steps
            scale = torch.where(scale > self.eps, scale, torch.ones_like(scale))
            zeros = -min_val / scale
        else:
            scale = torch.maximum((high - low) / steps, self.eps)
            zeros = self.quant_min - (low / scale).round().to(torch.int32)
            zeros = zeros.clamp(self.quant_min, self.quant_max)
        return scale.reshape(-1), zeros.expand_as(scale).reshape(-1)

    def _middle(self) -> int:
        """The integer that stands for zero if the range of numbers is symmetric."""
        if self.dtype in (torch.quint8, torch.uint8):
            return (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128
        return 2**15 if self.dtype is torch.uint16 else 0

    def calculate_qparams(self, **keywords: Any) -> Any:
        return self._calculate_qparams(self.min_val, self.max_val)

    def reset_min_max_vals(self) -> None:
        """Forgets what was recorded."""
        raise NotImplementedError("Cannot reset min/max values in the given observer.")

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


def _is_valid(min_val: Tensor, max_val: Tensor) -> bool:
    """Whether a range was recorded; warns if not."""
    if min_val.numel() == 0 or max_val.numel() == 0:
        warn("must run observer before calling calculate_qparams. Returning default values.")
        return False
    if min_val.dim() == 0 or max_val.dim() == 0:
        if min_val == INFINITE and max_val == -INFINITE:
            warn("must run observer before calling calculate_qparams. Returning default values.")
            return False
        if min_val > max_val:
            raise AssertionError(f"min {min_val} should be less than max {max_val}")
    elif bool((min_val > max_val).any()):
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True

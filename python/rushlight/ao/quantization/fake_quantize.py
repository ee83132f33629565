"""Modules that round tensors as quantisation does, for training with its errors."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor, nn

from ._observer_base import PartialWrapper, with_args
from .observer import (
    FixedQParamsObserver,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)

__all__ = [
    "FakeQuantize",
    "FakeQuantizeBase",
    "FixedQParamsFakeQuantize",
    "FusedMovingAvgObsFakeQuantize",
    "default_affine_fixed_qparams_fake_quant",
    "default_dynamic_fake_quant",
    "default_embedding_fake_quant",
    "default_embedding_fake_quant_4bit",
    "default_fake_quant",
    "default_fixed_qparams_range_0to1_fake_quant",
    "default_fixed_qparams_range_neg1to1_fake_quant",
    "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant",
    "default_fused_wt_fake_quant",
    "default_histogram_fake_quant",
    "default_per_channel_weight_fake_quant",
    "default_symmetric_fixed_qparams_fake_quant",
    "default_weight_fake_quant",
    "disable_fake_quant",
    "disable_observer",
    "enable_fake_quant",
    "enable_observer",
    "fused_per_channel_wt_fake_quant_range_neg_127_to_127",
    "fused_wt_fake_quant_range_neg_127_to_127",
]

_PER_CHANNEL = torch.per_channel_symmetric, torch.per_channel_affine, torch.per_channel_affine_float_qparams
_PER_TENSOR = torch.per_tensor_symmetric, torch.per_tensor_affine


class FakeQuantizeBase(nn.Module):
    """The base of modules that round as quantisation does. The two switches are buffers of one number.

    >>> rounding = torch.ao.quantization.FakeQuantize()
    >>> rounding.disable_fake_quant()
    >>> rounding.fake_quant_enabled
    tensor([0], dtype=torch.uint8)
    """

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.uint8))
        self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.uint8))

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def calculate_qparams(self, **keywords: Any) -> Any:
        """The scale and the zero point of the observer."""
        raise NotImplementedError(f"{type(self).__name__} has no calculate_qparams")

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Turns rounding on or off."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        """Turns rounding off."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Turns the observer on or off."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        """Turns the observer off."""
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **keywords: Any) -> PartialWrapper:
        return with_args(cls, **keywords)


class FakeQuantize(FakeQuantizeBase):
    """Observes tensors, and rounds them with the scale and the zero point of the observer.

    Args:
        observer: the class of the observer, or a factory.
        quant_min, quant_max: the range of integers, if it is not the dtype's.
        is_dynamic: for inputs that are quantised by their own range.
        observer_kwargs: arguments of the observer.

    >>> rounding = torch.ao.quantization.FakeQuantize()
    >>> rounding(torch.tensor([0.0, 1.0, 2.55]))
    tensor([0.0000, 1.0000, 2.5500])
    >>> rounding.scale, rounding.zero_point
    (tensor([0.0100]), tensor([0], dtype=torch.int32))
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError("quant_min must be less than or equal to quant_max")
            dtype = observer_kwargs.get("dtype", torch.quint8)
            if hasattr(observer, "p"):
                dtype = getattr(getattr(observer, "p", {}), "keywords", {}).get("dtype", dtype)
            from rushlight._quantized import STORED, limits

            if dtype in STORED or isinstance(dtype, torch.dtype):
                least, most = limits(dtype)
                if least > quant_min:
                    raise AssertionError("quant_min out of bound")
                if quant_max > most:
                    raise AssertionError("quant_max out of bound")
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        observer_kwargs["is_dynamic"] = is_dynamic
        self.activation_post_process = observer(**observer_kwargs)
        own = self.activation_post_process
        self.quant_min, self.quant_max, self.is_dynamic = own.quant_min, own.quant_max, own.is_dynamic
        zero = torch.float if own.qscheme is torch.per_channel_affine_float_qparams else torch.int
        self.register_buffer("scale", torch.tensor([1.0], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([0], dtype=zero))
        self.dtype, self.qscheme = own.dtype, own.qscheme
        self.ch_axis = getattr(own, "ch_axis", -1)
        if self.qscheme not in (*_PER_TENSOR, *_PER_CHANNEL):
            raise AssertionError(
                "Only per channel and per tensor quantization are supported in fake quantize got qscheme: "
                + str(self.qscheme)
            )
        self.is_per_channel = self.qscheme in _PER_CHANNEL

    def calculate_qparams(self, **keywords: Any) -> Any:
        return self.activation_post_process.calculate_qparams()

    def _take(self, parameters: tuple[Tensor, Tensor]) -> None:
        for own, new in zip((self.scale, self.zero_point), parameters):
            if own.shape != new.shape:
                own.resize_(new.shape)
            own.copy_(new)

    def forward(self, X: Tensor) -> Tensor:
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            self._take(self.calculate_qparams())
        if self.fake_quant_enabled[0] != 1:
            return X
        ends = self.activation_post_process.quant_min, self.activation_post_process.quant_max
        if self.is_per_channel:
            return torch.fake_quantize_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis, *ends)
        return torch.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, *ends)

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"quant_min={self.activation_post_process.quant_min}, "
            f"quant_max={self.activation_post_process.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, "
            f"ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}"
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        # There are as many scales as channels once a tensor has passed.
        for name in ("scale", "zero_point"):
            saved = state_dict.get(prefix + name)
            if saved is not None:
                getattr(self, name).resize_(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds with the scale and the zero point of a `FixedQParamsObserver`.

    >>> torch.ao.quantization.default_fixed_qparams_range_0to1_fake_quant()(torch.tensor([0.3]))
    tensor([0.3008])
    """

    def __init__(self, observer: Any) -> None:
        super().__init__(observer=observer)
        if not isinstance(self.activation_post_process, FixedQParamsObserver):
            raise AssertionError(f"{self._get_name()}'s observer must be a FixedQParamsObserver")
        self._observer_ctr = observer
        self.scale = self.activation_post_process.scale
        self.zero_point = self.activation_post_process.zero_point
        if self.qscheme not in _PER_TENSOR:
            raise AssertionError(
                "Only per tensor quantization is supported FixedQParamsFakeQuantize module, got qscheme:"
                + str(self.qscheme)
            )

    def calculate_qparams(self, **keywords: Any) -> Any:
        return self.scale, self.zero_point

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}, "
            f"quant_min={self.activation_post_process.quant_min}, "
            f"quant_max={self.activation_post_process.quant_max}, qscheme={self.qscheme}"
        )


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """`FakeQuantize` with an observer of moving averages, in one function.

    >>> torch.ao.quantization.default_fused_act_fake_quant()(torch.tensor([0.0, 2.55]))
    tensor([0.0000, 2.5500])
    """

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int = 0,
        quant_max: int = 255,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        if not isinstance(
            self.activation_post_process, (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)
        ):
            raise AssertionError(
                "Fused observer+fake_quant module only works with MovingAverageMinMaxObserver or MovingAveragePerChannelMinMaxObserver"
            )
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.long))
        self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.long))
        self.is_symmetric_quant = self.qscheme in (torch.per_tensor_symmetric, torch.per_channel_symmetric)

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}, "
            f"quant_min={self.activation_post_process.quant_min}, "
            f"quant_max={self.activation_post_process.quant_max}, qscheme={self.qscheme}, "
            f"reduce_range={self.activation_post_process.reduce_range}"
        )

    def forward(self, X: Tensor) -> Tensor:
        own = self.activation_post_process
        return torch.fused_moving_avg_obs_fake_quant(
            X,
            self.observer_enabled,
            self.fake_quant_enabled,
            own.min_val,
            own.max_val,
            self.scale,
            self.zero_point,
            own.averaging_constant,
            own.quant_min,
            own.quant_max,
            self.ch_axis,
            self.is_per_channel,
            self.is_symmetric_quant,
        )


def _is_fake_quant(module: Any) -> bool:
    return isinstance(module, FakeQuantizeBase)


def disable_fake_quant(mod: nn.Module) -> None:
    """Turns rounding off in a module of fake quantisation: ``model.apply(disable_fake_quant)``."""
    if _is_fake_quant(mod):
        mod.disable_fake_quant()


def enable_fake_quant(mod: nn.Module) -> None:
    """Turns rounding on in a module of fake quantisation."""
    if _is_fake_quant(mod):
        mod.enable_fake_quant()


def disable_observer(mod: nn.Module) -> None:
    """Turns the observer of a module of fake quantisation off."""
    if _is_fake_quant(mod):
        mod.disable_observer()


def enable_observer(mod: nn.Module) -> None:
    """Turns the observer of a module of fake quantisation on."""
    if _is_fake_quant(mod):
        mod.enable_observer()


_average, _averages = MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver

default_fake_quant = FakeQuantize.with_args(
    observer=_average,
    quant_min=0,
    quant_max=255,
    dtype=torch.quint8,
    qscheme=torch.per_tensor_affine,
    reduce_range=True,
)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=_average,
    quant_min=-128,
    quant_max=127,
    dtype=torch.qint8,
    qscheme=torch.per_tensor_symmetric,
    reduce_range=False,
)
default_dynamic_fake_quant = FakeQuantize.with_args(
    observer=_average, quant_min=0, quant_max=255, is_dynamic=True, dtype=torch.quint8, averaging_constant=1
)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=_averages,
    quant_min=-128,
    quant_max=127,
    dtype=torch.qint8,
    qscheme=torch.per_channel_symmetric,
    reduce_range=False,
    ch_axis=0,
)
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=_averages,
    qscheme=torch.per_channel_affine_float_qparams,
    dtype=torch.quint8,
    quant_min=0,
    quant_max=255,
    ch_axis=0,
    averaging_constant=1,
)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(
    observer=_averages,
    qscheme=torch.per_channel_affine_float_qparams,
    ch_axis=0,
    dtype=torch.quint4x2,
    averaging_constant=1,
)
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver,
    quant_min=0,
    quant_max=255,
    dtype=torch.quint8,
    qscheme=torch.per_tensor_affine,
    reduce_range=True,
)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_average, quant_min=0, quant_max=255, dtype=torch.quint8
)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_average, quant_min=-128, quant_max=127, dtype=torch.qint8, qscheme=torch.per_tensor_symmetric
)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_averages, quant_min=-128, quant_max=127, dtype=torch.qint8, qscheme=torch.per_channel_symmetric
)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_average,
    quant_min=-127,
    quant_max=127,
    dtype=torch.qint8,
    qscheme=torch.per_tensor_symmetric,
    eps=2**-12,
)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_averages,
    quant_min=-127,
    quant_max=127,
    dtype=torch.qint8,
    qscheme=torch.per_channel_symmetric,
    eps=2**-12,
)


def __dir__() -> list[str]:
    return __all__

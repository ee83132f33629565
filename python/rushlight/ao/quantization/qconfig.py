"""Which observers a module gets: one for its results and one for its weights."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import rushlight as torch
from rushlight import nn
from rushlight._warnings import warn

from . import fake_quantize as fakes
from . import observer as observers
from ._observer_base import PartialWrapper

__all__ = [
    "QConfig",
    "QConfigDynamic",
    "default_activation_only_qconfig",
    "default_debug_qconfig",
    "default_dynamic_qat_qconfig",
    "default_dynamic_qconfig",
    "default_per_channel_qconfig",
    "default_qat_qconfig",
    "default_qat_qconfig_v2",
    "default_qconfig",
    "default_reuse_input_qconfig",
    "default_weight_only_qconfig",
    "float16_dynamic_qconfig",
    "float16_static_qconfig",
    "float_qparams_weight_only_qconfig",
    "get_default_qat_qconfig",
    "get_default_qconfig",
    "per_channel_dynamic_qconfig",
    "qconfig_equals",
]


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """Factories of observers for a module's results and for its weights.

    Raises:
        ValueError: an argument is an observer and not a factory.

    >>> config = torch.ao.quantization.default_dynamic_qconfig
    >>> config.weight().dtype
    torch.qint8
    """

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        if isinstance(activation, nn.Module) or isinstance(weight, nn.Module):
            raise ValueError(
                "QConfig received observer instance, please pass observer class instead. Use MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)


class QConfigDynamic(namedtuple("QConfigDynamic", ["activation", "weight"])):
    """The old name of `QConfig` for dynamic quantisation."""

    __slots__ = ()

    def __new__(cls, activation: Any = nn.Identity, weight: Any = nn.Identity) -> QConfigDynamic:
        warn("QConfigDynamic is going to be deprecated in PyTorch 1.12, please use QConfig instead")
        if isinstance(weight, nn.Module):
            raise ValueError(
                "QConfigDynamic received observer instance, please pass observer class instead. Use MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)


_place = observers.PlaceholderObserver

default_qconfig = QConfig(observers.default_observer, observers.default_weight_observer)
default_debug_qconfig = QConfig(observers.default_debug_observer, observers.default_weight_observer)
default_per_channel_qconfig = QConfig(observers.default_observer, observers.default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(observers.default_dynamic_quant_observer, observers.default_weight_observer)
float16_dynamic_qconfig = QConfig(
    _place.with_args(dtype=torch.float16, is_dynamic=True), _place.with_args(dtype=torch.float16)
)
float16_static_qconfig = QConfig(_place.with_args(dtype=torch.float16), _place.with_args(dtype=torch.float16))
per_channel_dynamic_qconfig = QConfig(
    observers.default_dynamic_quant_observer, observers.default_per_channel_weight_observer
)
float_qparams_weight_only_qconfig = QConfig(
    observers.default_placeholder_observer, observers.default_float_qparams_observer
)
default_embedding_qat_qconfig = QConfig(
    observers.NoopObserver.with_args(dtype=torch.float32), fakes.default_embedding_fake_quant
)
default_qat_qconfig = QConfig(fakes.default_fake_quant, fakes.default_weight_fake_quant)
default_qat_qconfig_v2 = QConfig(fakes.default_fused_act_fake_quant, fakes.default_fused_wt_fake_quant)
default_dynamic_qat_qconfig = QConfig(fakes.default_dynamic_fake_quant, fakes.default_weight_fake_quant)
default_weight_only_qconfig = QConfig(nn.Identity, fakes.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(fakes.default_fake_quant, nn.Identity)
default_reuse_input_qconfig = QConfig(observers.default_reuse_input_observer, observers.NoopObserver)

_BACKENDS = "fbgemm", "x86", "qnnpack", "onednn"


def _check(backend: str) -> None:
    if backend not in _BACKENDS:
        supported = ["fbgemm", "x86", "qnnpack", "onednn"]
        raise AssertionError(f"backend: {backend} not supported. backend must be one of {supported}")


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """The observers that suit a library: ``"x86"``, ``"fbgemm"``, ``"qnnpack"`` or ``"onednn"``.

    >>> torch.ao.quantization.get_default_qconfig("qnnpack").activation.p.keywords
    {'reduce_range': False}
    """
    _check(backend)
    if version != 0:
        raise AssertionError(
            f"Version number: {version} in get_default_qconfig is not supported. Version number must be 0"
        )
    per_channel = backend != "qnnpack"
    return QConfig(
        observers.HistogramObserver.with_args(reduce_range=backend in ("fbgemm", "x86")),
        observers.default_per_channel_weight_observer if per_channel else observers.default_weight_observer,
    )


def get_default_qat_qconfig(backend: str = "x86", version: int | None = 1) -> QConfig:
    """The modules of fake quantisation that suit a library.

    >>> torch.ao.quantization.get_default_qat_qconfig("fbgemm").activation().quant_max
    127
    """
    _check(backend)
    if version not in (None, 0, 1):
        raise AssertionError(
            f"Version number: {version} in get_default_qat_qconfig is not supported. Version number must be 0 or 1"
        )
    kind = fakes.FakeQuantize if version == 0 else fakes.FusedMovingAvgObsFakeQuantize
    activation = kind.with_args(
        observer=observers.MovingAverageMinMaxObserver,
        quant_min=0,
        quant_max=255,
        reduce_range=backend in ("fbgemm", "x86"),
    )
    if version == 0:
        weights = fakes.default_per_channel_weight_fake_quant, fakes.default_weight_fake_quant
    else:
        weights = fakes.default_fused_per_channel_wt_fake_quant, fakes.default_fused_wt_fake_quant
    return QConfig(activation, weights[1 if backend == "qnnpack" else 0])


def _same_factory(one: Any, other: Any) -> bool:
    if isinstance(one, PartialWrapper) and isinstance(other, PartialWrapper):
        same = one.p.func == other.p.func and one.p.args == other.p.args
        keywords, others = dict(one.p.keywords), dict(other.p.keywords)
        inner = keywords.pop("observer", None), others.pop("observer", None)
        return same and keywords == others and _same_factory(*inner)
    return one == other


def qconfig_equals(q1: Any, q2: Any) -> bool:
    """Whether two configurations make the same observers.

    >>> own = torch.ao.quantization
    >>> own.qconfig_equals(own.get_default_qconfig("x86"), own.get_default_qconfig("fbgemm"))
    True
    """
    if q1 is None or q2 is None:
        return q1 is q2
    return _same_factory(q1.activation, q2.activation) and _same_factory(q1.weight, q2.weight)


def __dir__() -> list[str]:
    return __all__

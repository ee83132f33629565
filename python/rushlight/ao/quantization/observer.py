"""Observers: modules that record the range of the tensors that pass, and choose scales and zero points for it."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor, nn
from rushlight._set_module import set_public_module
from rushlight._warnings import warn

from ._histogram_observer import HistogramObserver
from ._observer_base import EPS, INFINITE, ObserverBase, UniformQuantizationObserverBase

__all__ = [
    "FixedQParamsObserver",
    "HistogramObserver",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver",
    "NoopObserver",
    "ObserverBase",
    "PerChannelMinMaxObserver",
    "PlaceholderObserver",
    "RecordingObserver",
    "ReuseInputObserver",
    "UniformQuantizationObserverBase",
    "default_affine_fixed_qparams_observer",
    "default_debug_observer",
    "default_dynamic_quant_observer",
    "default_fixed_qparams_range_0to1_observer",
    "default_fixed_qparams_range_neg1to1_observer",
    "default_float_qparams_observer",
    "default_float_qparams_observer_4bit",
    "default_histogram_observer",
    "default_observer",
    "default_per_channel_weight_observer",
    "default_placeholder_observer",
    "default_reuse_input_observer",
    "default_symmetric_fixed_qparams_observer",
    "default_weight_observer",
    "get_observer_state_dict",
    "load_observer_state_dict",
    "per_channel_weight_observer_range_neg_127_to_127",
    "weight_observer_range_neg_127_to_127",
]

#: torch's sentence, with its spaces.
_NO_REDUCTION = "Cannot reduce range for symmetric" + 40 * " " + "quantization for quint8"


class MinMaxObserver(UniformQuantizationObserverBase):
    """Records the least and the greatest element of all tensors.

    >>> observer = torch.ao.quantization.MinMaxObserver()
    >>> observer(torch.tensor([-1.0, 2.0]))
    tensor([-1.,  2.])
    >>> observer.calculate_qparams()
    (tensor([0.0118]), tensor([85], dtype=torch.int32))
    """

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
        if qscheme not in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            raise NotImplementedError(
                "MinMaxObserver's qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine."
            )
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **keywords
        )
        self.register_buffer("min_val", torch.tensor(INFINITE, **self._made))
        self.register_buffer("max_val", torch.tensor(-INFINITE, **self._made))
        if qscheme is torch.per_tensor_symmetric and reduce_range and dtype is torch.quint8:
            raise NotImplementedError(_NO_REDUCTION)

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            low, high = x_orig.detach().to(self.min_val.dtype).aminmax()
            self.min_val.copy_(torch.minimum(low, self.min_val))
            self.max_val.copy_(torch.maximum(high, self.max_val))
        return x_orig

    def reset_min_max_vals(self) -> None:
        self.min_val.fill_(INFINITE)
        self.max_val.fill_(-INFINITE)


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Records moving averages of the tensors' least and greatest elements.

    Args:
        averaging_constant: the weight of a new tensor.
        dtype, qscheme, reduce_range, quant_min, quant_max, eps, is_dynamic: as for all observers of a
            range; see `UniformQuantizationObserverBase`.

    >>> observer = torch.ao.quantization.MovingAverageMinMaxObserver(averaging_constant=0.5)
    >>> _ = observer(torch.tensor([0.0, 2.0])), observer(torch.tensor([0.0, 4.0]))
    >>> observer.max_val
    tensor(3.)
    """

    def __init__(
        self,
        averaging_constant: float = 0.01,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **keywords: Any,
    ) -> None:
        self.averaging_constant = averaging_constant
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError(
                "MovingAverageMinMaxObserver doesn't support dynamic quantization for "
                f"averaging constant of {averaging_constant}"
            )
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **keywords)

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            low, high = x_orig.detach().to(self.min_val.dtype).aminmax()
            if not (self.min_val == INFINITE and self.max_val == -INFINITE):
                low = self.min_val + self.averaging_constant * (low - self.min_val)
                high = self.max_val + self.averaging_constant * (high - self.max_val)
            self.min_val.copy_(low)
            self.max_val.copy_(high)
        return x_orig


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """Records the least and the greatest element of each index of dimension `ch_axis`.

    >>> observer = torch.ao.quantization.PerChannelMinMaxObserver()
    >>> _ = observer(torch.tensor([[-1.0, 2.0], [0.0, 8.0]]))
    >>> observer.min_val, observer.max_val
    (tensor([-1.,  0.]), tensor([2., 8.]))
    """

    def __init__(
        self,
        ch_axis: int = 0,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict[str, Any] | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **keywords: Any,
    ) -> None:
        if qscheme in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            raise NotImplementedError(
                "PerChannelMinMaxObserver's qscheme only support torch.per_channel_symmetric, "
                "torch.per_channel_affine and torch.per_channel_affine_float_qparams."
            )
        if is_dynamic:
            raise NotImplementedError("PerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **keywords
        )
        self.ch_axis = ch_axis
        self.register_buffer("min_val", torch.tensor([], **self._made))
        self.register_buffer("max_val", torch.tensor([], **self._made))
        if qscheme is torch.per_channel_symmetric and reduce_range and dtype is torch.quint8:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")

    def _ends(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = x.detach().to(self.min_val.dtype).movedim(self.ch_axis, 0).flatten(1)
        low, high = rows.aminmax(dim=1)
        return low, high

    def _combined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        return torch.minimum(low, self.min_val), torch.maximum(high, self.max_val)

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            low, high = self._ends(x_orig)
            if self.min_val.numel() and self.max_val.numel():
                low, high = self._combined(low, high)
            self.min_val.resize_(low.shape).copy_(low)
            self.max_val.resize_(high.shape).copy_(high)
        return x_orig

    def reset_min_max_vals(self) -> None:
        self.min_val = torch.rand(0)
        self.max_val = torch.rand(0)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        # The number of channels is known once a tensor has passed.
        for name in ("min_val", "max_val"):
            saved = state_dict.get(prefix + name)
            if saved is not None:
                getattr(self, name).resize_(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Records moving averages of the least and the greatest element of each index of dimension `ch_axis`."""

    def __init__(
        self,
        averaging_constant: float = 0.01,
        ch_axis: int = 0,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **keywords: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError("MovingAveragePerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(
            ch_axis, dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **keywords
        )
        self.averaging_constant = averaging_constant

    def _combined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        moved = [
            own + self.averaging_constant * (new - own) for own, new in ((self.min_val, low), (self.max_val, high))
        ]
        return moved[0], moved[1]


class FixedQParamsObserver(ObserverBase):
    """Has a scale and a zero point that are given, such as those of a sigmoid's result.

    >>> torch.ao.quantization.FixedQParamsObserver(scale=1 / 256, zero_point=0).calculate_qparams()
    (tensor([0.0039]), tensor([0], dtype=torch.int32))
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        scale: float,
        zero_point: int,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        quant_min: int = 0,
        quant_max: int = 255,
        is_dynamic: bool = False,
        **keywords: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **keywords)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.register_buffer("scale", torch.tensor([scale], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.int))
        self.qscheme = qscheme

    def forward(self, X: Tensor) -> Tensor:
        return X

    def calculate_qparams(self, **keywords: Any) -> Any:
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Records nothing: it says how a tensor is to be quantised when the model runs.

    >>> torch.ao.quantization.PlaceholderObserver(dtype=torch.float16).dtype
    torch.float16
    """

    def __init__(
        self,
        dtype: Any = torch.float32,
        custom_op_name: str = "",
        compute_dtype: Any = None,
        quant_min: int | None = None,
        quant_max: int | None = None,
        qscheme: Any = None,
        eps: float | None = None,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        if compute_dtype:
            warn(
                "Please use `is_dynamic` instead of `compute_dtype`. `compute_dtype` will be deprecated in a future release of PyTorch."
            )
            is_dynamic = True
        self.qscheme = torch.per_tensor_affine if qscheme is None else qscheme
        self.custom_op, self.quant_min, self.quant_max = custom_op_name, quant_min, quant_max
        self.eps = eps
        self.is_dynamic = is_dynamic

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self, **keywords: Any) -> Any:
        raise Exception("calculate_qparams should not be called for PlaceholderObserver")

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class RecordingObserver(ObserverBase):
    """Keeps copies of all tensors.

    >>> observer = torch.ao.quantization.RecordingObserver()
    >>> _ = observer(torch.ones(1))
    >>> observer.get_tensor_value()
    [tensor([1.])]
    """

    def __init__(self, dtype: Any = torch.quint8) -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self, **keywords: Any) -> Any:
        raise Exception("calculate_qparams should not be called for RecordingObserver")

    def get_tensor_value(self) -> list[Tensor]:
        """The recorded tensors."""
        return self.tensor_val


class NoopObserver(ObserverBase):
    """Records nothing, for tensors that are not quantised.

    >>> torch.ao.quantization.NoopObserver()(torch.ones(1))
    tensor([1.])
    """

    def __init__(self, dtype: Any = torch.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.dtype = dtype
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self, **keywords: Any) -> Any:
        raise Exception("calculate_qparams should not be called for NoopObserver")


class ReuseInputObserver(ObserverBase):
    """Records nothing: the result of an operator has the scale and the zero point of its input.

    >>> torch.ao.quantization.ReuseInputObserver()(torch.ones(1))
    tensor([1.])
    """

    def __init__(self) -> None:
        super().__init__(torch.quint8, is_dynamic=False)

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self, **keywords: Any) -> Any:
        raise Exception("calculate_qparams should not be called for ReuseInputObserver")


def get_observer_state_dict(mod: nn.Module) -> dict[str, Any]:
    """The part of a model's state that belongs to observers and fake quantisation.

    >>> model = torch.nn.Sequential(torch.ao.quantization.MinMaxObserver())
    >>> list(torch.ao.quantization.get_observer_state_dict(model))
    ['0.eps', '0.min_val', '0.max_val']
    """
    from .fake_quantize import FakeQuantizeBase

    own = [name for name, module in mod.named_modules() if isinstance(module, (ObserverBase, FakeQuantizeBase))]
    prefixes = tuple(f"{name}." if name else "" for name in own)
    return {name: value for name, value in mod.state_dict().items() if name.startswith(prefixes)} if own else {}


def load_observer_state_dict(mod: nn.Module, obs_dict: dict[str, Any]) -> None:
    """Loads what `get_observer_state_dict` returned."""
    missing, unexpected = mod.load_state_dict(obs_dict, strict=False)
    wanted = [name for name in missing if name in get_observer_state_dict(mod)]
    if wanted or unexpected:
        raise Exception(f"Missing keys for observer {wanted} in state_dict")


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_channel_symmetric
)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=torch.quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=torch.quint8, qscheme=torch.per_channel_affine_float_qparams, ch_axis=0
)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=torch.quint4x2, qscheme=torch.per_channel_affine_float_qparams, ch_axis=0
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=torch.quint8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=torch.quint8, quant_min=0, quant_max=255
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver


def __dir__() -> list[str]:
    return __all__


set_public_module(globals())

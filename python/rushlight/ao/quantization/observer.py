"""Observers: modules that record the range of the tensors that pass, and choose scales and zero points for it."""

from __future__ import annotations

from functools import partial
from inspect import isclass
from typing import Any

import rushlight as torch
from rushlight import Tensor, nn
from rushlight._quantized import limits as _dtype_limits
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


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

_INFINITE = float("inf")
#: torch's sentence, with its spaces.
_NO_REDUCTION = "Cannot reduce range for symmetric" + 40 * " " + "quantization for quint8"
#: The parts of a bin that are moved to bins of another width.
_PARTS = 16
_EPS = torch.finfo(torch.float32).eps
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


class _PartialWrapper:
    """A function with some arguments given, which is shown and extended as torch's are: ``with_args``."""

    def __init__(self, function: Any) -> None:
        self.p = function
        self.callable_args: dict[str, Any] = {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        made = {name: make() for name, make in self.callable_args.items() if name not in keywords}
        return self.p(*args, **keywords, **made)

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, *args: Any, **keywords: Any) -> _PartialWrapper:
        return _with_args(self, *args, **keywords)

    def with_callable_args(self, **keywords: Any) -> _PartialWrapper:
        result = _with_args(self)
        result.callable_args = {**self.callable_args, **keywords}
        return result


def _with_args(factory: Any, *args: Any, **keywords: Any) -> _PartialWrapper:
    if isinstance(factory, _PartialWrapper):
        result = _PartialWrapper(partial(factory.p, *args, **keywords))
        result.callable_args = dict(factory.callable_args)
        return result
    return _PartialWrapper(partial(factory, *args, **keywords))


def _with_callable_args(factory: Any, **keywords: Any) -> _PartialWrapper:
    return _with_args(factory).with_callable_args(**keywords)


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
    def with_args(cls, *args: Any, **keywords: Any) -> _PartialWrapper:
        return _with_args(cls, *args, **keywords)

    @classmethod
    def with_callable_args(cls, **keywords: Any) -> _PartialWrapper:
        return _with_callable_args(cls, **keywords)


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
        eps: float = _EPS,
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
        if min_val == _INFINITE and max_val == -_INFINITE:
            warn("must run observer before calling calculate_qparams. Returning default values.")
            return False
        if min_val > max_val:
            raise AssertionError(f"min {min_val} should be less than max {max_val}")
    elif bool((min_val > max_val).any()):
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True


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
        eps: float = _EPS,
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
        self.register_buffer("min_val", torch.tensor(_INFINITE, **self._made))
        self.register_buffer("max_val", torch.tensor(-_INFINITE, **self._made))
        if qscheme is torch.per_tensor_symmetric and reduce_range and dtype is torch.quint8:
            raise NotImplementedError(_NO_REDUCTION)

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            low, high = x_orig.detach().to(self.min_val.dtype).aminmax()
            self.min_val.copy_(torch.minimum(low, self.min_val))
            self.max_val.copy_(torch.maximum(high, self.max_val))
        return x_orig

    def reset_min_max_vals(self) -> None:
        self.min_val.fill_(_INFINITE)
        self.max_val.fill_(-_INFINITE)


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
        eps: float = _EPS,
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
            if not (self.min_val == _INFINITE and self.max_val == -_INFINITE):
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
        eps: float = _EPS,
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
        eps: float = _EPS,
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


class HistogramObserver(UniformQuantizationObserverBase):
    """Records a histogram, and chooses the part of its range that is quantised with the least squared error.

    Args:
        bins: the number of bins.
        dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic: as for all observers of a
            range; see `UniformQuantizationObserverBase`.

    >>> observer = torch.ao.quantization.HistogramObserver(bins=8)
    >>> _ = observer(torch.tensor([0.0, 0.5, 1.0]))
    >>> observer.histogram
    tensor([1., 0., 0., 0., 1., 0., 0., 1.])
    """

    histogram: Tensor

    def __init__(
        self,
        bins: int = 2048,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict[str, Any] | None = None,
        eps: float = _EPS,
        is_dynamic: bool = False,
        **keywords: Any,
    ) -> None:
        if qscheme not in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            raise NotImplementedError(
                "HistogramObserver's qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine."
            )
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **keywords
        )
        self.bins = bins
        self.register_buffer("histogram", torch.zeros(bins, **self._made))
        self.register_buffer("min_val", torch.tensor(_INFINITE, **self._made))
        self.register_buffer("max_val", torch.tensor(-_INFINITE, **self._made))
        self.dst_nbins = 2 ** (8 * dtype.itemsize)

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach().to(self.min_val.dtype)
        x = x[x.isfinite()] if not bool(x.isfinite().all()) else x
        low, high = (float(end) for end in x.aminmax())
        before = float(self.min_val), float(self.max_val)
        if before == (_INFINITE, -_INFINITE):
            ends = low, high
            histogram = self._counted(x, ends)
        else:
            ends = min(low, before[0]), max(high, before[1])
            histogram = self._counted(x, ends)
            histogram += self.histogram if ends == before else self._widened(ends)
        self.histogram.resize_(histogram.shape).copy_(histogram)
        self.min_val.resize_(()).fill_(ends[0])
        self.max_val.resize_(()).fill_(ends[1])
        return x_orig

    def _counted(self, x: Tensor, ends: tuple[float, float]) -> Tensor:
        """The number of elements in each bin, which is computed in the elements' precision."""
        low, high = (torch.tensor(end, dtype=x.dtype) for end in ends)
        if low == high:
            return torch.histc(x, self.bins, min=ends[0], max=ends[1])
        places = ((x - low) * self.bins / (high - low)).long().clamp(0, self.bins - 1)
        return torch.bincount(places.reshape(-1), minlength=self.bins).to(x.dtype)

    def _widened(self, ends: tuple[float, float]) -> Tensor:
        """The histogram over a wider range: each part of a bin moves to the new bin in which its middle lies."""
        low, high = float(self.min_val), float(self.max_val)
        if low == high:
            return torch.histc(self.min_val, self.bins, min=ends[0], max=ends[1]) * self.histogram.sum()
        fine = _edges(low, high, self.bins * _PARTS)
        middles = fine[:-1] + (high - low) / self.bins / _PARTS / 2
        places = torch.bucketize(middles, _edges(*ends, self.bins), right=True) - 1
        parts = self.histogram.repeat_interleave(_PARTS) / _PARTS
        return torch.bincount(places.clamp(0, self.bins - 1), weights=parts, minlength=self.bins).to(parts.dtype)

    def calculate_qparams(self, **keywords: Any) -> Any:
        if float(self.min_val) == _INFINITE and float(self.max_val) == -_INFINITE:
            warn("must run observer before calling calculate_qparams. Returning default scale and zero point ")
            return torch.tensor([1.0]), torch.tensor([0])
        if self.bins != len(self.histogram):
            raise AssertionError("The number of bins in histogram should be equal to the number of bins supplied")
        return self._calculate_qparams(*self._best_range())

    def _best_range(self) -> tuple[Tensor, Tensor]:
        """Cuts off outer bins, in steps of a hundred-thousandth of the elements, as long as the error falls."""
        width = (self.max_val - self.min_val) / self.bins
        total = float(self.histogram.sum())
        sums = self.histogram.cumsum(0).tolist()
        step, alpha, beta = 1e-5, 0.0, 1.0
        first, last, least = 0, self.bins - 1, _INFINITE
        while alpha < beta:
            left, right = first, last
            while left < last and sums[left] < (alpha + step) * total:
                left += 1
            while right > first and sums[right] > (beta - step) * total:
                right -= 1
            # The side on which more bins fall away.
            if left - first > last - right:
                cut, alpha = (left, last), alpha + step
            else:
                cut, beta = (first, right), beta - step
            if cut == (first, last):
                continue
            error = self._error(width, *cut)
            if error > least:
                break
            least, (first, last) = error, cut
        return self.min_val + width * first, self.min_val + width * (last + 1)

    def _error(self, width: Tensor, first: int, last: int) -> float:
        """The squared error of quantising the histogram to the range of these bins, with elements spread evenly."""
        wide = width * (last - first + 1) / self.dst_nbins
        if wide == 0.0:
            return 0.0
        begin = (torch.arange(self.bins) - first) * width
        end = begin + width
        of_begin, of_end = (
            torch.clamp(torch.div(edge, wide, rounding_mode="floor"), 0, self.dst_nbins - 1) for edge in (begin, end)
        )
        density = self.histogram / width

        def squared(low: Tensor, high: Tensor) -> Tensor:
            return density * (high * high * high - low * low * low) / 3

        half = wide / 2
        halves = half * torch.ones(self.bins)
        error = squared(begin - (of_begin + 0.5) * wide, halves)
        error = error + (of_end - of_begin - 1) * squared(-half, half)
        error = error + squared(-half, end - (of_end * wide + half))
        return float(error.sum())

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self) -> None:
        self.min_val.fill_(_INFINITE)
        self.max_val.fill_(-_INFINITE)
        self.histogram.zero_()


def _edges(low: float, high: float, count: int) -> Tensor:
    """The edges of bins in float32, each rounded once, from both ends to the middle."""
    step = float((torch.tensor(high) - torch.tensor(low)) / count)
    places = torch.arange(count + 1, dtype=torch.float64)
    edges = torch.where(places < (count + 1) // 2, low + step * places, high - step * (count - places))
    return edges.float()


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


def _is_observer(module: Any) -> bool:
    return isinstance(module, ObserverBase)


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


def is_factory(thing: Callable[..., Any]) -> bool:
    """Whether a thing makes observers: a class, or one with arguments."""
    return isclass(thing) or isinstance(thing, (_PartialWrapper, partial))


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

"""The observer that records a histogram."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor
from rushlight._warnings import warn

from ._observer_base import EPS, INFINITE, UniformQuantizationObserverBase

__all__ = ["HistogramObserver"]

#: The parts of a bin that are moved to bins of another width.
_PARTS = 16


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
        eps: float = EPS,
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
        self.register_buffer("min_val", torch.tensor(INFINITE, **self._made))
        self.register_buffer("max_val", torch.tensor(-INFINITE, **self._made))
        self.dst_nbins = 2 ** (8 * dtype.itemsize)

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach().to(self.min_val.dtype)
        x = x[x.isfinite()] if not bool(x.isfinite().all()) else x
        low, high = (float(end) for end in x.aminmax())
        before = float(self.min_val), float(self.max_val)
        if before == (INFINITE, -INFINITE):
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
        if float(self.min_val) == INFINITE and float(self.max_val) == -INFINITE:
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
        first, last, least = 0, self.bins - 1, INFINITE
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
        self.min_val.fill_(INFINITE)
        self.max_val.fill_(-INFINITE)
        self.histogram.zero_()


def _edges(low: float, high: float, count: int) -> Tensor:
    """The edges of bins in float32, each rounded once, from both ends to the middle."""
    step = float((torch.tensor(high) - torch.tensor(low)) / count)
    places = torch.arange(count + 1, dtype=torch.float64)
    edges = torch.where(places < (count + 1) // 2, low + step * places, high - step * (count - places))
    return edges.float()

"""The standard's functions that reduce, sort, search and count elements."""

from __future__ import annotations

from collections import namedtuple

import rushlight as torch

from ._elementwise import meeting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "nonzero",
    "prod",
    "searchsorted",
    "sort",
    "std",
    "sum",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "var",
]

unique_all_result = namedtuple("unique_all_result", "values indices inverse_indices counts")
unique_counts_result = namedtuple("unique_counts_result", "values counts")
unique_inverse_result = namedtuple("unique_inverse_result", "values inverse_indices")


def _axes(x: torch.Tensor, axis: Any) -> tuple[int, ...]:
    """The dimensions of a reduction; all of them for None."""
    if axis is None:
        return tuple(range(x.dim()))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def sum(x: torch.Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> torch.Tensor:
    """Sums."""
    axes = _axes(x, axis)
    if axes:
        return torch.sum(x, axes, keepdims, dtype=dtype)
    return x.to(dtype or (x.dtype if x.is_floating_point() or x.is_complex() else torch.int64), copy=True)


def prod(x: torch.Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> torch.Tensor:
    """Products."""
    axes = _axes(x, axis)
    dtype = dtype or (x.dtype if x.is_floating_point() or x.is_complex() else torch.int64)
    x = x.to(dtype, copy=True)
    for one in sorted((one % x.dim() for one in axes), reverse=True):
        x = torch.prod(x, one, keepdims, dtype=dtype)
    return x


def _extreme(name: str) -> Any:
    function = getattr(torch, f"a{name}")

    def wrapped(x: torch.Tensor, /, *, axis: Any = None, keepdims: bool = False) -> torch.Tensor:
        axes = _axes(x, axis)
        return function(x, axes, keepdims) if axes else x.clone()

    wrapped.__name__ = wrapped.__qualname__ = name
    wrapped.__doc__ = f"See ``torch.a{name}``."
    return wrapped


max, min = _extreme("max"), _extreme("min")


def mean(x: torch.Tensor, /, *, axis: Any = None, keepdims: bool = False) -> torch.Tensor:
    """Means."""
    axes = _axes(x, axis)
    return torch.mean(x, axes, keepdims) if axes else x.clone()


def var(x: torch.Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> torch.Tensor:
    """Variances. The divisor is the number of elements minus ``correction``."""
    axes = _axes(x, axis)
    if not axes:
        return x - x  # NaN if the single element is not finite
    return torch.var(x, axes, correction=correction, keepdim=keepdims)


def std(x: torch.Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> torch.Tensor:
    """Standard deviations, the square roots of `var`."""
    return torch.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def all(x: torch.Tensor, /, *, axis: Any = None, keepdims: bool = False) -> torch.Tensor:
    """Whether all elements are true."""
    axes = _axes(x, axis)
    return torch.all(x, axes, keepdims).to(torch.bool) if axes else x.to(torch.bool, copy=True)


def any(x: torch.Tensor, /, *, axis: Any = None, keepdims: bool = False) -> torch.Tensor:
    """Whether any element is true."""
    axes = _axes(x, axis)
    return torch.any(x, axes, keepdims).to(torch.bool) if axes else x.to(torch.bool, copy=True)


def argmax(x: torch.Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> torch.Tensor:
    """The index of the largest element."""
    return torch.argmax(x, axis, keepdims)


def argmin(x: torch.Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> torch.Tensor:
    """The index of the smallest element."""
    return torch.argmin(x, axis, keepdims)


def argsort(x: torch.Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> torch.Tensor:
    """The indices that sort the elements."""
    return torch.sort(x, dim=axis, descending=descending, stable=stable).indices


def sort(x: torch.Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> torch.Tensor:
    """The sorted elements."""
    return torch.sort(x, dim=axis, descending=descending, stable=stable).values


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> torch.Tensor:
    """The indices at which elements would be inserted into sorted ones."""
    first, second = meeting(x1, x2)
    return torch.searchsorted(first, second, side=side, sorter=sorter)


def nonzero(x: torch.Tensor, /) -> tuple[torch.Tensor, ...]:
    """The indices of the nonzero elements, one tensor per dimension."""
    if x.dim() == 0:
        raise ValueError("nonzero needs at least one dimension")
    found: Any = torch.nonzero(x, as_tuple=True)
    return found


def count_nonzero(x: torch.Tensor, /, *, axis: Any = None, keepdims: bool = False) -> torch.Tensor:
    """The number of nonzero elements."""
    return sum(x != 0, axis=axis, keepdims=keepdims)


def _cumulative(x: torch.Tensor, axis: Any, dtype: Any, initial: bool, function: Any, neutral: int) -> torch.Tensor:
    if axis is None:
        if x.dim() != 1:
            raise ValueError("axis must be given for arrays of other than one dimension")
        axis = 0
    found = function(x, axis, dtype=dtype)
    if initial:
        shape = list(found.shape)
        shape[axis] = 1
        found = torch.cat([torch.full(shape, neutral, dtype=found.dtype, device=found.device), found], axis)
    return found


def cumulative_sum(
    x: torch.Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> torch.Tensor:
    """Cumulative sums."""
    return _cumulative(x, axis, dtype, include_initial, torch.cumsum, 0)


def cumulative_prod(
    x: torch.Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> torch.Tensor:
    """Cumulative products."""
    return _cumulative(x, axis, dtype, include_initial, torch.cumprod, 1)


def diff(
    x: torch.Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: torch.Tensor | None = None,
    append: torch.Tensor | None = None,
) -> torch.Tensor:
    """Differences of neighbouring elements."""
    return torch.diff(x, n, axis, prepend, append)


def _unique(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The distinct elements, the inverse indices and the counts.

    Complex numbers, which `torch.unique` does not support, are ordered by their parts.
    """
    if not x.is_complex():
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
        return values, inverse, counts
    flat = x.reshape(-1)
    order = torch.argsort(flat.imag, stable=True)
    order = order[torch.argsort(flat.real[order], stable=True)]
    ordered = flat[order]
    first = torch.ones(flat.shape, dtype=torch.bool, device=x.device)
    first[1:] = ordered[1:] != ordered[:-1]
    inverse = torch.empty_like(order)
    inverse[order] = torch.cumsum(first, 0) - 1
    values = ordered[first]
    return values, inverse.reshape(x.shape), torch.bincount(inverse, minlength=values.numel())


def unique_all(x: torch.Tensor, /) -> Any:
    """The distinct elements, the indices of their first occurrences, the inverse indices and the counts."""
    values, inverse, counts = _unique(x)
    # A stable sort puts the first of equal elements first.
    order = torch.argsort(inverse.reshape(-1), stable=True)
    first = order[torch.cumsum(counts, 0) - counts]
    return unique_all_result(values, first, inverse, counts)


def unique_counts(x: torch.Tensor, /) -> Any:
    """The distinct elements and their counts."""
    values, _, counts = _unique(x)
    return unique_counts_result(values, counts)


def unique_inverse(x: torch.Tensor, /) -> Any:
    """The distinct elements and the inverse indices."""
    values, inverse, _ = _unique(x)
    return unique_inverse_result(values, inverse)


def unique_values(x: torch.Tensor, /) -> torch.Tensor:
    """The distinct elements."""
    return _unique(x)[0]

"""Reductions of jagged tensors, and softmax."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor

from .elementwise import pointwise
from .nested_tensor import NestedTensor, from_padded, like, padded, values_of
from .registry import answers, dimension

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Dims = int | Sequence[int] | None


def _smallest(kind: torch.dtype) -> float:
    if kind == torch.bool:
        return False
    return torch.finfo(kind).min if kind.is_floating_point else torch.iinfo(kind).min


def _largest(kind: torch.dtype) -> float:
    if kind == torch.bool:
        return True
    return torch.finfo(kind).max if kind.is_floating_point else torch.iinfo(kind).max


#: What the places behind the samples are filled with, so that a reduction of the padded tensor does not see them.
_FILL = {
    "sum": lambda kind: 0,
    "mean": lambda kind: 0,
    "prod": lambda kind: 1,
    "any": lambda kind: 0,
    "all": lambda kind: 1,
    "amax": _smallest,
    "max": _smallest,
    "argmax": _smallest,
    "amin": _largest,
    "min": _largest,
    "argmin": _largest,
}


@answers("sum", "mean", "prod", "any", "all", "amax", "amin", "argmax", "argmin")
def _reduced(
    func: Any, input: NestedTensor, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Any:
    options: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
    name = func.__name__
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return func(values_of(input), **options)
    dims = sorted({dimension(input, one) for one in ([dim] if isinstance(dim, int) else dim)})
    return _along(func, name, input, dims, keepdim, options)


def _along(func: Any, name: str, input: NestedTensor, dims: list[int], keepdim: bool, options: dict[str, Any]) -> Any:
    """A reduction along some dimensions.

    Raises:
        RuntimeError: it reduces the batch without the jagged dimension, or the jagged dimension together with others.
    """
    ragged = input._ragged_idx
    single = name in ("prod", "argmax", "argmin", "max", "min")
    if 0 in dims and ragged not in dims:
        raise RuntimeError(
            f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for nested tensors"
        )
    if ragged in dims and input._ragged.lengths is not None:
        raise RuntimeError(
            f"{name}(): reducing across the ragged dimension is not supported for non-contiguous nested tensors with holes"
        )
    if 0 in dims:
        inner = [dim - 1 for dim in dims if dim]
        made = func(values_of(input), inner[0] if single else inner, keepdim, **options)
        return _each(made, lambda one: one.unsqueeze(0)) if keepdim else made
    if ragged in dims:
        if len(dims) > 1:
            raise RuntimeError(
                f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors"
            )
        return _across(func, name, input, keepdim, options)
    inner = [dim - 1 for dim in dims]
    made = func(values_of(input), inner[0] if single else inner, keepdim, **options)
    place = ragged if keepdim else ragged - sum(dim < ragged for dim in dims)
    return _each(made, lambda one: like(one, input, place))


def _across(func: Any, name: str, input: NestedTensor, keepdim: bool, options: dict[str, Any]) -> Any:
    """A reduction of each sample along the jagged dimension. The result is a plain tensor."""
    values, ragged = values_of(input), input._ragged_idx
    if name == "mean":
        kind = options.get("dtype") or values.dtype
        total = torch.sum(padded(input, 0), ragged, keepdim, dtype=kind)
        counts = input._ragged.lengths_tensor().to(values.device)
        return total / counts.reshape(-1, *[1] * (total.dim() - 1))
    longest = min(input._ragged.longest, values.shape[ragged - 1])
    stacked = padded(input, _FILL[name](values.dtype), max(longest, 1))
    return func(stacked, ragged, keepdim, **options)


def _each(made: Any, change: Any) -> Any:
    """The change of a result, or of each of a named tuple."""
    return change(made) if isinstance(made, Tensor) else type(made)([change(one) for one in made])


@answers("max", "min")
def _extreme(func: Any, input: NestedTensor, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
    other = kwargs.get("other", dim)
    if isinstance(other, Tensor) or not isinstance(input, NestedTensor):
        name = "maximum" if func.__name__ == "max" else "minimum"
        return pointwise(getattr(torch, name), name, (input, other), {})
    if dim is None:
        return func(values_of(input))
    return _along(func, func.__name__, input, [dimension(input, dim)], keepdim, {})


@answers("softmax", "log_softmax", "_softmax", "_log_softmax", "_safe_softmax")
def _softmax(func: Any, input: NestedTensor, dim: int, *args: Any, **kwargs: Any) -> NestedTensor:
    name = func.__name__.strip("_").removeprefix("safe_")
    place = dimension(input, dim)
    if place == 0:
        raise RuntimeError(f"{name}(): not supported when reducing across the batch dimension for NestedTensor")
    if place == input._ragged_idx:
        if name == "log_softmax":
            raise RuntimeError(f"{name}(): not supported when reducing along the ragged dimension for NestedTensor")
        if input._ragged.lengths is not None:
            raise RuntimeError(
                f"{name}(): not supported where lengths is not None if reducing across the ragged dimension for "
                "NestedTensor"
            )
        if input._ragged_idx > 1:
            raise RuntimeError(
                f"{name}(): not supported when reducing along the ragged dimension for ragged_idx > 1 for NestedTensor"
            )
        input._ragged.bounds  # noqa: B018 # known from here on, as in torch
        return from_padded(func(padded(input, -float("inf")), place, *args, **kwargs), input)
    return like(func(values_of(input), place - 1, *args, **kwargs), input)

"""Reductions and normalisations of the elements where a mask is true: the functions of `torch.masked`."""

from __future__ import annotations

from functools import wraps

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from rushlight import Tensor, dtype

    _Function = TypeVar("_Function", bound=Callable[..., Any])
    Dims = int | Sequence[int] | None

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]


def _of_masked_tensors(function: _Function) -> _Function:
    """The function, which also takes a masked tensor in place of an input and a mask."""

    @wraps(function)
    def wrapper(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        if type(input) is not torch.Tensor and torch.masked.is_masked_tensor(input):
            if kwargs.get("mask") is None:
                kwargs["mask"] = input.get_mask()
            input = input.get_data()
        return function(input, *args, **kwargs)

    return wrapper  # type: ignore[return-value] # called like the function


def _fitted(input: Tensor, mask: Tensor | None) -> Tensor:
    """The mask, broadcast to the shape of the input."""
    if mask is None:
        return torch.ones(input.shape, dtype=torch.bool, device=input.device)
    if mask.dim() > input.dim():
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    return mask.to(torch.bool).expand(input.shape)


def _extreme(name: str, kind: dtype, sign: int) -> float | int:
    """The smallest value of a dtype (``sign`` -1) or the largest."""
    if kind == torch.bool:
        raise NotImplementedError(f"identity of {name} on {kind} input")
    if kind.is_floating_point or kind.is_complex:
        return sign * float("inf")
    return torch.iinfo(kind).min if sign < 0 else torch.iinfo(kind).max


def _masked_fill(input: Tensor, mask: Tensor | None, identity: float) -> Tensor:
    if mask is None:
        return input
    number = torch.tensor(identity, dtype=input.dtype, device=input.device)
    return torch.where(_fitted(input, mask), input, number)


def _all(input: Tensor, dim: Dims) -> tuple[int, ...]:
    if dim is None or dim == ():
        return tuple(range(input.dim()))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _summed(input: Tensor, kind: dtype | None) -> dtype:
    """The dtype of a sum: int64 for integers."""
    if kind is not None:
        return kind
    return input.dtype if input.is_floating_point() or input.is_complex() else torch.int64


@_of_masked_tensors
def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The sum along ``dim``.

    >>> torch.masked.sum(torch.tensor([1, 2, 3]), mask=torch.tensor([True, False, True]))
    tensor(4)
    """
    return torch.sum(_masked_fill(input, mask, 0), _all(input, dim), bool(keepdim), dtype=_summed(input, dtype))


@_of_masked_tensors
def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The product along ``dim``.

    >>> torch.masked.prod(torch.tensor([1, 2, 3]), mask=torch.tensor([True, False, True]))
    tensor(3)
    """
    result = _masked_fill(input, mask, 1).to(_summed(input, dtype))
    for place in sorted((d % max(input.dim(), 1) for d in _all(input, dim)), reverse=True):
        result = torch.prod(result, place, bool(keepdim))
    return result


@_of_masked_tensors
def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The running sums along ``dim``.

    >>> torch.masked.cumsum(torch.tensor([1, 2, 3]), 0, mask=torch.tensor([True, False, True]))
    tensor([1, 1, 4])
    """
    return torch.cumsum(_masked_fill(input, mask, 0), dim, dtype=dtype or input.dtype)


@_of_masked_tensors
def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The running products along ``dim``.

    >>> torch.masked.cumprod(torch.tensor([1, 2, 3]), 0, mask=torch.tensor([True, False, True]))
    tensor([1, 1, 3])
    """
    return torch.cumprod(_masked_fill(input, mask, 1), dim, dtype=dtype or input.dtype)


@_of_masked_tensors
def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The largest element along ``dim``.

    >>> torch.masked.amax(torch.tensor([1, 2, 3]), mask=torch.tensor([True, True, False]))
    tensor(2)
    """
    shown = input if mask is None else _masked_fill(input, mask, _extreme("amax", input.dtype, -1))
    return torch.amax(shown, _all(input, dim), bool(keepdim)).to(dtype or input.dtype)


@_of_masked_tensors
def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The smallest element along ``dim``.

    >>> torch.masked.amin(torch.tensor([1, 2, 3]), mask=torch.tensor([False, True, True]))
    tensor(2)
    """
    shown = input if mask is None else _masked_fill(input, mask, _extreme("amin", input.dtype, 1))
    return torch.amin(shown, _all(input, dim), bool(keepdim)).to(dtype or input.dtype)


@_of_masked_tensors
def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the largest element along ``dim``, in the dtype of the input.

    >>> torch.masked.argmax(torch.tensor([1, 2, 3]), mask=torch.tensor([True, True, False]))
    tensor(1)
    """
    shown = input if mask is None else _masked_fill(input, mask, _extreme("argmax", input.dtype, -1))
    return torch.argmax(shown, dim, bool(keepdim)).to(dtype or input.dtype)


@_of_masked_tensors
def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the smallest element along ``dim``, in the dtype of the input.

    >>> torch.masked.argmin(torch.tensor([1, 2, 3]), mask=torch.tensor([False, True, True]))
    tensor(1)
    """
    shown = input if mask is None else _masked_fill(input, mask, _extreme("argmin", input.dtype, 1))
    return torch.argmin(shown, dim, bool(keepdim)).to(dtype or input.dtype)


def _count(input: Tensor, dim: Dims, keepdim: bool, mask: Tensor | None) -> Tensor:
    return sum(torch.ones(input.shape, dtype=torch.int64, device=input.device), dim, keepdim=keepdim, mask=mask)


@_of_masked_tensors
def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The mean along ``dim``. The mean of no elements is NaN.

    Raises:
        ValueError: the dtype of the input is not floating-point or complex, and ``dtype`` is not given.

    >>> torch.masked.mean(torch.tensor([1.0, 2.0, 3.0]), mask=torch.tensor([True, True, False]))
    tensor(1.5000)
    """
    kind = dtype or input.dtype
    if not (kind.is_floating_point or kind.is_complex):
        raise ValueError(
            "mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {input.dtype}"
        )
    return sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask) / _count(input, dim, keepdim, mask)


@_of_masked_tensors
def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The median along ``dim``, the lower one if there are two. The median of no elements is NaN.

    Raises:
        ValueError: all elements along ``dim`` are masked, and the dtype is an integer type, which has no NaN.

    >>> torch.masked.median(torch.tensor([1.0, 2.0, 3.0]), mask=torch.tensor([False, True, True]))
    tensor(2.)
    """
    shown = input
    if not input.is_floating_point():
        if not _fitted(input, mask).any(dim).all():
            raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
        shown = input.to(torch.float64)
    middle: Tensor = torch.nanmedian(_masked_fill(shown, mask, float("nan")), dim, bool(keepdim)).values
    return middle.to(dtype or input.dtype)


@_of_masked_tensors
def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The norm along ``dim``.

    >>> torch.masked.norm(torch.tensor([3.0, 9.0, 4.0]), mask=torch.tensor([True, False, True]))
    tensor(5.)
    """
    order = 2.0 if ord is None else ord
    shown = _masked_fill(input, mask, float("inf") if order == -float("inf") else 0)
    return torch.linalg.vector_norm(shown, order, _all(input, dim), bool(keepdim), dtype=dtype)


@_of_masked_tensors
def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance along ``dim``, where ``correction`` (1 by default) is subtracted from the count.

    >>> torch.masked.var(torch.tensor([1.0, 2.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    taken = (1 if unbiased in (None, True) else 0) if correction is None else correction
    kind = dtype or (input.dtype if input.is_floating_point() or input.is_complex() else torch.float32)
    counted = _count(input, dim, True, mask)
    centred = input - sum(input, dim, keepdim=True, dtype=kind, mask=mask) / counted
    squares = sum(centred * centred.conj(), dim, keepdim=keepdim, dtype=kind, mask=mask)
    if not keepdim:
        counted = counted.reshape(squares.shape)
    return (squares / (counted - taken).clamp(min=0)).to(kind)


@_of_masked_tensors
def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation along ``dim``, where ``correction`` (1 by default) is subtracted from the count.

    >>> torch.masked.std(torch.tensor([1.0, 9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(1.4142)
    """
    return torch.sqrt(var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask))


@_of_masked_tensors
def softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax along ``dim``. Masked elements get 0.

    >>> torch.masked.softmax(torch.zeros(3), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    shown = input if mask is None else _masked_fill(input, mask, _extreme("amax", input.dtype, -1))
    return torch.softmax(shown, dim, dtype=dtype or input.dtype)


@_of_masked_tensors
def log_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of `softmax`.

    >>> torch.masked.log_softmax(torch.zeros(3), 0, mask=torch.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    shown = input if mask is None else _masked_fill(input, mask, _extreme("amax", input.dtype, -1))
    return torch.log_softmax(shown, dim, dtype=dtype or input.dtype)


@_of_masked_tensors
def softmin(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """`softmax` of the negated input.

    >>> torch.masked.softmin(torch.zeros(3), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    shown = input if mask is None else _masked_fill(input, mask, _extreme("amin", input.dtype, 1))
    return torch.softmax(-shown, dim, dtype=dtype or input.dtype)


@_of_masked_tensors
def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Divides by the norm along ``dim`` (or by ``eps`` if it is larger). Masked elements become zero.

    >>> torch.masked.normalize(torch.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=torch.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _masked_fill(input, mask, 0) / torch.maximum(length, torch.full_like(length, eps))


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of the exponentials of two inputs, each with its own mask.

    >>> torch.masked.logaddexp(torch.zeros(2), torch.zeros(2), input_mask=torch.tensor([True, False]))
    tensor([0.6931, 0.0000])
    """
    lowest = float("-inf")
    pair = torch.logaddexp(_masked_fill(input, input_mask, lowest), _masked_fill(other, other_mask, lowest))
    return pair.to(dtype or input.dtype)


@_of_masked_tensors
def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the sum of exponentials along ``dim``.

    >>> torch.masked.logsumexp(torch.zeros(3), mask=torch.tensor([True, False, True]))
    tensor(0.6931)
    """
    shown = input if mask is None else _masked_fill(input, mask, _extreme("logsumexp", input.dtype, -1))
    return torch.logsumexp(shown, _all(input, dim), bool(keepdim)).to(dtype or input.dtype)

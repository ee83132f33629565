"""The standard's elementwise functions."""

from __future__ import annotations

import rushlight as torch

from ._dtypes import result_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_UNARY = (
    "abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log1p log2 log10 "
    "logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan tanh trunc bitwise_invert"
).split()
_BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide "
    "greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply "
    "nextafter not_equal pow remainder subtract"
).split()
_TORCHS = {"bitwise_invert": "bitwise_not", "equal": "eq"}

__all__ = ["clip", *_UNARY, *_BINARY]


def meeting(*operands: Any) -> list[torch.Tensor]:
    """Converts tensors and numbers to tensors of the result dtype of the standard."""
    dtype = result_type(*operands)
    device = next(one.device for one in operands if isinstance(one, torch.Tensor))
    return [
        one.to(dtype) if isinstance(one, torch.Tensor) else torch.tensor(one, dtype=dtype, device=device)
        for one in operands
    ]


def _unary(name: str) -> Any:
    function = getattr(torch, _TORCHS.get(name, name))

    def wrapped(x: torch.Tensor, /) -> torch.Tensor:
        return function(x)

    return _named(wrapped, name)


def _binary(name: str) -> Any:
    function = getattr(torch, _TORCHS.get(name, name))

    def wrapped(x1: Any, x2: Any, /) -> torch.Tensor:
        return function(*meeting(x1, x2))

    return _named(wrapped, name)


def _named(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"See ``torch.{_TORCHS.get(name, name)}``."
    return function


globals().update({name: _unary(name) for name in _UNARY})
globals().update({name: _binary(name) for name in _BINARY})


def sign(x: torch.Tensor, /) -> torch.Tensor:
    """-1, 0 or 1, or a complex number of magnitude one. NaN stays NaN."""
    return torch.where(torch.isnan(x), x, torch.sgn(x)) if x.is_floating_point() else torch.sgn(x)


def round(x: torch.Tensor, /) -> torch.Tensor:
    """Rounds to integers, halves to even. For complex numbers, both parts."""
    return torch.complex(torch.round(x.real), torch.round(x.imag)) if x.is_complex() else torch.round(x)


def imag(x: torch.Tensor, /) -> torch.Tensor:
    """The imaginary parts."""
    return torch.imag(x) if x.is_complex() else torch.zeros_like(x)


def floor_divide(x1: Any, x2: Any, /) -> torch.Tensor:
    """The quotient, rounded down. For infinite operands the quotient is not rounded."""
    first, second = meeting(x1, x2)
    floors = torch.floor_divide(first, second)
    if not first.is_floating_point():
        return floors
    return torch.where(torch.isinf(first) | torch.isinf(second), first / second, floors)


def remainder(x1: Any, x2: Any, /) -> torch.Tensor:
    """The remainder of `floor_divide`, with the sign of the divisor, also if it is zero."""
    first, second = meeting(x1, x2)
    rest = torch.remainder(first, second)
    return torch.where(rest == 0, torch.copysign(rest, second), rest) if first.is_floating_point() else rest


def clip(x: torch.Tensor, /, min: Any = None, max: Any = None) -> torch.Tensor:
    """Limits the elements to ``min`` and ``max``, without changing the dtype."""
    bounds = [
        bound if bound is None or isinstance(bound, torch.Tensor) else torch.tensor(bound, device=x.device)
        for bound in (min, max)
    ]
    if bounds == [None, None]:
        return x.clone()
    return torch.clamp(x, *[bound if bound is None else bound.to(x.dtype) for bound in bounds])

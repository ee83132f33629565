"""Overloads of operators for numbers, texts and lists, which torch has for TorchScript: ``torch.ops.aten.add.int(1, 2)``.

The functions of Python do the work. Functions of real or complex numbers take that of tensors, which answers outside of its
domain too.
"""

from __future__ import annotations

import cmath
import math
import operator
from typing import Any

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS"]


def _of_tensor(name: str) -> Callable[..., Any]:
    """The function of tensors, for numbers."""

    def run(*numbers: Any) -> Any:
        dtype = torch.complex128 if any(isinstance(one, complex) for one in numbers) else torch.float64
        return getattr(torch, name)(*(torch.tensor(one, dtype=dtype) for one in numbers)).item()

    return run


def _log(value: Any, base: Any = None) -> Any:
    log = _of_tensor("log")
    return log(value) if base is None else log(value) / log(base)


def _in_place(name: str) -> Callable[..., Any]:
    """A method of lists that changes its object and returns it."""

    def run(own: list[Any], *arguments: Any) -> list[Any]:
        return getattr(own, name)(*arguments)

    return run


def _sort(own: list[Any], reverse: bool = False) -> None:
    own.sort(reverse=reverse)


def _result_type(one: Any, other: Any) -> Any:
    return torch.result_type(one, other)


#: The functions, by the names of operators.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in "add sub mul eq ne lt le gt ge neg".split()},
    **{
        name: _of_tensor(name)
        for name in """acos acosh angle asin asinh atan atan2 atanh copysign cos cosh div erf erfc exp expm1 fmod lgamma log10 log1p
        pow round sin sinh sqrt tan tanh""".split()
    },
    **{name: getattr(math, name) for name in "ceil floor gcd".split()},
    **{name: getattr(cmath, name) for name in "isfinite isinf isnan".split()},
    "add_": _in_place("__iadd__"),
    "mul_": _in_place("__imul__"),
    "all": all,
    "any": any,
    "frexp": math.frexp,
    "index": lambda own, value: own.index(value),
    "ldexp": math.ldexp,
    "log": _log,
    "polar": cmath.rect,
    "remainder": operator.mod,
    "result_type": _result_type,
    "select": operator.getitem,
    "slice": lambda own, start=None, end=None, step=1: own[start:end:step],
    "sort": _sort,
    "split": lambda own, separator=None, most=-1: own.split(separator, most),
    "sum": sum,
    "values": lambda own: list(own.values()),
}

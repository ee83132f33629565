"""Functions for numbers and conditions that torch may have as symbols: `sym_*` and `cond`. Here they always have a value."""

from __future__ import annotations

import math

import rushlight as torch
from rushlight._compiled import compiled
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


def sym_float(a: Any) -> float:
    """``float(a)``. Sizes are always numbers here, never symbols.

    >>> torch.sym_float(2)
    2.0
    """
    return float(a)


def sym_int(a: Any) -> int:
    """``int(a)``, rounded towards zero.

    >>> torch.sym_int(-2.7)
    -2
    """
    return int(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger number; a float if one of them is a float.

    >>> torch.sym_max(1, 2.0)
    2.0
    """
    largest = max(a, b)
    return float(largest) if isinstance(a, float) or isinstance(b, float) else largest


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number; a float if one of them is a float.

    >>> torch.sym_min(1, 2.0)
    1.0
    """
    smallest = min(a, b)
    return float(smallest) if isinstance(a, float) or isinstance(b, float) else smallest


def sym_not(a: Any) -> bool:
    """``not a``.

    >>> torch.sym_not(True)
    False
    """
    return not a


def sym_sqrt(a: Any) -> float:
    """The square root of a number.

    >>> torch.sym_sqrt(4)
    2.0
    """
    return math.sqrt(a)


def sym_sum(*args: Any) -> Any:
    """The sum of its arguments, or of one sequence.

    >>> torch.sym_sum(1, 2, 3)
    6
    """
    return sum(args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """``t if b else f``, for values of one type.

    Raises:
        AssertionError: the condition is not a bool, or the types differ.

    >>> torch.sym_ite(True, 1, 2)
    1
    """
    if not isinstance(b, bool):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"type mismatch: {type(t)} vs {type(f)}")
    return t if b else f


@compiled("Scalar size, *, int min=None, int max=None")
def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Checks that a number is within limits.

    Raises:
        RuntimeError: it is not.

    >>> torch.sym_constrain_range(3, min=1, max=5)
    """
    low, high = (-(2**63) if min is None else min), (2**63 - 1 if max is None else max)
    if low > high:
        raise RuntimeError(f"Max must be greater than or equal to min. Got min={low} max={high}")
    if not low <= size <= high:
        raise RuntimeError(f"Invalid value range for {size} between [{low}, {high}].")


@compiled("Scalar size, *, int min=None, int max=None")
def sym_constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Checks that a size is within limits, and that the upper one is more than 2.

    Raises:
        RuntimeError: it is not.

    >>> torch.sym_constrain_range_for_size(7, min=1)
    """
    if max is not None and max <= 2:
        raise RuntimeError(f"Max value to constrain_range_for_size must be greater than 2. got: {max}")
    sym_constrain_range(size, min=0 if min is None else min, max=max)


def sym_fresh_size(expr: Any) -> int:
    """A size as a number of its own: the same number, because sizes are never symbols.

    >>> torch.sym_fresh_size(3)
    3
    """
    return int(expr)


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """Calls one of two functions. Only the one that is called may have effects.

    While work is recorded in a CUDA graph, both functions are recorded, and each run takes the one that ``pred`` then names. Their
    results must have the same shapes and dtypes, and no gradient.

    Args:
        pred: a bool, or a tensor of one element.
        true_fn, false_fn: the functions, which take ``*operands``.
        operands: a tuple or a list, by default empty.

    Raises:
        RuntimeError: ``pred`` is no number, or a tensor of several elements.

    >>> torch.cond(torch.tensor(False), torch.sin, torch.neg, (torch.ones(1),))
    tensor([-1.])
    """
    if not isinstance(pred, (bool, int, float, torch.Tensor)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, torch.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if isinstance(pred, torch.Tensor) and pred.is_cuda and torch.cuda.is_current_stream_capturing():
        from rushlight._higher_order_ops.cudagraph_conditional_nodes import if_else_node

        return if_else_node(pred, true_fn, false_fn, operands)
    return true_fn(*operands) if pred else false_fn(*operands)


set_module("rushlight", *(value for value in list(globals().values()) if getattr(value, "__module__", "") == __name__))

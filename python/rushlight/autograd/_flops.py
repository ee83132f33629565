"""Floating point operations of calls, by torch's formulas, from the sizes of their arguments and of their result."""

from __future__ import annotations

from math import prod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    _Sizes = Sequence[int]

__all__ = ["addmm", "baddbmm", "bmm", "flops_of", "mm"]


def mm(a: Any, b: Any, *_: Any, **__: Any) -> int:
    """Of the product of two matrices: a multiplication and an addition for each of its terms."""
    return 2 * a[0] * a[1] * b[1]


def addmm(_: Any, a: Any, b: Any, *rest: Any, **__: Any) -> int:
    return mm(a, b)


def bmm(a: Any, b: Any, *_: Any, **__: Any) -> int:
    """Of products of matrices, whose batches may be broadcast."""
    import rushlight

    return prod(rushlight.broadcast_shapes(tuple(a[:-2]), tuple(b[:-2]))) * mm(a[-2:], b[-2:])


def baddbmm(_: Any, a: Any, b: Any, *rest: Any, **__: Any) -> int:
    return bmm(a, b)


def _affine(_: Any, x: Any, weight: Any, *rest: Any) -> int:
    return 2 * prod(x) * weight[0]


#: By the name of the call, from the sizes of its arguments. The names with an underscore are the engine's: products of stacked
#: matrices, which torch has as `bmm`, and `linear` in one kernel, which torch has as `addmm`.
_PRODUCTS: dict[str, Callable[..., int]] = {
    "aten::mm": mm,
    "aten::addmm": addmm,
    "aten::bmm": bmm,
    "aten::baddbmm": baddbmm,
    "aten::_matmul": bmm,
    "aten::_affine": _affine,
}


def flops_of(name: str, sizes: Sequence[_Sizes], result: _Sizes) -> int:
    """The number for a call; zero for one that torch has no formula for, or that has failed.

    Sums and products of elements count the elements of the first operand.
    """
    if name in ("aten::add", "aten::mul"):
        return prod(sizes[0])
    if name == "aten::conv2d":
        batched = len(sizes[0]) == len(sizes[1]) == len(result) == 4
        return 2 * prod(result) * prod(sizes[1][1:]) if batched else 0
    formula = _PRODUCTS.get(name)
    return formula(*sizes) if formula is not None and result else 0

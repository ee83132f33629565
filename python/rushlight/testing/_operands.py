"""Descriptions of the tensors to generate for the arguments of a function, and their generation."""

from __future__ import annotations

import math
from typing import NamedTuple

import rushlight as torch

from . import _drawing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import EllipsisType
    from typing import Any

    from rushlight import Tensor, dtype

    from ._drawing import Choose, Layout

__all__ = ["Operand", "draw_operands", "operand"]


class Operand(NamedTuple):
    """A tensor to generate; see `operand`."""

    shape: tuple[int | str | EllipsisType, ...]
    dtype: dtype | None
    low: float
    high: float
    requires_grad: bool


def operand(
    *shape: Any, dtype: dtype | None = None, low: float = -3, high: float = 3, requires_grad: bool = True
) -> Operand:
    """Describes a tensor that `fuzz` generates for an argument.

    Args:
        shape: numbers for fixed sizes, names for random sizes (equal names get equal sizes), and ``...`` first for
            dimensions that broadcast with those of other operands. The default is ``...`` alone.
        dtype: the dtype; by default that of the case. Integers and booleans have no gradient.
        low, high: the bounds of the values.
        requires_grad: whether to check the derivative.

    >>> torch.testing.operand(..., "rows", 4, low=0).shape
    (Ellipsis, 'rows', 4)
    """
    sides = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape or (...,)
    if ... in sides[1:] or not all(side is ... or isinstance(side, (int, str)) for side in sides):
        raise ValueError(
            f"a shape consists of numbers, names and at most one '...' at the beginning, but got {sides!r}"
        )
    if not low < high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    exact = dtype is not None and not (dtype.is_floating_point or dtype.is_complex)
    return Operand(tuple(sides), dtype, low, high, requires_grad and not exact)


def draw_operands(
    choose: Choose, operands: Sequence[Operand], kind: dtype, max_rank: int, max_side: int, writes: int = 0
) -> tuple[list[Layout], list[Tensor], int]:
    """The layout and the memory of each operand, and the seed of the values. The first operands are writable.

    Memory has double precision, complex if the dtype is, or the operand's own exact dtype.
    """
    layouts = []
    for place, shape in enumerate(_shapes(choose, operands, max_rank, max_side)):
        kinds = [kind for kind in _drawing.LAYOUTS if place >= writes or kind != "expanded"]
        layouts.append(_drawing.layout(choose, shape, kinds=kinds))
    seed = choose(1000)
    # Drawn together, so that no two tensors have a common value: functions may have kinks where values are equal.
    places = iter(_drawing.numbers(seed, 2 * sum(math.prod(layout.base) for layout in layouts)))
    return layouts, [_filled(one, layout.base, places, kind) for one, layout in zip(operands, layouts)], seed


def _shapes(choose: Choose, operands: Sequence[Operand], max_rank: int, max_side: int) -> Iterator[tuple[int, ...]]:
    """The shape of each operand."""
    open_ones = [one for one in operands if ... in one.shape]
    rank = max(1, max_rank - max((len(one.shape) - 1 for one in open_ones), default=0))
    leading = iter(_drawing.broadcastable_shapes(choose, len(open_ones), rank, max_side) if open_ones else ())
    named: dict[str, int] = {}
    for one in operands:
        sides: list[int] = []
        for part in one.shape:
            if isinstance(part, int):
                sides.append(part)
            elif isinstance(part, str):
                if part not in named:
                    named[part] = _drawing.side(choose, max_side)
                sides.append(named[part])
            else:
                sides.extend(next(leading))
        yield tuple(sides)


def _filled(one: Operand, shape: tuple[int, ...], places: Any, case: dtype) -> Tensor:
    """A tensor of random values in double precision, or in the operand's own dtype if that is exact."""
    kind = case if one.dtype is None else one.dtype

    def value() -> float:
        return float(f"{one.low + (one.high - one.low) * next(places):.6g}")

    count = math.prod(shape)
    if kind.is_complex:
        made = torch.tensor([complex(value(), value()) for _ in range(count)], dtype=torch.complex128)
    elif kind.is_floating_point:
        made = torch.tensor([value() for _ in range(count)], dtype=torch.float64)
    else:
        made = torch.tensor([math.floor(value()) for _ in range(count)], dtype=torch.int64).to(kind)
    return made.reshape(shape).requires_grad_(one.requires_grad)

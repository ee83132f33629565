"""Arguments that may be one number or one per dimension."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _ntuple(count: int, name: str) -> Callable[[Any], tuple[Any, ...]]:
    def spread(value: Any) -> tuple[Any, ...]:
        if hasattr(value, "__iter__"):
            return tuple(value)
        return (value,) * count

    spread.__name__ = spread.__qualname__ = name
    return spread


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Each value ``count`` times, last value first: the order in which `functional.pad` names sides."""
    return tuple(value for value in reversed(values) for _ in range(count))

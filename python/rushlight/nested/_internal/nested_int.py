"""The size of a jagged dimension: a symbol such as ``j1``, because the parts have different sizes.

Two jagged dimensions have the same symbol if their offsets are the same tensor, so that only tensors whose parts have
the same sizes fit together.
"""

from __future__ import annotations

from weakref import ref

from rushlight._unsupported_classes import SymInt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor


class NestedInt(SymInt):
    """A multiple of the size of a jagged dimension.

    It equals itself alone, is at least 2, and has no other value.
    """

    __unsupported__ = False

    def __init__(self, number: int, factor: int = 1) -> None:
        self._number = number
        self._factor = factor

    def __repr__(self) -> str:
        return f"j{self._number}" if self._factor == 1 else f"{self._factor}*j{self._number}"

    def __hash__(self) -> int:
        return hash((self._number, self._factor))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NestedInt) and (self._number, self._factor) == (other._number, other._factor)

    def __ge__(self, other: Any) -> bool:
        if isinstance(other, NestedInt) and self._number == other._number:
            return self._factor >= other._factor
        if isinstance(other, int) and other <= 2:
            return True
        raise ValueError("ge: relation is indeterminate")

    def __gt__(self, other: Any) -> bool:
        return self >= (other + 1 if isinstance(other, int) else other) and self != other

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __bool__(self) -> bool:
        return True

    def __mul__(self, other: Any) -> NestedInt:
        return NestedInt(self._number, self._factor * other) if isinstance(other, int) else NotImplemented

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        raise AttributeError("'NestedIntNode' object has no attribute 'add'")

    __radd__ = __add__

    def __int__(self) -> int:
        raise AttributeError("'NestedIntNode' object has no attribute 'int_'")

    def __index__(self) -> int:
        raise RuntimeError(
            f"SymIntArrayRef expected to contain only concrete integers, but {self} is the size of a jagged dimension"
        )


#: The number of each tensor of offsets that is alive, by its identity.
_numbers: dict[int, tuple[ref[Tensor], int]] = {}
_made = 0


def size_of_parts(offsets: Tensor) -> NestedInt:
    """The symbol of a tensor of offsets: a new one for a new tensor."""
    global _made
    key = id(offsets)
    known = _numbers.get(key)
    if known is not None and known[0]() is offsets:
        return NestedInt(known[1])
    _made += 1
    number = _made
    _numbers[key] = ref(offsets, lambda gone: _forget(key, gone)), number
    return NestedInt(number)


def _forget(key: int, gone: ref[Tensor]) -> None:
    known = _numbers.get(key)
    if known is not None and known[0] is gone:
        del _numbers[key]

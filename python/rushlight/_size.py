"""`torch.Size`: a tuple with the sizes of a tensor's dimensions."""

from __future__ import annotations

import operator

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Self, SupportsIndex, overload


def _length(place: int, size: SupportsIndex) -> int:
    try:
        return int(operator.index(size))
    except TypeError:
        from rushlight._text import kind_of

        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {place} is '{kind_of(size)}')") from None


class Size(tuple[int, ...]):
    """The sizes of a tensor's dimensions.

    >>> torch.zeros(2, 3).shape
    torch.Size([2, 3])
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[SupportsIndex] = ()) -> Self:
        return tuple.__new__(cls, [_length(place, size) for place, size in enumerate(sizes)])

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def numel(self) -> int:
        """The number of elements of a tensor with these sizes."""
        count = 1
        for size in self:
            count *= size
        return count

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, index: SupportsIndex) -> int: ...
        @overload
        def __getitem__(self, index: slice) -> Size: ...

    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override] # of sizes only
        return Size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: Any) -> Size:
        return Size(tuple.__mul__(self, operator.index(count)))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[type[Size], tuple[tuple[int, ...]]]:
        return Size, (tuple(self),)


set_module("rushlight", Size)

"""Pipes with an index. Each is a method of the others: ``pipe.map(f)`` is ``Mapper(pipe, f)``."""

from __future__ import annotations

from copy import deepcopy as _copied

from .datapipe import MapDataPipe, functional_datapipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Zipper"]


class SequenceWrapper(MapDataPipe):
    """A pipe over a sequence or a dictionary. With ``deepcopy`` it has a copy, which the caller cannot change.

    >>> torch.utils.data.datapipes.map.SequenceWrapper("abc")[1]
    'b'
    """

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = _copied(sequence) if deepcopy else sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


@functional_datapipe("map")
class Mapper(MapDataPipe):
    """A function of each item.

    >>> list(torch.utils.data.datapipes.map.SequenceWrapper([1, 2]).map(lambda number: 10 * number))
    [10, 20]
    """

    def __init__(self, datapipe: Any, fn: Callable[[Any], Any]) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("batch")
class Batcher(MapDataPipe):
    """Lists of ``batch_size`` items. The last one may be shorter, and is left out with ``drop_last``.

    >>> list(torch.utils.data.datapipes.map.SequenceWrapper([1, 2, 3]).batch(2))
    [[1, 2], [3]]
    """

    def __init__(
        self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: Callable[[Any], Any] = list
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of bound.")
        first = index * self.batch_size
        last = min(first + self.batch_size, len(self.datapipe))
        return self.wrapper_class([self.datapipe[place] for place in range(first, last)])

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("concat")
class Concater(MapDataPipe):
    """The items of several pipes, one pipe after the other.

    >>> wrap = torch.utils.data.datapipes.map.SequenceWrapper
    >>> list(wrap([1, 2]).concat(wrap("a")))
    [1, 2, 'a']
    """

    def __init__(self, *datapipes: Any) -> None:
        _expect_pipes(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> Any:
        place = index
        for datapipe in self.datapipes:
            if place < len(datapipe):
                return datapipe[place]
            place -= len(datapipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(len(datapipe) for datapipe in self.datapipes)


@functional_datapipe("zip")
class Zipper(MapDataPipe):
    """Tuples with one item of each pipe, as many as the shortest pipe has.

    >>> wrap = torch.utils.data.datapipes.map.SequenceWrapper
    >>> wrap([1, 2]).zip(wrap("abc"))[1]
    (2, 'b')
    """

    def __init__(self, *datapipes: Any) -> None:
        _expect_pipes(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of range.")
        return tuple(datapipe[index] for datapipe in self.datapipes)

    def __len__(self) -> int:
        return min(len(datapipe) for datapipe in self.datapipes)


def _expect_pipes(datapipes: tuple[Any, ...]) -> None:
    if not datapipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(datapipe, MapDataPipe) for datapipe in datapipes):
        raise TypeError("Expected all inputs to be `MapDataPipe`")


def __dir__() -> list[str]:
    return __all__

"""Pipes that are streams. Each is a method of the others: ``pipe.map(f)`` is ``Mapper(pipe, f)``."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sized
from copy import deepcopy as _copied
from typing import Any

import rushlight as torch

from .._utils.collate import default_collate
from .datapipe import IterDataPipe, functional_datapipe

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Filter",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "ShardingFilter",
    "Shuffler",
    "UnBatcher",
    "Zipper",
]


class IterableWrapper(IterDataPipe):
    """A pipe over an iterable. With ``deepcopy``, each pass goes over a copy, which the caller cannot change.

    >>> list(torch.utils.data.datapipes.iter.IterableWrapper([1, 2]))
    [1, 2]
    """

    def __init__(self, iterable: Any, deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = _copied(source)
            except TypeError:
                pass  # a generator, for example
        yield from source

    def __len__(self) -> int:
        return len(self.iterable)


@functional_datapipe("map")
class Mapper(IterDataPipe):
    """A function of each item, or of some of its columns.

    Args:
        datapipe: the source.
        fn: the function.
        input_col: the index of the column that the function gets, or a list of indices.
        output_col: the column for the result: by default the first one of the input, and -1 for another one.

    Raises:
        ValueError: a column for the result is given without one for the input.

    >>> list(torch.utils.data.datapipes.iter.IterableWrapper([(1, 2), (3, 4)]).map(lambda x: 10 * x, input_col=0))
    [(10, 2), (30, 4)]
    """

    def __init__(self, datapipe: Any, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None) -> None:
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def __iter__(self) -> Iterator[Any]:
        for item in self.datapipe:
            yield self._changed(item)

    def _changed(self, item: Any) -> Any:
        chosen = self.input_col
        if chosen is None:
            return self.fn(item)
        several = isinstance(chosen, (list, tuple))
        result = self.fn(*(item[column] for column in chosen)) if several else self.fn(item[chosen])
        columns = list(item) if isinstance(item, tuple) else item
        if self.output_col == -1:
            columns.append(result)
        elif self.output_col is not None:
            columns[self.output_col] = result
        elif several:
            columns[chosen[0]] = result
            for column in sorted(chosen[1:], reverse=True):
                del columns[column]
        else:
            columns[chosen] = result
        return tuple(columns) if isinstance(item, tuple) else columns

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """The items for which a function returns True.

    Raises:
        ValueError: the function returns something else than a bool.

    >>> list(torch.utils.data.datapipes.iter.IterableWrapper(range(5)).filter(lambda number: number % 2 == 0))
    [0, 2, 4]
    """

    def __init__(self, datapipe: Any, filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        for item in self.datapipe:
            chosen = self.input_col
            if chosen is None:
                kept = self.filter_fn(item)
            elif isinstance(chosen, (list, tuple)):
                kept = self.filter_fn(*(item[column] for column in chosen))
            else:
                kept = self.filter_fn(item[chosen])
            if not isinstance(kept, bool):
                raise ValueError(f"Boolean output is required for `filter_fn` of FilterIterDataPipe, got {type(kept)}")
            if kept:
                yield item


@functional_datapipe("batch")
class Batcher(IterDataPipe):
    """Lists of ``batch_size`` items. The last one may be shorter, and is left out with ``drop_last``.

    >>> list(torch.utils.data.datapipes.iter.IterableWrapper(range(3)).batch(2))
    [[0, 1], [2]]
    """

    def __init__(
        self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: Callable[[Any], Any] = list
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcher(IterDataPipe):
    """The items of lists, down to a level; -1 is for all levels.

    >>> list(torch.utils.data.datapipes.iter.IterableWrapper([[1, [2]], [3]]).unbatch())
    [1, [2], 3]
    """

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        if unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        for item in self.datapipe:
            yield from self._items(item, self.unbatch_level)

    def _items(self, item: Any, level: int) -> Iterator[Any]:
        if level == 0 or (level == -1 and not isinstance(item, list)):
            yield item
        elif isinstance(item, list):
            for part in item:
                yield from self._items(part, level if level == -1 else level - 1)
        else:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")


@functional_datapipe("concat")
class Concater(IterDataPipe):
    """The items of several pipes, one pipe after the other.

    >>> wrap = torch.utils.data.datapipes.iter.IterableWrapper
    >>> list(wrap([1, 2]).concat(wrap("a")))
    [1, 2, 'a']
    """

    def __init__(self, *datapipes: Any) -> None:
        _expect_pipes(datapipes, "Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for datapipe in self.datapipes:
            yield from datapipe

    def __len__(self) -> int:
        return sum(len(datapipe) for datapipe in self.datapipes)


@functional_datapipe("zip")
class Zipper(IterDataPipe):
    """Tuples with one item of each pipe, as many as the shortest pipe has.

    >>> wrap = torch.utils.data.datapipes.iter.IterableWrapper
    >>> list(wrap([1, 2]).zip(wrap("abc")))
    [(1, 'a'), (2, 'b')]
    """

    def __init__(self, *datapipes: Any) -> None:
        _expect_pipes(datapipes, "Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.datapipes)

    def __len__(self) -> int:
        return min(len(datapipe) for datapipe in self.datapipes)


@functional_datapipe("mux")
class Multiplexer(IterDataPipe):
    """One item of each pipe in turn, until the shortest pipe ends.

    >>> wrap = torch.utils.data.datapipes.iter.IterableWrapper
    >>> list(wrap([1, 2]).mux(wrap("abc")))
    [1, 'a', 2, 'b']
    """

    def __init__(self, *datapipes: Any) -> None:
        _expect_pipes(datapipes, "Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for items in zip(*self.datapipes):
            yield from items

    def __len__(self) -> int:
        return min(len(datapipe) for datapipe in self.datapipes) * len(self.datapipes)


def _expect_pipes(datapipes: tuple[Any, ...], nothing: str) -> None:
    if not datapipes:
        raise ValueError(nothing)
    if not all(isinstance(datapipe, IterDataPipe) for datapipe in datapipes):
        raise TypeError("Expected all inputs to be `IterDataPipe`")


@functional_datapipe("collate")
class Collator(Mapper):
    """Each item as a tensor, or what a function makes of it.

    >>> list(torch.utils.data.datapipes.iter.IterableWrapper([[1, 2], [3, 4]]).collate())
    [tensor([1, 2]), tensor([3, 4])]
    """

    def __init__(self, datapipe: Any, collate_fn: Callable[..., Any] = default_collate) -> None:
        super().__init__(datapipe, fn=collate_fn)


@functional_datapipe("shuffle")
class Shuffler(IterDataPipe):
    """The items in random order: each is drawn from a buffer of the next ones.

    Args:
        datapipe: the source.
        buffer_size: the size of the buffer. Only a buffer for all items gives each order the same chance.
        unbatch_level: the level of lists whose items are shuffled.

    >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(10)).shuffle(buffer_size=4)
    >>> list(pipe.set_seed(3))
    [1, 4, 2, 3, 0, 8, 7, 5, 9, 6]
    """

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise ValueError("buffer_size should be larger than 0")
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size = buffer_size
        self._enabled = True
        self._seed: int | None = None
        self._random = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> Shuffler:
        """Sets whether the items are shuffled."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Shuffler:
        """Sets the seed of the next pass. Without one, it is drawn from torch's default generator."""
        self._seed = seed
        return self

    def reset(self) -> None:
        if self._enabled:
            drawn = int(torch.empty((), dtype=torch.int64).random_()) if self._seed is None else self._seed
            self._random.seed(drawn)
            self._seed = None

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer: list[Any] = []
        for item in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(item)
            else:
                place = self._random.randint(0, len(buffer) - 1)
                drawn, buffer[place] = buffer[place], item
                yield drawn
        while buffer:
            yield buffer.pop(self._random.randint(0, len(buffer) - 1))

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("sharding_filter")
class ShardingFilter(IterDataPipe):
    """Every n-th item, for processes that share the work.

    >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(5)).sharding_filter()
    >>> pipe.apply_sharding(2, 1)
    >>> list(pipe)
    [1, 3]
    """

    def __init__(self, source_datapipe: Any, sharding_group_filter: Any = None) -> None:
        self.source_datapipe = source_datapipe
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> None:
        """Sets the number of processes, and which of them this one is."""
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        self.num_of_instances, self.instance_id = num_of_instances, instance_id

    def __iter__(self) -> Iterator[Any]:
        for number, item in enumerate(self.source_datapipe):
            if number % self.num_of_instances == self.instance_id:
                yield item

    def __len__(self) -> int:
        if not isinstance(self.source_datapipe, Sized):
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        count = len(self.source_datapipe)
        return count // self.num_of_instances + (self.instance_id < count % self.num_of_instances)


def __dir__() -> list[str]:
    return __all__

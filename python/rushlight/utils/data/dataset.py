"""Datasets: collections of samples with an index (`Dataset`) or as a stream (`IterableDataset`)."""

from __future__ import annotations

import bisect
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import rushlight as torch
from rushlight._text import with_shapes
from rushlight._warnings import warn

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """A mapping from index to sample. Subclasses define `__getitem__`, and `__len__` if the length is known.

    A subclass may also define ``__getitems__(indices)``, which gets all indices of a batch. ``+`` concatenates two
    datasets.

    >>> class Squares(torch.utils.data.Dataset):
    ...     def __getitem__(self, index):
    ...         return index * index
    ...     def __len__(self):
    ...         return 4
    >>> list(torch.utils.data.DataLoader(Squares(), batch_size=4))
    [tensor([0, 1, 4, 9])]
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[_T_co]) -> ConcatDataset[_T_co]:
        return ConcatDataset([self, other])

    # No `__len__` here: `len()` of a dataset without one must be a TypeError.


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """A stream of samples. Subclasses define `__iter__`.

    Every worker process of a `DataLoader` iterates over its own copy: split the work with
    `get_worker_info()`, or let ``DataLoader(..., shard="auto")`` do it.

    >>> class Count(torch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(5))
    >>> list(torch.utils.data.DataLoader(Count(), batch_size=3))
    [tensor([0, 1, 2]), tensor([3, 4])]
    """

    @abstractmethod
    def __iter__(self) -> Iterator[_T_co]: ...

    def __add__(self, other: Dataset[_T_co]) -> ChainDataset:  # type: ignore[override] # streams follow one another
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple]):
    """A dataset whose sample ``i`` is the tuple of the ``i``-th rows of the tensors.

    Raises:
        AssertionError: the tensors differ in their first dimension.
        IndexError: the index of a sample is out of range.

    >>> data = torch.utils.data.TensorDataset(torch.tensor([1.0, 2.0]), torch.tensor([0, 1]))
    >>> data[1], len(data)
    ((tensor(2.), tensor(1)), 2)
    """

    def __init__(self, *tensors: torch.Tensor) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            shapes = [tensor.shape for tensor in tensors]
            raise AssertionError(with_shapes("Size mismatch between tensors", "TensorDataset", *shapes))
        self.tensors = tensors

    def __getitem__(self, index: Any) -> Any:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Combines several datasets: sample ``i`` is the tuple of their ``i``-th samples, or a dict if they are given by
    name.

    Raises:
        ValueError: there are no datasets, their lengths differ, or only some are given by name.

    >>> torch.utils.data.StackDataset(image=["a", "b"], label=[0, 1])[1]
    {'image': 'b', 'label': 1}
    """

    def __init__(self, *args: Dataset, **kwargs: Dataset) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or"
                "``dict``- (via ``kwargs``) like input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        self._length = len(self._members()[0])
        if any(len(dataset) != self._length for dataset in self._members()):
            raise ValueError("Size mismatch between datasets")

    def _members(self) -> Sequence[Any]:
        return list(self.datasets.values()) if isinstance(self.datasets, dict) else self.datasets

    def _join(self, parts: Any) -> Any:
        """Combines the parts of one sample."""
        return dict(zip(self.datasets, parts)) if isinstance(self.datasets, dict) else tuple(parts)

    def __getitem__(self, index: Any) -> Any:
        return self._join([dataset[index] for dataset in self._members()])

    def __getitems__(self, indices: list) -> list:
        columns = []
        for dataset in self._members():
            if callable(getattr(dataset, "__getitems__", None)):
                column = dataset.__getitems__(indices)
                if len(column) != len(indices):
                    raise ValueError(
                        f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}"
                    )
            else:
                column = [dataset[index] for index in indices]
            columns.append(column)
        return [self._join(parts) for parts in zip(*columns)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Concatenates datasets. Negative indices count from the end.

    Raises:
        AssertionError: there are no datasets, or one is an `IterableDataset` (see `ChainDataset`).
        ValueError: the index of a sample is below the range.

    >>> data = torch.utils.data.ConcatDataset(["ab", "cde"])
    >>> data[2], data[-1], len(data)
    ('c', 'e', 5)
    """

    @staticmethod
    def cumsum(sequence: Any) -> list:
        """The cumulative sums of the lengths."""
        return list(accumulate(len(part) for part in sequence))

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: Any) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        start = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - start]

    @property
    def cummulative_sizes(self) -> list:
        """The misspelt old name of ``cumulative_sizes``. Gives a warning."""
        warn("`cummulative_sizes` attribute is renamed to `cumulative_sizes`", FutureWarning)
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Concatenates streams. Each is opened when the one before has ended. ``+`` of two streams creates one.

    Raises:
        AssertionError: while iterating, a dataset is not an `IterableDataset`.

    >>> class Count(torch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(2))
    >>> list(torch.utils.data.ChainDataset([Count(), Count()]))
    [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        super().__init__()
        self.datasets = datasets

    def _members(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._members():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._members())


class Subset(Dataset[_T_co]):
    """The samples of a dataset at the given indices, in their order.

    >>> data = torch.utils.data.Subset("abcd", [3, 0])
    >>> data[0], len(data)
    ('d', 2)
    """

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list) -> list:
        chosen = [self.indices[index] for index in indices]
        several = getattr(self.dataset, "__getitems__", None)
        if callable(several):
            return several(chosen)
        return [self.dataset[index] for index in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[_T], lengths: Sequence[float], generator: torch.Generator | None = None
) -> list[Subset[_T]]:
    """Splits a dataset at random into parts of the given lengths, or of the given fractions.

    Args:
        dataset: a dataset with a length.
        lengths: numbers of samples that sum to the length, or fractions that sum to 1. These are rounded down, and the
            remaining samples are added one by one to the first parts.
        generator: the random generator; by default the default generator.

    Raises:
        ValueError: the sum of the lengths is wrong, or a fraction is not between 0 and 1.

    >>> train, test = torch.utils.data.random_split(range(10), [0.8, 0.2])
    >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
    (8, 2, True)
    """
    total = len(dataset)  # type: ignore[arg-type] # a TypeError without a length
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(total, lengths)
    if sum(lengths) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = torch.randperm(total, generator=torch.default_generator if generator is None else generator).tolist()
    return [Subset(dataset, order[end - length : end]) for end, length in zip(accumulate(lengths), lengths)]


def _lengths_of_fractions(total: int, fractions: Sequence) -> list:
    """Rounds down and adds the remaining samples one by one to the first parts."""
    for index, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {index} is not between 0 and 1")
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for index in range(total - sum(lengths)):
        lengths[index % len(lengths)] += 1
    for index, length in enumerate(lengths):
        if length == 0:
            warn(f"Length of split at index {index} is 0. This might result in an empty dataset.")
    return lengths


class _DatasetKind:
    """The kind of a loader's dataset: by index, or a stream."""

    Map = 0
    Iterable = 1

"""Samplers: the order of the samples of a dataset.

Random samplers draw from torch's random streams in torch's order, so that the order for a seed is torch's.
"""

from __future__ import annotations

import itertools
from typing import Generic, TypeVar

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence, Sized

_T_co = TypeVar("_T_co", covariant=True)


def draw_seed(generator: torch.Generator | None = None) -> int:
    """A 63-bit random number from the generator (by default the default generator)."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def _check_positive(name: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


class Sampler(Generic[_T_co]):
    """An iterable of indices (or of lists of indices). Subclasses define `__iter__`, and `__len__` if it is known.

    >>> class Backwards(torch.utils.data.Sampler):
    ...     def __init__(self, size):
    ...         self.size = size
    ...     def __iter__(self):
    ...         return reversed(range(self.size))
    >>> list(torch.utils.data.DataLoader(range(3), sampler=Backwards(3), batch_size=None))
    [2, 1, 0]
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError

    # No `__len__` here: `len()` of a sampler without one must be a TypeError.


class SequentialSampler(Sampler[int]):
    """0, 1, 2 and so on, up to the length of ``data_source``.

    >>> list(torch.utils.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A new permutation for each pass, or independent indices with ``replacement``.

    Args:
        data_source: an object with a length.
        replacement: whether an index may occur more than once.
        num_samples: the number of indices per pass; by default the number of samples. A larger number takes several
            permutations.
        generator: the random generator; by default each pass draws a seed from the default generator.

    Raises:
        TypeError: ``replacement`` is not a bool.
        ValueError: ``num_samples`` is not a positive integer (also for an empty ``data_source``).

    >>> sampler = torch.utils.data.RandomSampler(range(4), generator=torch.Generator().manual_seed(0))
    >>> list(sampler), sorted(sampler)
    ([0, 1, 3, 2], [0, 1, 2, 3])
    """

    # Indices with replacement are drawn in blocks of this size, which is part of the random stream.
    _BLOCK = 32

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        #: The seed of the current pass, if no generator was given.
        self.seed_of_pass: int | None = None
        self._resumed_seed: int | None = None
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        _check_positive("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        # Read again each time, because the dataset may grow between two passes.
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        generator = self.generator
        if generator is None:
            self.seed_of_pass = draw_seed() if self._resumed_seed is None else self._resumed_seed
            self._resumed_seed = None
            generator = torch.Generator()
            generator.manual_seed(self.seed_of_pass)
        if self.replacement:
            for _ in range(self.num_samples // self._BLOCK):
                yield from self._draw(size, self._BLOCK, generator)
            yield from self._draw(size, self.num_samples % self._BLOCK, generator)
        else:
            for _ in range(self.num_samples // size):
                yield from torch.randperm(size, generator=generator).tolist()
            yield from torch.randperm(size, generator=generator).tolist()[: self.num_samples % size]

    def resume(self, seed: int | None) -> None:
        """Makes the next pass use the order of `seed`; None for a new order."""
        self._resumed_seed = seed
        self.seed_of_pass = None  # set when it begins

    def known_seed(self) -> int:
        """The seed of the current pass. If it has not begun, the seed that it will use."""
        if self.seed_of_pass is not None:
            return self.seed_of_pass
        if self._resumed_seed is None:
            self._resumed_seed = draw_seed()
        return self._resumed_seed

    @staticmethod
    def _draw(high: int, count: int, generator: torch.Generator) -> list:
        return torch.randint(high=high, size=(count,), dtype=torch.int64, generator=generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order, a new one for each pass.

    >>> sampler = torch.utils.data.SubsetRandomSampler([3, 5, 8])
    >>> sorted(sampler), len(sampler)
    ([3, 5, 8], 3)
    """

    def __init__(self, indices: Sequence, generator: torch.Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for place in torch.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Random indices with the given weights, which need not sum to one (`torch.multinomial`).

    Args:
        weights: a non-negative weight for each index.
        num_samples: the number of indices per pass.
        replacement: whether an index may occur more than once.
        generator: the random generator; by default the default generator.

    Raises:
        ValueError: ``num_samples`` is not positive, ``replacement`` is not a bool, or the weights are not a vector.
        RuntimeError: while iterating, a weight is negative, or there are too few positive weights without
            ``replacement``.

    >>> list(torch.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0], 3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float] | torch.Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        _check_positive("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = torch.as_tensor(weights, dtype=torch.double)
        if self.weights.dim() != 1:
            shape = tuple(self.weights.shape)
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {shape}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = torch.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list]):
    """Lists of ``batch_size`` indices of another sampler.

    Args:
        sampler: any iterable of indices.
        batch_size: the number of indices per list.
        drop_last: whether to omit a shorter last list.

    Raises:
        ValueError: ``batch_size`` is not a positive integer, or ``drop_last`` is not a bool.

    >>> list(torch.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable, batch_size: int, drop_last: bool) -> None:
        _check_positive("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type] # a TypeError without a length
        return full if self.drop_last or not rest else full + 1

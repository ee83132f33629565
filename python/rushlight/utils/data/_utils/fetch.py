"""Fetchers: from one task to one batch. They run in the parent or in a worker alike.

`progress.note(n)` is called before the n-th sample of a task, so that a crash can be traced to it; `randomness` gives each
sample its own state (see `randomness.py`). Either may be None.
"""

import itertools
from typing import Any, NamedTuple


class Task(NamedTuple):
    number: int
    indices: Any
    # How many samples of the pass come before these.
    place: int

    @property
    def size(self) -> int:
        return len(self.indices) if isinstance(self.indices, list) else 1

    def at(self, position: int) -> str:
        """In words: the sample at a position of the task."""
        if self.indices is None or (isinstance(self.indices, list) and None in self.indices[:1]):
            return f"while it loaded batch {self.number}, sample {position} of the batch"
        index = self.indices
        if isinstance(index, list):
            index = index[position] if position < len(index) else None
        return f"while it loaded batch {self.number}, last index {index!r}"


class MapDatasetFetcher:
    def __init__(self, setup, progress=None, randomness=None) -> None:
        self.dataset = setup.dataset
        self.auto_collation = setup.auto_collation
        self.collate_fn = setup.collate_fn
        self.progress = progress
        self.randomness = randomness

    def fetch(self, task: Task):
        if self.progress is not None:
            self.progress.note(0)
        if not self.auto_collation:
            if self.randomness is not None:
                self.randomness.sample(task.place)
            return self.collate_fn(self.dataset[task.indices])
        if getattr(self.dataset, "__getitems__", None):
            if self.randomness is not None:
                self.randomness.batch(task.place)
            return self.collate_fn(self.dataset.__getitems__(task.indices))
        if self.progress is None and self.randomness is None:
            return self.collate_fn([self.dataset[index] for index in task.indices])
        samples = []
        for position, index in enumerate(task.indices):
            if self.progress is not None:
                self.progress.note(position)
            if self.randomness is not None:
                self.randomness.sample(task.place + position)
            samples.append(self.dataset[index])
        if self.randomness is not None:
            self.randomness.batch(task.place)
        return self.collate_fn(samples)


class IterableDatasetFetcher:
    """Reads a stream; what lies before a task's place belongs to others, or was loaded before, and is skipped."""

    def __init__(self, setup, progress=None, randomness=None) -> None:
        if randomness is not None:
            randomness.stream()
        self.iterator = iter(setup.dataset)
        self.auto_collation = setup.auto_collation
        self.collate_fn = setup.collate_fn
        self.drop_last = setup.drop_last
        self.progress = progress
        self.randomness = randomness
        self.read = 0
        self.ended = False

    def fetch(self, task: Task):
        """Raises StopIteration when nothing is left."""
        if self.progress is not None:
            self.progress.note(0)
        if self.ended:
            raise StopIteration
        self._skip(task.place - self.read)
        if not self.auto_collation:
            return self.collate_fn(self._next())
        samples = []
        for position in range(len(task.indices)):
            if self.progress is not None:
                self.progress.note(position)
            try:
                samples.append(self._next())
            except StopIteration:
                self.ended = True
                if not samples or self.drop_last:
                    raise
                break
        if self.randomness is not None:
            self.randomness.batch(task.place)
        return self.collate_fn(samples)

    def _next(self):
        if self.randomness is not None:
            self.randomness.sample(self.read)
        self.read += 1
        return next(self.iterator)

    def _skip(self, count: int) -> None:
        if self.randomness is None and count > 0:
            self.read += count
            next(itertools.islice(self.iterator, count, count), None)
            return
        for _ in range(count):
            self._next()

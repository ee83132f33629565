"""Fetchers: create one batch from one task, in the parent or in a worker.

`progress.note(n)` is called before the n-th sample of a task, so that a crash can be located. `randomness` gives each
sample its own state (see `randomness.py`). Either may be None.
"""

import itertools
from typing import Any, NamedTuple


class Task(NamedTuple):
    number: int
    indices: Any
    # The number of samples before these, in the pass or in the worker's own stream.
    place: int
    # The number of these samples.
    size: int

    def at(self, position: int) -> str:
        """Describes the sample at a position of the task."""
        index = self.indices
        if isinstance(index, list):
            index = index[position] if position < len(index) else None
        if index is None:
            return f"while loading batch {self.number}, sample {position} of the batch"
        return f"while loading batch {self.number}, last index {index!r}"


def _no_end(culprit: str, when: str) -> RuntimeError:
    """The error that replaces a StopIteration from user code, which would silently end the pass."""
    return RuntimeError(
        f"{culprit} raised StopIteration {when}\n"
        "  Only a sampler or a stream may end a pass. The exception may come from next() of an exhausted iterator."
    )


class _Fetcher:
    """The base of both fetchers: handles the loaded samples."""

    def __init__(self, setup, progress=None, randomness=None) -> None:
        self.dataset = setup.dataset
        self.auto_collation = setup.auto_collation
        self.collate_fn = setup.collate_fn
        self.progress = progress
        self.randomness = randomness

    def joined(self, samples, task: Task):
        try:
            return self.collate_fn(samples)
        except StopIteration as error:
            raise _no_end("collate_fn", f"of batch {task.number}") from error


class MapDatasetFetcher(_Fetcher):
    def fetch(self, task: Task):
        samples: list = []
        try:
            loaded = self._load(task, samples)
        except StopIteration as error:
            raise _no_end("The dataset", task.at(len(samples))) from error
        return self.joined(loaded, task)

    def _load(self, task: Task, samples: list):
        """Loads the samples to join. Single samples are appended to the list, which shows how far it came."""
        progress, randomness, dataset = self.progress, self.randomness, self.dataset
        if progress is not None:
            progress.note(0)
        if not self.auto_collation:
            if randomness is not None:
                randomness.sample(task.place)
            return dataset[task.indices]
        if getattr(dataset, "__getitems__", None):
            if randomness is not None:
                randomness.batch(task.place)
            return dataset.__getitems__(task.indices)
        if progress is None and randomness is None:
            # Not a comprehension, because the list must show how far it came.
            for index in task.indices:
                samples.append(dataset[index])
            return samples
        for position, index in enumerate(task.indices):
            if progress is not None:
                progress.note(position)
            if randomness is not None:
                randomness.sample(task.place + position)
            samples.append(dataset[index])
        if randomness is not None:
            randomness.batch(task.place)
        return samples


class IterableDatasetFetcher(_Fetcher):
    """Reads a stream. Samples before the position of a task belong to others, or were loaded before, and are skipped."""

    def __init__(self, setup, progress=None, randomness=None) -> None:
        super().__init__(setup, progress, randomness)
        if randomness is not None:
            randomness.dataset()
        try:
            self.iterator = iter(setup.dataset)
        except StopIteration as error:
            raise _no_end("The dataset's __iter__", "before its stream began") from error
        self.drop_last = setup.drop_last
        self.read = 0
        self.ended = False

    def fetch(self, task: Task):
        """Raises StopIteration at the end of the stream."""
        if self.progress is not None:
            self.progress.note(0)
        if self.ended:
            raise StopIteration
        self._skip(task.place - self.read)
        if not self.auto_collation:
            return self.joined(self._next(), task)
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
        return self.joined(samples, task)

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

"""Fetchers: from one task to one batch. They run in the parent or in a worker alike.

`progress.note(n)` is called before the n-th sample of a task, so that a crash can be traced to it; `randomness` gives each
sample its own state (see `randomness.py`). Either may be None.
"""

import itertools
from typing import Any, NamedTuple


class Task(NamedTuple):
    number: int
    indices: Any
    # How many samples of the pass come before these, or of the worker's own dataset where each worker reads one.
    place: int
    # How many these are.
    size: int

    def at(self, position: int) -> str:
        """In words: the sample at a position of the task."""
        index = self.indices
        if isinstance(index, list):
            index = index[position] if position < len(index) else None
        if index is None:
            return f"while it loaded batch {self.number}, sample {position} of the batch"
        return f"while it loaded batch {self.number}, last index {index!r}"


def _no_end(culprit: str, when: str) -> RuntimeError:
    """The error in the place of a StopIteration that a program's own code let out: it would end the pass unseen."""
    return RuntimeError(
        f"{culprit} raised StopIteration {when}\n"
        "  A pass ends where its sampler or its stream does. Was it meant for another iterator, whose next() found nothing?"
    )


class _Fetcher:
    """What both kinds do with the samples that they have loaded."""

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
        """What is to be joined; samples that come one by one are put into the list, which tells how far they came."""
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
            # Not a comprehension: the list must tell how far it came.
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
    """Reads a stream; what lies before a task's place belongs to others, or was loaded before, and is skipped."""

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
        """Raises StopIteration when nothing is left."""
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

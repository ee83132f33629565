"""Steps of a checkpoint that all ranks take together. An error on one rank is an error on all of them."""

import traceback

from rushlight.distributed import _groups, _objects

from .api import CheckpointException


class Steps:
    """The ranks that take part.

    Args:
        group: by default the default group, or this process alone if there is none.
        alone: this process alone.
    """

    def __init__(self, group=None, alone=False):
        alone = alone or not _groups.is_initialized()
        self.group = None if alone else _groups.resolve(group)
        self.rank, self.size = (0, 1) if alone else (self.group.rank(), self.group.size())
        self.is_first = self.rank == 0

    def every(self, name, work):
        """Does something on all ranks. Returns the results of all."""
        try:
            own = (work(), None)
        except Exception as error:
            own = (None, (error, traceback.extract_tb(error.__traceback__)))
        answers = [own]
        if self.group is not None:
            answers = [None] * self.size
            _objects.all_gather_object(answers, _sendable(own), self.group)
        failures = {rank: failure for rank, (_, failure) in enumerate(answers) if failure is not None}
        if failures:
            raise CheckpointException(name, failures)
        return [result for result, _ in answers]

    def first(self, name, work):
        """Does something on the first rank. Returns the result on all."""
        return self.every(name, lambda: work() if self.is_first else None)[0]


def _sendable(answer):
    """An answer whose error can be pickled."""
    import pickle

    result, failure = answer
    if failure is not None:
        try:
            pickle.loads(pickle.dumps(failure[0]))
        except Exception:
            failure = (RuntimeError(f"{type(failure[0]).__name__}: {failure[0]}"), failure[1])
    return result, failure

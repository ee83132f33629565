"""Fetchers: from the indices of one task to one batch. They run in the parent or in a worker alike.

`progress.note(n)` is called before the n-th sample of a task, so that a crash can be traced to it.
"""


class NoProgress:
    """For loading in the parent, where a crash needs no tracing."""

    def note(self, position: int) -> None:
        pass


class MapDatasetFetcher:
    def __init__(self, dataset, auto_collation, collate_fn, drop_last, progress) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.progress = progress

    def fetch(self, indices):
        self.progress.note(0)
        if not self.auto_collation:
            return self.collate_fn(self.dataset[indices])
        if getattr(self.dataset, "__getitems__", None):
            return self.collate_fn(self.dataset.__getitems__(indices))
        samples = []
        for position, index in enumerate(indices):
            self.progress.note(position)
            samples.append(self.dataset[index])
        return self.collate_fn(samples)


class IterableDatasetFetcher:
    def __init__(self, dataset, auto_collation, collate_fn, drop_last, progress) -> None:
        self.iterator = iter(dataset)
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.progress = progress
        self.ended = False

    def fetch(self, indices):
        """Raises StopIteration when nothing is left."""
        self.progress.note(0)
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.iterator))
        samples = []
        for position in range(len(indices)):
            self.progress.note(position)
            try:
                samples.append(next(self.iterator))
            except StopIteration:
                self.ended = True
                if not samples or self.drop_last:
                    raise
                break
        return self.collate_fn(samples)

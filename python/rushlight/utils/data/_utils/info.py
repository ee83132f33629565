"""What a dataset can know about the worker that it is in."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a dataset can know about the worker it runs in."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str = "multiprocessing"


_worker_info: WorkerInfo | None = None
_was_asked = False


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a `DataLoader` its ``id``, ``num_workers``, its ``seed`` and its copy of the ``dataset``;
    elsewhere None.

    >>> class Numbers(torch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         info = torch.utils.data.get_worker_info()
    ...         return iter(range(6)) if info is None else iter(range(info.id, 6, info.num_workers))
    >>> list(torch.utils.data.DataLoader(Numbers(), batch_size=None))
    [0, 1, 2, 3, 4, 5]
    """
    global _was_asked
    _was_asked = True
    return _worker_info


def enter_worker(info: WorkerInfo) -> None:
    """From now on this process is a worker, and nobody has asked for it yet."""
    global _worker_info, _was_asked
    _worker_info, _was_asked = info, False


def info_was_asked() -> bool:
    """Whether something that runs in this worker has asked `get_worker_info`."""
    return _was_asked

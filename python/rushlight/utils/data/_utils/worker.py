"""The worker's side of multi-process loading: receives tasks, creates batches and sends them back.

Messages to the worker: `Task`, `Resume` (a new pass), `None` (end).
Messages from the worker: `Result`, whose data is a batch, an `ExceptionWrapper` or `StreamEnd`.
"""

import functools
import gc
import random
import resource
import signal
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import rushlight as torch
from rushlight.multiprocessing.channel import end_with_parent

from .failure import ExceptionWrapper
from .fetch import Task
from .memory import memory_report, size
from .randomness import Randomness
from .wire import ParentGone, WorkerEnd

# The time that a worker has to finish its current work when its parent has ended.
_LAST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Information for a dataset about the worker process in which it runs."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str = "multiprocessing"


#: The information of this process. torch has the variable here, and programs read and replace it.
_worker_info: WorkerInfo | None = None
#: Whether `get_worker_info` was called in this worker.
_was_asked = False


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a `DataLoader`: its ``id``, ``num_workers``, its ``seed`` and its copy of the ``dataset``.
    None in other processes.

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


class Resume(NamedTuple):
    """The following tasks belong to a new pass."""

    dataset_pass: int
    randomness: Randomness | None


class Result(NamedTuple):
    dataset_pass: int
    number: int
    data: Any
    peak_memory: int  # in bytes


class StreamEnd(NamedTuple):
    """The iterable dataset of this worker has ended."""

    knew_its_share: bool  # whether it called `get_worker_info()`


class WorkerSetup(NamedTuple):
    """All settings of a worker, in one value that can be pickled (for `spawn`)."""

    fetcher_class: type
    dataset: Any
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    init_fn: Any
    base_seed: int
    num_workers: int
    randomness: Randomness | None


def worker_main(setup: WorkerSetup, worker_id: int, connection, recorder) -> None:
    """The main function of a worker process."""
    # Ctrl-C reaches the whole foreground group, but only the parent decides when workers end. A handler for SIGTERM
    # that was inherited from the parent is not meant for the worker.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    recorder.catch_faults()
    # A sample that takes for ever must not keep the worker alive.
    end_with_parent(_LAST_SECONDS)
    worker = _Worker(setup, worker_id, recorder, WorkerEnd(connection))
    try:
        worker.run()
    except ParentGone:
        pass
    finally:
        worker.close()


class _Worker:
    def __init__(self, setup: WorkerSetup, worker_id: int, recorder, end: WorkerEnd) -> None:
        self.setup = setup
        self.end = end
        self.recorder = recorder
        self.where = f"in DataLoader worker process {worker_id}"
        self.worker_id = worker_id
        self.fetcher: Any = None
        self.dataset_pass = 0
        self.randomness = setup.randomness
        self.stream_ended = False
        self.failed_start = None
        torch.set_num_threads(1)
        # Inherited objects are frozen: a garbage collection would write to their pages and copy them.
        gc.freeze()
        seed = setup.base_seed + worker_id
        _seed_everything(seed, setup.base_seed, worker_id)
        global _worker_info, _was_asked
        _worker_info, _was_asked = WorkerInfo(worker_id, setup.num_workers, seed, setup.dataset), False
        if setup.init_fn is not None:
            try:
                setup.init_fn(worker_id)
            except Exception:
                self.failed_start = ExceptionWrapper(where=self.where)

    def run(self) -> None:
        while (message := self.end.receive()) is not None:
            if isinstance(message, Resume):
                self.dataset_pass, self.randomness = message
                self.fetcher = None
                self.stream_ended = False
            elif not self.stream_ended:
                self.recorder.begin(message.number)
                self._answer(message.number, self._work(message))

    def close(self) -> None:
        """Drops the stream, so that a generator runs its `finally` and the ends of its `with` blocks. The process ends
        without collecting other objects."""
        self.fetcher = None

    def _work(self, task: Task):
        if self.failed_start is not None:
            failure, self.failed_start = self.failed_start, None
            return failure
        try:
            if self.fetcher is None:
                self.fetcher = self.setup.fetcher_class(self.setup, self.recorder, self.randomness)
            return self.fetcher.fetch(task)
        except StopIteration:
            # Fetchers do not let other StopIterations through.
            self.stream_ended = True
            return StreamEnd(_was_asked)
        except Exception:
            return self._failure(task)

    def _failure(self, task: Task) -> ExceptionWrapper:
        """The current exception, with the information of a report about an ended worker."""
        memory = ", ".join([f"the worker's peak {size(_peak_memory())}", *memory_report()])
        note = f"Worker {self.worker_id} raised it {task.at(self.recorder.position)}.\nMemory: {memory}."
        return ExceptionWrapper(where=self.where, note=note)

    def _answer(self, number: int, data) -> None:
        result = functools.partial(Result, self.dataset_pass, number)

        def failed():
            """Sends the current exception, so that the parent does not wait."""
            return result(ExceptionWrapper(where=self.where), _peak_memory())

        try:
            self.end.send(result(data, _peak_memory()), failed)
        except Exception:  # the batch cannot be pickled
            self.end.send(failed(), failed)


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """The seed of NumPy in a worker, the same as torch's: NumPy's seed sequence of these four words."""
    import numpy

    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return numpy.random.SeedSequence(words).generate_state(4).tolist()


def _seed_everything(seed: int, base_seed: int, worker_id: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(_generate_state(base_seed, worker_id))


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

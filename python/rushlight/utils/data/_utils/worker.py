"""The worker's side of multi-process loading: take a task, build the batch, send it back.

Messages to the worker: `Task`, `Resume` (a new pass over the data), `None` (leave).
Messages from it: `Result`, whose data is a batch, an `ExceptionWrapper` or `StreamEnd`.
"""

import contextlib
import functools
import gc
import random
import resource
import signal
import sys
import traceback
from dataclasses import dataclass
from typing import Any, NamedTuple

import rushlight as torch

from .channel import ParentGone, WorkerEnd
from .fetch import IterableDatasetFetcher, Task
from .memory import memory_facts, size
from .randomness import Randomness


class Resume(NamedTuple):
    """Tasks after this one belong to a new pass."""

    dataset_pass: int
    randomness: Randomness | None


class Result(NamedTuple):
    dataset_pass: int
    number: int
    data: Any
    peak_memory: int  # bytes, of the worker so far


class StreamEnd(NamedTuple):
    """An iterable dataset has nothing more for this worker."""

    knew_its_share: bool  # it asked `get_worker_info()`


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
_info_was_asked = False


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
    global _info_was_asked
    _info_was_asked = True
    return _worker_info


class KeyErrorMessage(str):
    """KeyError prints the repr of its argument, which would spoil a text of several lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception on its way to another process: its class and its traceback as text."""

    def __init__(self, where: str, note: str | None = None) -> None:
        kind, value, trace = sys.exc_info()
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where
        self.note = note

    def reraise(self):
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = KeyErrorMessage(message)
        try:
            # Some classes want other arguments, or none at all.
            exception = self.exc_type(message)
        except Exception:
            exception = RuntimeError(message)
        if self.note is not None:
            exception.add_note(self.note)
        try:
            raise exception
        finally:
            # Its traceback holds this frame, and with it the iterator and its workers: no cycle, please.
            del exception

    def __reduce__(self):
        name = self.exc_type.__name__
        return _rebuild_exception, (self._class_that_travels(), name, self.exc_msg, self.where, self.note)

    def _class_that_travels(self):
        """None for a class that the parent could not find by its name."""
        found = sys.modules.get(self.exc_type.__module__)
        for part in self.exc_type.__qualname__.split("."):
            found = getattr(found, part, None)
        return self.exc_type if found is self.exc_type else None


def _rebuild_exception(exc_type, name: str, message: str, where: str, note: str | None) -> ExceptionWrapper:
    wrapper = ExceptionWrapper.__new__(ExceptionWrapper)
    wrapper.exc_type = exc_type or type(name, (RuntimeError,), {})
    wrapper.exc_msg = message
    wrapper.where = where
    wrapper.note = note
    return wrapper


class WorkerSetup(NamedTuple):
    """All that a worker needs to know, in one value that can be pickled (for `spawn`)."""

    fetcher_class: type
    dataset: Any
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    init_fn: Any
    base_seed: int
    num_workers: int
    randomness: Randomness | None


def worker_main(setup: WorkerSetup, worker_id: int, connection, recorder, parent_pid: int) -> None:
    """The life of a worker process."""
    # Ctrl-C reaches the whole foreground group, but only the parent decides when the workers go;
    # and a handler for SIGTERM that was inherited from the parent is not meant for the worker.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    recorder.catch_faults()
    end = WorkerEnd(connection, parent_pid)
    with contextlib.suppress(ParentGone):
        _Worker(setup, worker_id, recorder, end).run()


class _Worker:
    def __init__(self, setup: WorkerSetup, worker_id: int, recorder, end: WorkerEnd) -> None:
        global _worker_info, _info_was_asked
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
        # What was inherited stays as it is: a collector that walks it would make a copy of every page for itself.
        gc.freeze()
        seed = setup.base_seed + worker_id
        _seed_everything(seed, setup.base_seed, worker_id)
        _worker_info = WorkerInfo(worker_id, setup.num_workers, seed, setup.dataset)
        _info_was_asked = False
        if setup.init_fn is not None:
            try:
                setup.init_fn(worker_id)
            except Exception:
                self.failed_start = ExceptionWrapper(self.where)

    def run(self) -> None:
        while (message := self.end.receive()) is not None:
            if isinstance(message, Resume):
                self.dataset_pass, self.randomness = message
                self.fetcher = None
                self.stream_ended = False
            elif not self.stream_ended:
                self.recorder.begin(message.number)
                self._answer(message.number, self._work(message))

    def _work(self, task: Task):
        if self.failed_start is not None:
            failure, self.failed_start = self.failed_start, None
            return failure
        try:
            if self.fetcher is None:
                self.fetcher = self.setup.fetcher_class(self.setup, self.recorder, self.randomness)
            return self.fetcher.fetch(task)
        except StopIteration:
            if self.setup.fetcher_class is IterableDatasetFetcher:
                self.stream_ended = True
                return StreamEnd(_info_was_asked)
            return self._failure(task)
        except Exception:
            return self._failure(task)

    def _failure(self, task: Task) -> ExceptionWrapper:
        """The exception at hand, with what a report of a dead worker would say too."""
        memory = ", ".join([f"the worker's peak {size(_peak_memory())}", *memory_facts()])
        note = f"Worker {self.worker_id} raised it {task.at(self.recorder.position)}.\nMemory: {memory}."
        return ExceptionWrapper(self.where, note)

    def _answer(self, number: int, data) -> None:
        result = functools.partial(Result, self.dataset_pass, number)

        def failed():
            """The exception that is being handled, instead of leaving the parent waiting."""
            return result(ExceptionWrapper(self.where), _peak_memory())

        try:
            self.end.send(result(data, _peak_memory()), failed)
        except Exception:  # the batch cannot be pickled
            self.end.send(failed(), failed)


def _seed_everything(seed: int, base_seed: int, worker_id: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        # torch's own choice: NumPy's seed sequence over these four words.
        words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
        numpy.random.seed(numpy.random.SeedSequence(words).generate_state(4))


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

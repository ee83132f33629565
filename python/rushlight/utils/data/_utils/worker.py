"""The worker's side of multi-process loading: take a task, build the batch, send it back.

Messages to the worker: `Task`, `Resume` (a new pass over the data), `None` (leave).
Messages from it: `Result`, whose data is a batch, an `ExceptionWrapper` or `StreamEnd`.
"""

import contextlib
import functools
import itertools
import random
import resource
import signal
import sys
import traceback
from dataclasses import dataclass
from typing import Any, NamedTuple

import rushlight as torch

from .channel import ParentGone, WorkerEnd
from .fetch import IterableDatasetFetcher


class Task(NamedTuple):
    number: int
    indices: Any


class Resume(NamedTuple):
    """Tasks after this one belong to a new pass."""

    dataset_pass: int


class Result(NamedTuple):
    dataset_pass: int
    number: int
    data: Any
    peak_memory: int  # bytes, of the worker so far


class StreamEnd(NamedTuple):
    """An iterable dataset has nothing more for this worker."""

    knew_its_share: bool  # it was sharded, or it asked `get_worker_info()`


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
    """In a worker process its id, the number of workers, its seed and its copy of the dataset; elsewhere None."""
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

    def __init__(self, where: str) -> None:
        kind, value, trace = sys.exc_info()
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where

    def reraise(self):
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = KeyErrorMessage(message)
        try:
            # Some classes want other arguments, or none at all.
            exception = self.exc_type(message)
        except Exception:
            exception = RuntimeError(message)
        try:
            raise exception
        finally:
            # Its traceback holds this frame, and with it the iterator and its workers: no cycle, please.
            del exception

    def __reduce__(self):
        return _rebuild_exception, (self._class_that_travels(), self.exc_type.__name__, self.exc_msg, self.where)

    def _class_that_travels(self):
        """None for a class that the parent could not find by its name."""
        found = sys.modules.get(self.exc_type.__module__)
        for part in self.exc_type.__qualname__.split("."):
            found = getattr(found, part, None)
        return self.exc_type if found is self.exc_type else None


def _rebuild_exception(exc_type, name: str, message: str, where: str) -> ExceptionWrapper:
    wrapper = ExceptionWrapper.__new__(ExceptionWrapper)
    wrapper.exc_type = exc_type or type(name, (RuntimeError,), {})
    wrapper.exc_msg = message
    wrapper.where = where
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
    shard: bool


class _Shard:
    """Every `count`-th item of a stream, from `worker_id` on."""

    def __init__(self, dataset, worker_id: int, count: int) -> None:
        self._dataset, self._worker_id, self._count = dataset, worker_id, count

    def __iter__(self):
        return itertools.islice(self._dataset, self._worker_id, None, self._count)


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
        self.fetcher = None
        self.dataset_pass = 0
        self.stream_ended = False
        self.failed_start = None
        torch.set_num_threads(1)
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
                self.dataset_pass = message.dataset_pass
                self.fetcher = None
                self.stream_ended = False
            elif not self.stream_ended:
                self.recorder.begin(message.number)
                self._answer(message.number, self._work(message.indices))

    def _work(self, indices):
        if self.failed_start is not None:
            failure, self.failed_start = self.failed_start, None
            return failure
        try:
            if self.fetcher is None:
                self.fetcher = self._make_fetcher()
            return self.fetcher.fetch(indices)
        except StopIteration:
            if self.setup.fetcher_class is IterableDatasetFetcher:
                self.stream_ended = True
                return StreamEnd(self.setup.shard or _info_was_asked)
            return ExceptionWrapper(self.where)
        except Exception:
            return ExceptionWrapper(self.where)

    def _make_fetcher(self):
        setup = self.setup
        dataset = _Shard(setup.dataset, self.worker_id, setup.num_workers) if setup.shard else setup.dataset
        return setup.fetcher_class(dataset, setup.auto_collation, setup.collate_fn, setup.drop_last, self.recorder)

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
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

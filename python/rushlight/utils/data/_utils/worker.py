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
from typing import Any, NamedTuple

import rushlight as torch

from .failure import ExceptionWrapper
from .fetch import Task
from .info import WorkerInfo, enter_worker, info_was_asked
from .info import get_worker_info as get_worker_info
from .memory import memory_facts, size
from .randomness import Randomness
from .wire import ParentGone, WorkerEnd


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
        enter_worker(WorkerInfo(worker_id, setup.num_workers, seed, setup.dataset))
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
            # Fetchers let no other one out.
            self.stream_ended = True
            return StreamEnd(info_was_asked())
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

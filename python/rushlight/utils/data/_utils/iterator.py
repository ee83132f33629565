"""One pass of a loader, in this process or with workers.

`_MultiProcessingDataLoaderIter` assigns numbered tasks to the workers in turn and returns the batches in the order of
their numbers, so that the order does not depend on the number of workers. The random numbers of samples do depend on
it, unless the loader is `reproducible`. With `in_order=False` batches are returned as soon as they are ready.

The handler of a signal may raise an exception between any two calls, and the pass goes on afterwards. So what has been drawn or
received is stored in an attribute and removed from where it was by statements that call nothing, between which no handler runs.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import operator
import threading
import weakref

import rushlight as torch
from rushlight._warnings import warn, warn_unpinned

from ..dataset import _DatasetKind
from ..sampler import draw_seed
from .failure import ExceptionWrapper
from .fetch import IterableDatasetFetcher, MapDatasetFetcher, Task
from .pin_memory import pin_memory
from .pool import WorkerFailed, WorkerPool
from .randomness import put_aside
from .worker import Resume, StreamEnd, WorkerSetup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..dataloader import DataLoader


class _Batch:
    """A batch that the pass returns next, or what a worker raised instead."""

    __slots__ = ("data", "is_error", "prepared", "size")

    def __init__(self, data, size: int) -> None:
        self.data, self.size = data, size
        self.is_error = isinstance(data, ExceptionWrapper)
        self.prepared = self.is_error


class _BaseDataLoaderIter:
    """Counts the batches, draws the seed of the workers and pins memory. Subclasses define `_load`."""

    _taking: contextlib.AbstractContextManager = contextlib.nullcontext()

    def __init__(self, loader: DataLoader) -> None:
        # Copies of the current options, without a reference to the loader, which may refer to this iterator. Releasing
        # the last reference to a loader must end its workers immediately, without waiting for the garbage collector.
        self._loader = copy.copy(loader)
        self._fetcher_class = (
            IterableDatasetFetcher if loader._dataset_kind == _DatasetKind.Iterable else MapDatasetFetcher
        )
        self.failed = False
        self._pins = _usable_pinning(loader)
        self._begin_pass(loader)

    def _begin_pass(self, loader: DataLoader) -> None:
        self._position = loader._position = loader._position.begin(loader)
        self._randomness = self._position.randomness
        self._indices = self._position.tasks(loader)
        self._num_yielded = self._position.batches
        self._num_drawn = 0
        self._num_samples = self._position.samples  # before the next task
        self._drawn: Any = None  # the next task, until it is sent or carried out
        self._broken: str | None = None  # what was raised while indices were drawn
        self._pending: Any = None  # the batch that `__next__` returns
        self._put_back: list[_Batch] = []  # batches that `__next__` could not return
        self._ended = False
        # The length at the beginning of the iteration, because `list(loader)` reads it later.
        self._reported_length = loader._reported_length

    def __iter__(self):
        return self

    def __next__(self):
        position: Any = None
        batch: Any = None
        try:
            with self._taking:
                self._prepare()
                position, taken = self._position, self._pending
                # No handler of a signal runs between these lines.
                batch = taken
                self._pending = None
                position.batches += 1
                position.samples += batch.size
                self._num_yielded += 1
        except BaseException:
            if batch is not None and position is self._position:
                position.batches -= 1
                position.samples -= batch.size
                self._num_yielded -= 1
                self._put_back.append(batch)
            raise
        if batch.is_error:
            batch.data.reraise()
        return batch.data

    def _prepare(self) -> None:
        """Makes `_pending` the next batch, pinned and checked."""
        if self._pending is None and self._put_back:
            self._pending = self._put_back[0]
            del self._put_back[0]
        if self._pending is None:
            try:
                self._load()
            except StopIteration:
                if self._broken is not None:
                    # The end of the pass would look like the end of the data.
                    raise RuntimeError(_lost_batch(self._broken, "its indices were drawn")) from None
                if not self.failed and not self._ended:
                    self._ended = True
                    self._position.finish()
                raise
        batch = self._pending
        if not batch.prepared:
            if self._pins:
                batch.data = pin_memory(batch.data)
            batch.prepared = True
            self._warn_of_length()

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def __getstate__(self):
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")

    def _load(self) -> None:
        """Makes `_pending` the next batch."""
        raise NotImplementedError

    def _draw(self) -> None:
        """Makes `_drawn` the next task, if it is not yet. After an exception the sampler cannot be asked again."""
        if self._drawn is not None:
            return
        if self._broken is not None:
            raise StopIteration
        try:
            indices = next(self._indices)
            if self._loader._auto_collation and not hasattr(indices, "__len__"):
                indices = list(indices)
            # A dataset gets the batch in the form of the sampler: a list, a tuple or a tensor.
            is_batch = self._loader._auto_collation or isinstance(indices, list)
            task = Task(self._num_drawn, indices, self._num_samples, len(indices) if is_batch else 1)
            self._num_samples += task.size
            self._num_drawn += 1
            self._drawn = task
        except StopIteration:
            raise
        except BaseException as error:
            self._broken = error.__class__.__name__
            raise

    def _setup(self, loader: DataLoader) -> WorkerSetup:
        """The settings and seeds for creating batches."""
        position = self._position
        return WorkerSetup(
            fetcher_class=self._fetcher_class,
            dataset=loader.dataset,
            auto_collation=loader._auto_collation,
            collate_fn=loader.collate_fn,
            drop_last=loader.drop_last,
            init_fn=loader.worker_init_fn,
            # Drawn even without workers, because it is part of the random stream that programs rely on.
            base_seed=draw_seed(loader.generator) if position.seed is None else position.seed,
            num_workers=loader.num_workers,
            randomness=position.randomness,
        )

    def _warn_of_length(self) -> None:
        fetched = self._num_yielded + 1
        if self._reported_length is None or fetched <= self._reported_length:
            return
        loader = self._loader
        text = (
            f"Length of IterableDataset {loader.dataset} was reported to be {self._reported_length}"
            f"(when accessing len(dataloader)), but {fetched} samples have been fetched. "
        )
        if loader.num_workers > 0:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
            )
        warn(text)


def _lost_batch(error: str, when: str) -> str:
    return (
        f"DataLoader: a batch was lost, because {error} was raised while {when}\n"
        "  Begin a new pass, or resume with load_state_dict()."
    )


def _usable_pinning(loader: DataLoader) -> bool:
    if loader.pin_memory_device:
        warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{loader.pin_memory_device}'.",
        )
    if not loader.pin_memory:
        return False
    if not torch.cuda.is_available():
        warn_unpinned()
        return False
    return True


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader: DataLoader) -> None:
        if loader.timeout != 0:
            raise AssertionError(
                "_SingleProcessDataLoaderIter requires timeout == 0\n  timeout= needs worker processes: num_workers=1."
            )
        super().__init__(loader)
        setup = self._setup(loader)
        with self._randomness_aside():
            self._fetcher = self._fetcher_class(setup, None, self._randomness)

    def _randomness_aside(self):
        """Restores the program's random states after loading reproducible samples."""
        return contextlib.nullcontext() if self._randomness is None else put_aside()

    def _load(self) -> None:
        self._draw()
        task = self._drawn
        self._drawn = None
        try:
            if self._randomness is None:
                self._pending = _Batch(self._fetcher.fetch(task), task.size)
            else:
                with self._randomness_aside():
                    self._pending = _Batch(self._fetcher.fetch(task), task.size)
        except BaseException:
            # The pass goes on with the next batch.
            if self._pending is None:
                self._position.advance(task.size)
            raise


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Assigns tasks to the workers in turn, `prefetch_factor` to each. Results are stored until their turn.

    Threads may share a pass. One thread at a time waits for a result, because the result may be another thread's batch.
    """

    def __init__(self, loader: DataLoader) -> None:
        self._taking = threading.RLock()
        self._lost: str | None = None  # what was raised when a batch was lost
        # Before workers start. With a fraction, the number of tasks that are due would never be zero.
        operator.index(loader.num_workers)
        operator.index(loader.prefetch_factor or 0)
        super().__init__(loader)
        setup = self._setup(loader)
        self._pool = WorkerPool()
        # Runs when the iterator is collected or the interpreter ends, but not in a forked child.
        self._finalizer = weakref.finalize(self, self._pool.shutdown)
        self._pool.start(loader.multiprocessing_context or _default_context(), setup)
        self._dataset_pass = 0
        streams = loader._dataset_kind == _DatasetKind.Iterable
        # Whether each worker reads its own stream, with its own positions.
        self._own_datasets = streams and loader.num_workers > 1 and loader.shard is None
        self._may_repeat = self._own_datasets
        self._begin_tasks()

    @property
    def has_workers(self) -> bool:
        """Whether the workers can run another pass: they are alive, and this process started them."""
        return not self.failed and self._pool.is_ours

    def reset(self, loader: DataLoader) -> None:
        """Starts a new pass with the same workers. Results of an unfinished pass are dropped when they arrive."""
        with self._taking:
            try:
                self._begin_pass(loader)
                self._dataset_pass += 1
                self._pool.broadcast(Resume(self._dataset_pass, self._randomness))
            except BaseException as error:
                self._lost, self.failed = error.__class__.__name__, True
                self._give_up(error)
                raise
            self._begin_tasks()

    def __next__(self):
        # Before the lock, which another thread may have held when this process was forked.
        self._pool.check_owner()
        return super().__next__()

    def _begin_tasks(self) -> None:
        self._active = [True] * self._loader.num_workers
        self._turns = itertools.cycle(range(self._loader.num_workers))
        self._owners: dict[int, int] = {}  # task -> worker, for tasks whose batch has not been returned
        self._sizes: dict[int, int] = {}  # sizes of the same tasks
        self._places = [0] * self._loader.num_workers  # positions in each worker's own stream
        self._arrived: dict = {}  # task -> batch that arrived before its turn
        self._ahead = self._loader.prefetch_factor or 0  # tasks per worker
        self._due = self._ahead * self._loader.num_workers  # tasks to be sent now
        self._deal()

    def _deal(self) -> None:
        """Sends the tasks that are due to the next workers that may get them, if there are any."""
        while self._due:
            self._deal_one()
            self._due -= 1

    def _deal_one(self) -> None:
        for _ in self._active:
            worker = next(self._turns)
            if self._active[worker] and self._has_room(worker):
                break
        else:
            return
        try:
            self._draw()
        except StopIteration:
            return
        try:
            task = self._drawn
            if self._own_datasets:
                task = task._replace(place=self._places[worker])
                self._places[worker] += task.size
            self._drawn = None
            self._owners[task.number] = worker
            self._sizes[task.number] = task.size
            self._pool.assign(worker, task)
        except BaseException as error:
            self._lost, self.failed = error.__class__.__name__, True
            self._give_up(error)
            raise

    def _has_room(self, worker: int) -> bool:
        """Whether a worker may get a task. With `in_order` they take turns; otherwise a slow worker gets few tasks."""
        if self._loader.in_order:
            return True
        return list(self._owners.values()).count(worker) < self._ahead

    def _load(self) -> None:
        if self._lost is not None:
            raise RuntimeError(_lost_batch(self._lost, "it was received") + " The workers have ended.")
        if self.failed:
            raise StopIteration
        self._deal()
        while self._owners:
            number = self._ready_number()
            if number is not None:
                batch = _Batch(self._arrived[number], self._sizes[number])
                # No handler of a signal runs between these lines.
                self._pending = batch
                self._due += 1
                del self._arrived[number], self._owners[number], self._sizes[number]
                self._deal()
                return
            self._take_result()
        if not self._loader.persistent_workers:
            self._finalizer()
        raise StopIteration

    def _ready_number(self):
        if self._loader.in_order:
            first = next(iter(self._owners))
            return first if first in self._arrived else None
        return next(iter(self._arrived), None)

    def _take_result(self) -> None:
        timeout = self._loader.timeout
        # The handler of a signal may raise here without harm. Anywhere else a result or a task could get lost.
        ready = self._pool.wait_for_result(timeout)
        copies = False
        try:
            worker, result = self._pool.receive(ready, timeout)
            if result.dataset_pass == self._dataset_pass:
                if isinstance(result.data, StreamEnd):
                    copies = self._end_stream(worker, result)
                else:
                    self._arrived[result.number] = result.data
        except BaseException as error:
            self._lost, self.failed = error.__class__.__name__, True
            self._give_up(error)
            raise
        if copies:
            _warn_of_copies(self._loader.num_workers)
        self._deal()

    def _give_up(self, error: BaseException) -> None:
        """Ends the workers after an exception that may have lost a result or a task.

        Callers first set `_lost` and `failed` themselves, because the handler of another signal may raise in any call.
        """
        if isinstance(error, WorkerFailed):
            self._lost = None
        # If this is interrupted, the finalizer does it.
        self._pool.shutdown(patience=0)
        self._finalizer.detach()

    def _end_stream(self, worker: int, result) -> bool:
        """Handles the end of a worker's stream: its later tasks are void, and other workers get its turns.

        Returns:
            whether to warn that each worker iterates over its own copy.
        """
        self._active[worker] = False
        for number in [number for number, owner in self._owners.items() if owner == worker]:
            if number >= result.number:
                del self._owners[number], self._sizes[number]
        if not self._loader.persistent_workers:
            self._pool.dismiss(worker)
        self._due += 1
        copies = self._may_repeat and not result.data.knew_its_share
        if copies:
            self._may_repeat = False
        return copies


def _default_context():
    from rushlight import multiprocessing

    return multiprocessing.get_context()


def _warn_of_copies(num_workers: int) -> None:
    warn(
        f"Each of the {num_workers} workers iterates over its own copy of the IterableDataset, so every "
        "item comes once per worker. Use DataLoader(..., shard='auto'), or split the work with get_worker_info().",
    )

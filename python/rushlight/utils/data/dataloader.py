"""`DataLoader` and its iterators.

The loader itself holds only the choices. `iter(loader)` makes one of two iterators: `_SingleProcessIter`
fetches in this process; `_MultiProcessIter` deals numbered tasks to worker processes in turn and hands the
batches out in the order of their numbers, so that their order does not depend on the number of workers. What the samples
draw does, unless the loader is `reproducible`; and with `in_order=False` what is ready comes first.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import threading
import weakref
from typing import Generic, TypeVar

import rushlight as torch
from rushlight import _C
from rushlight._warnings import warn

from ._utils.collate import default_collate, default_convert
from ._utils.failure import ExceptionWrapper
from ._utils.fetch import IterableDatasetFetcher, MapDatasetFetcher, Task
from ._utils.info import get_worker_info as get_worker_info
from ._utils.pin_memory import pin_memory
from ._utils.pool import WorkerPool
from ._utils.position import Position
from ._utils.randomness import put_aside
from ._utils.share import share
from ._utils.worker import Resume, StreamEnd, WorkerSetup
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, draw_seed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

_T_co = TypeVar("_T_co", covariant=True)

_DEFAULT_PREFETCH = 2


class _DatasetKind:
    """How a loader asks its dataset: by index, or as a stream."""

    Map = 0
    Iterable = 1


class _InfiniteConstantSampler(Sampler):
    """`None` for ever: an iterable dataset decides itself what comes next."""

    def __iter__(self):
        return itertools.repeat(None)


class DataLoader(Generic[_T_co]):
    """Batches of a dataset: it takes samples in an order, joins them, and loads them in this process or in others.

    Each `iter(loader)` is one pass. A batch is what ``collate_fn`` makes of a list of samples; `default_collate` puts
    a dimension of size ``batch_size`` in front of every tensor and number. The parameters are torch's, and three more:
    ``shard``, ``reproducible`` and ``share_dataset``.

    Args:
        dataset: a `Dataset` (anything with `__getitem__` and `__len__`) or an `IterableDataset`.
        batch_size: samples in a batch; the last one may have fewer. None: samples come one by one, not joined.
        shuffle: a new random order for each pass.
        sampler: the order, as an iterable of indices; instead of ``shuffle``.
        batch_sampler: the batches, as an iterable of lists of indices; instead of ``batch_size``, ``shuffle``,
            ``sampler`` and ``drop_last``.
        num_workers: processes that load samples; 0 loads in this process.
        collate_fn: makes a batch of a list of samples (without a batch size: a sample of a sample).
        pin_memory: accepted; warns, since nothing is pinned without a card.
        drop_last: whether a last batch that is too small is left out.
        timeout: seconds to wait for a batch from a worker; 0 waits as long as the workers live.
        worker_init_fn: called in each worker before it begins, with the worker's number.
        multiprocessing_context: a start method (``"fork"``, ``"spawn"``, ``"forkserver"``) or a context of
            `multiprocessing`.
        generator: draws the order and the seed of the workers; torch's own without one.
        prefetch_factor: batches that each worker loads ahead (2).
        persistent_workers: whether workers live on for the next pass.
        pin_memory_device: accepted; warns.
        in_order: whether batches come in the order of the sampler; otherwise what is ready comes first.
        shard: ``"auto"``: the workers take the batches of an `IterableDataset` in turn, so that each item comes once
            and the batches are those of a single process; None: every worker iterates over its own copy, as in torch.
        reproducible: every sample has a random state of its own (torch's, `random`'s and NumPy's), which follows from
            the loader's seed, the pass and the sample's place in it. Neither samples nor order depend on the number of
            workers then, 0 included (of a stream with ``shard="auto"``, since each worker has its own otherwise). The
            seed is drawn at the first pass; generators of samplers are seeded anew for each.
        share_dataset: whether lists, dicts, arrays and tensors of the dataset are frozen into shared memory, once for
            all workers.

    `state_dict()` is a few numbers that say which sample is the next; `load_state_dict` goes on there, with another
    number of workers too.

    Raises:
        ValueError: arguments that exclude each other or lie out of range, or an attribute that is set afterwards
            although the order was built from it.
        RuntimeError: while iterating, a worker that died, or none that sent within ``timeout``. What a sample raises
            is raised again as itself, with the worker's traceback; a StopIteration as a RuntimeError, without workers too,
            since it would end the pass unseen.

    >>> from rushlight.utils.data import DataLoader, TensorDataset
    >>> data = TensorDataset(torch.arange(10.0).reshape(5, 2), torch.arange(5))
    >>> for x, y in DataLoader(data, batch_size=2):
    ...     print(x.shape, y)
    torch.Size([2, 2]) tensor([0, 1])
    torch.Size([2, 2]) tensor([2, 3])
    torch.Size([1, 2]) tensor([4])
    >>> len(DataLoader(data, batch_size=2, drop_last=True))
    2
    """

    # What cannot change once the samplers have been built from it.
    _FROZEN = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers", "reproducible")
    __initialized = False

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        shard: str | None = None,
        reproducible: bool = False,
        share_dataset: bool = False,
    ) -> None:
        _check_options(num_workers, timeout, prefetch_factor, persistent_workers, shard)
        streams = isinstance(dataset, IterableDataset)
        if streams:
            _refuse_order_of_stream(shuffle, sampler, batch_sampler)
        _check_order(shuffle, sampler, batch_sampler, batch_size, drop_last)
        if batch_sampler is not None:
            batch_size = None
        if share_dataset:
            # First, so that no sampler keeps what was there before.
            dataset = share(dataset)
        if sampler is None:
            sampler = _sampler(dataset, shuffle, generator)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)

        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = _DEFAULT_PREFETCH if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.shard = shard
        self.reproducible = reproducible
        self._dataset_kind = _DatasetKind.Iterable if streams else _DatasetKind.Map
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._reported_length: int | None = None
        self._iterator: Any = None
        self._position = Position()
        self.__initialized = True
        self.check_worker_number_rationality()

    def __setattr__(self, name, value):
        if self.__initialized and name in self._FROZEN:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        # Workers belong to the loader that started them; a copy starts its own.
        return {**vars(self), "_iterator": None}

    @property
    def multiprocessing_context(self):
        """The context that starts the workers; None for the default one."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        self.__multiprocessing_context = None if context is None else self._checked_context(context)

    def _checked_context(self, context):
        from rushlight import multiprocessing

        if self.num_workers == 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
                f"but got num_workers={self.num_workers}"
            )
        if isinstance(context, str):
            methods = multiprocessing.get_all_start_methods()
            if context not in methods:
                raise ValueError(
                    "multiprocessing_context option should specify a valid start method in "
                    f"{methods!r}, but got multiprocessing_context={context!r}"
                )
            return multiprocessing.get_context(context)
        if not (hasattr(context, "Process") and hasattr(context, "get_start_method")):
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string specifying the "
                f"start method, but got multiprocessing_context={context}"
            )
        return context

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        """What one task is made of: the indices of a batch, or a single index."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self):
        if self.num_workers == 0:
            return _SingleProcessIter(self)
        if not self.prefetch_factor:
            raise AssertionError(
                "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter\n"
                "  It is how many batches each worker loads ahead: with 0 none would ever be asked of one."
            )
        self.check_worker_number_rationality()
        return _MultiProcessIter(self)

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers > 0):
            return self._get_iterator()
        if self._iterator is None or not self._iterator.has_workers:
            self._iterator = self._get_iterator()
        else:
            self._iterator.reset(self)
        return self._iterator

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        # An estimate that the stream itself reports; an iteration that exceeds it warns.
        length = self._reported_length = len(self.dataset)  # type: ignore[arg-type] # if it has one
        if self.batch_size is None:
            return length
        full, rest = divmod(length, self.batch_size)
        return full if self.drop_last or not rest else full + 1

    def state_dict(self) -> dict[str, Any]:
        """Where the newest pass stands, in a few numbers: what has been handed out counts, what is prefetched does not.

        A random order is known if the loader is `reproducible` or shuffles without a generator; what else the samples
        draw is the same after resuming only if it is `reproducible`.
        """
        return self._position.state(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The next pass goes on where `state_dict` was taken. Samples before it are not loaded; those of an
        `IterableDataset` are read and dropped."""
        self._position = Position.restored(state_dict, self)

    def check_worker_number_rationality(self) -> None:
        """Warns when the workers would exceed the processors that this process may use."""
        usable = _C._usable_cores()
        if self.num_workers <= usable:
            return
        warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. "
            f"Our suggested max number of worker in current system is {usable}, which is smaller than what "
            "this DataLoader is going to create. Please be aware that excessive worker creation might get DataLoader running slow or even freeze, "
            "lower the worker number to avoid potential slowness/freeze if necessary.",
        )


def _check_options(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool, shard: str | None
) -> None:
    """Raises ValueError for options of the workers that lie out of range or exclude each other."""
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if shard not in (None, "auto"):
        raise ValueError(f"shard option should be None or 'auto', but got shard={shard!r}")


def _check_order(
    shuffle: bool | None, sampler: Any, batch_sampler: Any, batch_size: int | None, drop_last: bool
) -> None:
    """Raises ValueError for ways to order the samples that exclude each other."""
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")


def _sampler(dataset: Any, shuffle: bool | None, generator: torch.Generator | None) -> Sampler:
    """The order of a loader that was given none."""
    if isinstance(dataset, IterableDataset):
        return _InfiniteConstantSampler()
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


def _refuse_order_of_stream(shuffle, sampler, batch_sampler) -> None:
    refused = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in refused.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


class _BaseDataLoaderIter:
    """Counts the batches, draws the seed of the workers and pins memory; subclasses write `_next_data`."""

    def __init__(self, loader: DataLoader) -> None:
        # The choices as they are now. Not the loader itself, which may hold this iterator: the last reference to a
        # loader must end its workers at once and not when the collector comes by.
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
        self._num_dealt = 0
        self._num_samples = self._position.samples  # before the next task
        # As the length was when the iteration began: `list(loader)` asks for it only afterwards.
        self._reported_length = loader._reported_length

    def __iter__(self):
        return self

    def __next__(self):
        try:
            data = self._next_data()
        except StopIteration:
            if not self.failed:
                self._position.finish()
            raise
        if self._pins:
            data = pin_memory(data)
        self._num_yielded += 1
        self._warn_of_length()
        return data

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def __getstate__(self):
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")

    def _next_data(self):
        raise NotImplementedError

    def _next_task(self) -> Task:
        indices = next(self._indices)
        if self._loader._auto_collation and not hasattr(indices, "__len__"):
            indices = list(indices)
        # A dataset gets a batch as the sampler has made it: a list, a tuple, a tensor.
        is_batch = self._loader._auto_collation or isinstance(indices, list)
        task = Task(self._num_dealt, indices, self._num_samples, len(indices) if is_batch else 1)
        self._num_dealt += 1
        self._num_samples += task.size
        return task

    def _setup(self, loader: DataLoader) -> WorkerSetup:
        """How batches are made, and with which seeds."""
        position = self._position
        return WorkerSetup(
            fetcher_class=self._fetcher_class,
            dataset=loader.dataset,
            auto_collation=loader._auto_collation,
            collate_fn=loader.collate_fn,
            drop_last=loader.drop_last,
            init_fn=loader.worker_init_fn,
            # Drawn even without workers: it is part of the random stream that programs rely on.
            base_seed=draw_seed(loader.generator) if position.seed is None else position.seed,
            num_workers=loader.num_workers,
            randomness=position.randomness,
        )

    def _warn_of_length(self) -> None:
        if self._reported_length is None or self._num_yielded <= self._reported_length:
            return
        loader = self._loader
        text = (
            f"Length of IterableDataset {loader.dataset} was reported to be {self._reported_length}"
            f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if loader.num_workers > 0:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
            )
        warn(text)


def _usable_pinning(loader: DataLoader) -> bool:
    if loader.pin_memory_device:
        warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{loader.pin_memory_device}'.",
        )
    if not loader.pin_memory:
        return False
    if not torch.cuda.is_available():
        warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
        )
        return False
    return True


class _SingleProcessIter(_BaseDataLoaderIter):
    def __init__(self, loader: DataLoader) -> None:
        if loader.timeout != 0:
            raise AssertionError("timeout is for workers: with num_workers=0 nothing is waited for")
        super().__init__(loader)
        setup = self._setup(loader)
        with self._streams():
            self._fetcher = self._fetcher_class(setup, None, self._randomness)

    def _streams(self):
        """The program's own random streams stay where they are while reproducible samples are loaded."""
        return contextlib.nullcontext() if self._randomness is None else put_aside()

    def _next_data(self):
        task = self._next_task()
        self._position.advance(task.size)
        if self._randomness is None:
            return self._fetcher.fetch(task)
        with self._streams():
            return self._fetcher.fetch(task)


class _MultiProcessIter(_BaseDataLoaderIter):
    """Tasks are dealt to the workers in turn, `prefetch_factor` for each; results wait here for their turn.

    Threads may share a pass: one at a time waits for a result, since what it takes may be the batch of another.
    """

    def __init__(self, loader: DataLoader) -> None:
        self._taking = threading.RLock()
        super().__init__(loader)
        setup = self._setup(loader)
        self._pool = WorkerPool()
        # Runs when the iterator is collected, when the interpreter ends, and never in a forked child.
        self._finalizer = weakref.finalize(self, self._pool.shutdown)
        self._pool.start(loader.multiprocessing_context or _default_context(), setup)
        self._dataset_pass = 0
        streams = loader._dataset_kind == _DatasetKind.Iterable
        # Whether each worker reads a stream of its own, whose places are counted for each.
        self._own_streams = streams and loader.num_workers > 1 and loader.shard is None
        self._may_repeat = self._own_streams
        self._begin_tasks()

    @property
    def has_workers(self) -> bool:
        """Whether the workers can make another pass: they live, and this process started them."""
        return not self.failed and self._pool.is_ours

    def reset(self, loader: DataLoader) -> None:
        """A new pass with the same workers; results of an unfinished pass are dropped as they arrive."""
        with self._taking:
            self._begin_pass(loader)
            self._dataset_pass += 1
            self._pool.broadcast(Resume(self._dataset_pass, self._randomness))
            self._begin_tasks()

    def __next__(self):
        # Before the lock, which another thread may have held when this process was forked.
        self._pool.check_owner()
        with self._taking:
            return super().__next__()

    def _begin_tasks(self) -> None:
        self._active = [True] * self._loader.num_workers
        self._turns = itertools.cycle(range(self._loader.num_workers))
        self._owners: dict[int, int] = {}  # task -> worker, for tasks whose batch has not been handed out
        self._sizes: dict[int, int] = {}  # of the same tasks
        self._places = [0] * self._loader.num_workers  # in each worker's own stream
        self._arrived: dict = {}  # task -> batch that came before its turn
        self._ahead = self._loader.prefetch_factor or 0  # for each worker
        for _ in range(self._ahead * self._loader.num_workers):
            self._deal()

    def _deal(self) -> None:
        """Gives the next task to the next worker that may have it, if there is one."""
        for _ in self._active:
            worker = next(self._turns)
            if self._active[worker] and self._has_room(worker):
                break
        else:
            return
        try:
            task = self._next_task()
        except StopIteration:
            return
        if self._own_streams:
            task = task._replace(place=self._places[worker])
            self._places[worker] += task.size
        self._owners[task.number] = worker
        self._sizes[task.number] = task.size
        self._pool.assign(worker, task)

    def _has_room(self, worker: int) -> bool:
        """In order, the turn decides; otherwise a slow worker must not hoard tasks."""
        if self._loader.in_order:
            return True
        return list(self._owners.values()).count(worker) < self._ahead

    def _next_data(self):
        if self.failed:
            raise StopIteration
        while self._owners:
            number = self._ready_number()
            if number is not None:
                data = self._arrived.pop(number)
                del self._owners[number]
                self._position.advance(self._sizes.pop(number))
                self._deal()
                if isinstance(data, ExceptionWrapper):
                    data.reraise()
                return data
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
        try:
            worker, result = self._pool.receive(self._loader.timeout)
        except BaseException:
            self.failed = True
            self._finalizer.detach()
            self._pool.shutdown(patience=0)
            raise
        if result.dataset_pass != self._dataset_pass:
            return
        if isinstance(result.data, StreamEnd):
            self._end_stream(worker, result)
        else:
            self._arrived[result.number] = result.data

    def _end_stream(self, worker: int, result) -> None:
        """The worker's share is used up: its later tasks are void, other workers take over its turns."""
        self._active[worker] = False
        for number in [number for number, owner in self._owners.items() if owner == worker]:
            if number >= result.number:
                del self._owners[number], self._sizes[number]
        if not self._loader.persistent_workers:
            self._pool.dismiss(worker)
        if self._may_repeat and not result.data.knew_its_share:
            self._may_repeat = False
            _warn_of_copies(self._loader.num_workers)
        self._deal()


def _default_context():
    from rushlight import multiprocessing

    return multiprocessing.get_context()


def _warn_of_copies(num_workers: int) -> None:
    warn(
        f"Each of the {num_workers} workers iterates over its own copy of the IterableDataset, so every "
        "item comes once per worker. Use DataLoader(..., shard='auto'), or split the work with get_worker_info().",
    )

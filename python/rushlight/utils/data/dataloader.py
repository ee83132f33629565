"""`DataLoader`: which samples, in which order, loaded by whom. A pass over them is in `_utils.iterator`."""

from __future__ import annotations

import itertools
from typing import Generic, TypeVar

import rushlight as torch
from rushlight import _C
from rushlight._warnings import warn

from ._utils.collate import default_collate, default_convert
from ._utils.info import get_worker_info as get_worker_info
from ._utils.iterator import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter
from ._utils.position import Position
from ._utils.share import share
from .dataset import Dataset, IterableDataset, _DatasetKind
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

_T_co = TypeVar("_T_co", covariant=True)

_DEFAULT_PREFETCH = 2


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
            seed is drawn at the first pass or `state_dict()`; generators of samplers are seeded anew for each.
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
            sampler = _InfiniteConstantSampler() if streams else _sampler(dataset, shuffle, generator)
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
            return _SingleProcessDataLoaderIter(self)
        if not self.prefetch_factor:
            raise AssertionError(
                "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter\n"
                "  It is how many batches each worker loads ahead: with 0 none would ever be asked of one."
            )
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

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
    """The order of a loader of samples by index that was given none."""
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


def _refuse_order_of_stream(shuffle, sampler, batch_sampler) -> None:
    refused = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in refused.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )

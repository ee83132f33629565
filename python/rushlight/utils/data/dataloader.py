"""`DataLoader`: loads the samples of a dataset in batches. A pass over them is in `_utils.iterator`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import rushlight as torch
from rushlight import _C
from rushlight._warnings import warn

from ._utils.collate import default_collate, default_convert
from ._utils.iterator import _BaseDataLoaderIter as _BaseDataLoaderIter
from ._utils.iterator import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter
from ._utils.position import Position, check_that_order_is_known
from ._utils.share import share
from ._utils.worker import get_worker_info as get_worker_info
from .dataset import Dataset, IterableDataset, _DatasetKind
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_worker_init_fn_t = Callable[[int], None]
_collate_fn_t = Callable[[list[_T]], Any]

_DEFAULT_PREFETCH = 2


class _InfiniteConstantSampler(Sampler):
    """Yields `None` forever, because an iterable dataset determines its order itself."""

    def __iter__(self):
        return itertools.repeat(None)


class _IfOrderIsKnown:
    """A method that loaders have whose order can be resumed. For others it raises an error, also an AttributeError."""

    def __init__(self, method):
        functools.update_wrapper(self, method)
        self._method = method

    def __get__(self, loader, owner=None):
        if loader is None:
            return self._method
        check_that_order_is_known(loader)
        return self._method.__get__(loader, owner)


def _if_order_is_known(method: _T) -> _T:
    return _IfOrderIsKnown(method)  # type: ignore[return-value]


class DataLoader(Generic[_T_co]):
    """Loads batches of a dataset: takes samples in an order, loads them in this process or in workers, and joins them.

    Each `iter(loader)` is one pass. ``collate_fn`` joins a list of samples into a batch. `default_collate` adds a first
    dimension of size ``batch_size`` to every tensor and number. The parameters are torch's and three more: ``shard``,
    ``reproducible`` and ``share_dataset``.

    Args:
        dataset: a `Dataset` (anything with `__getitem__` and `__len__`) or an `IterableDataset`.
        batch_size: the number of samples per batch; the last batch may have fewer. None loads single samples without
            joining.
        shuffle: whether each pass has a new random order.
        sampler: the order, as an iterable of indices; replaces ``shuffle``.
        batch_sampler: the batches, as an iterable of lists of indices; replaces ``batch_size``, ``shuffle``,
            ``sampler`` and ``drop_last``.
        num_workers: the number of worker processes; 0 loads in this process.
        collate_fn: joins a list of samples into a batch (without a batch size: converts a single sample).
        pin_memory: whether batches are in page-locked memory, which GPUs copy while the program goes on. Without a GPU it
            gives a warning and has no effect.
        drop_last: whether to omit an incomplete last batch.
        timeout: the number of seconds to wait for a batch from a worker; 0 waits while the workers are alive.
        worker_init_fn: a function that is called with the worker's index in each worker when it begins.
        multiprocessing_context: a start method (``"fork"``, ``"spawn"``, ``"forkserver"``) or a context of
            `multiprocessing`.
        generator: the random generator of the order and of the workers' seed; by default the default generator.
        prefetch_factor: the number of batches that each worker loads ahead (2).
        persistent_workers: whether workers are kept for the next pass.
        pin_memory_device: accepted; gives a warning and has no effect.
        in_order: whether batches have the order of the sampler; otherwise they are returned as soon as they are ready.
        shard: with ``"auto"`` the workers take the batches of an `IterableDataset` in turn, so that each item occurs
            once and the batches are those of a single process. With None every worker iterates over its own copy, as in
            torch.
        reproducible: whether every sample has its own random state (for torch, `random` and NumPy), which depends on
            the loader's seed, the pass and the sample's position in it. Samples and order then do not depend on the
            number of workers, which may be 0 (for a stream this requires ``shard="auto"``). The seed is drawn at the
            first pass or `state_dict()`; generators of samplers are seeded again for each pass.
        share_dataset: whether to move lists, dicts, arrays and tensors of the dataset into shared memory, once for all
            workers.

    `state_dict()` returns a few numbers that identify the next sample. `load_state_dict` resumes there, with any number
    of workers.

    Raises:
        ValueError: arguments exclude each other or are out of range, or an attribute is changed from which the order
            was created.
        RuntimeError: while iterating, a worker has ended, or none sent a batch within ``timeout``. Exceptions of
            samples are raised again with the worker's traceback. A StopIteration becomes a RuntimeError, also without
            workers, because it would silently end the pass.

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

    # The attributes that must not change after the samplers have been created.
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
            # Done first, so that no sampler refers to the original dataset.
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
        # Workers belong to the loader that started them. A copy starts its own.
        return {**vars(self), "_iterator": None}

    @property
    def multiprocessing_context(self):
        """The context that starts the workers; None for the default context."""
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
        """The contents of tasks: the indices of a batch, or a single index."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self):
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        ahead: Any = self.prefetch_factor  # None, which is no number, if that of the workers is none
        if ahead <= 0:
            raise AssertionError(
                "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter\n"
                "  It is the number of batches that each worker loads ahead."
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
        # The length that the stream reports is an estimate. An iteration that exceeds it gives a warning.
        length = self._reported_length = len(self.dataset)  # type: ignore[arg-type] # if it has one
        if self.batch_size is None:
            return length
        full, rest = divmod(length, self.batch_size)
        return full if self.drop_last or not rest else full + 1

    @_if_order_is_known
    def state_dict(self) -> dict[str, Any]:
        """The position of the newest pass, as a few numbers. It counts returned samples, not prefetched ones.

        A random order can be reproduced if the loader is `reproducible` or shuffles without a generator. Other random
        numbers of the samples are the same after resuming only if it is `reproducible`.
        """
        return self._position.state(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Makes the next pass resume at the position of `state_dict`. Samples before it are not loaded; those of an
        `IterableDataset` are read and dropped."""
        self._position = Position.restored(state_dict, self)

    def check_worker_number_rationality(self) -> None:
        """Warns if there are more workers than processors that this process may use."""
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
    """Raises ValueError for worker options that are out of range or exclude each other."""
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
    """Raises ValueError for options of the order that exclude each other."""
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
    """The default order of a loader with an indexed dataset."""
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


def _refuse_order_of_stream(shuffle, sampler, batch_sampler) -> None:
    refused = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in refused.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )

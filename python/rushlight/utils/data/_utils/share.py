"""Moves a dataset into shared memory, once for all processes.

A forked worker shares its parent's memory pages until it writes to them. Reading a Python object changes its reference
count, which is a write. Therefore long lists and dicts become bytes in shared memory, and each access creates the item.
Arrays and tensors are only moved.
"""

import array
import bisect
import collections.abc
import copy
import hashlib
import io
import pickle
import sys
from multiprocessing import reduction
from typing import Any

import rushlight as torch
from rushlight._utils import is_sparse, sparse_of, sparse_parts

from ..dataset import Dataset

#: Shorter containers and smaller arrays are not moved into shared memory.
_LENGTH, _BYTES = 64, 1 << 12
_DEPTH = 8


def share(dataset: Any) -> Any:
    """The dataset with its large parts in shared memory, where they are read-only.

    Datasets, their attributes, and lists, tuples and dicts in them are searched. A list of 64 items or more becomes a
    `SharedList`, a dict with as many keys (strings, bytes or integers) a `SharedDict`. Unpicklable objects are not
    changed.
    """
    return _frozen(dataset, _DEPTH, {})


def _frozen(value: Any, depth: int, done: dict[int, Any]) -> Any:
    # Shared references stay shared. The original is kept alive, because its address identifies it.
    if id(value) not in done:
        done[id(value)] = (value, _freeze(value, depth, done))
    return done[id(value)][1]


def _freeze(value: Any, depth: int, done: dict[int, Any]) -> Any:
    numpy = sys.modules.get("numpy")
    if type(value) is torch.Tensor:
        if value.device.type != "cpu":
            return value
        return _shared_tensor(value.detach()).requires_grad_(value.requires_grad)
    if numpy is not None and type(value) is numpy.ndarray and not value.dtype.hasobject:
        return _constant(value) if value.nbytes < _BYTES else _shared_array(value)
    if depth == 0:
        return value
    # The loader's argument is treated as a dataset, whatever its class is.
    if isinstance(value, Dataset) or (depth == _DEPTH and hasattr(value, "__dict__")):
        clone = copy.copy(value)
        for name, attribute in vars(value).items():
            # Bypasses a class that restricts its attributes.
            clone.__dict__[name] = _frozen(attribute, depth - 1, done)
        return clone
    if type(value) in (list, tuple) and (len(value) < _LENGTH or _all_are(value, (torch.Tensor, Dataset))):
        return type(value)(_frozen(item, depth - 1, done) for item in value)
    if type(value) is dict and len(value) < _LENGTH:
        return {key: _frozen(item, depth - 1, done) for key, item in value.items()}
    try:
        if type(value) in (list, tuple):
            return SharedList(value)
        if type(value) is dict and all(type(key) in (str, bytes, int) for key in value):
            return SharedDict(value)
    except (pickle.PicklingError, TypeError, AttributeError):
        pass
    return value


def _all_are(values, kinds) -> bool:
    return all(isinstance(value, kinds) for value in values)


def _shared_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if is_sparse(tensor):
        parts = [_shared_tensor(part) if isinstance(part, torch.Tensor) else part for part in sparse_parts(tensor)]
        return sparse_of(tensor.layout, parts)
    if tensor.is_shared():
        return tensor
    # Not a clone that is shared afterwards, because its first memory would stay in the allocator's cache.
    form = torch.empty_like(tensor, device="meta")
    storage = torch.UntypedStorage(form.untyped_storage().nbytes()).share_memory_()
    return torch.empty(0, dtype=tensor.dtype).set_(storage, 0, form.shape, form.stride()).copy_(tensor)


def _shared_array(values):
    import numpy

    reduction.register(numpy.ndarray, _reduce_array)
    kept = numpy.ascontiguousarray(values)
    return _array_over(_shared_bytes(kept.view(numpy.uint8).reshape(-1)), kept.dtype, kept.shape)


def _constant(values):
    """A read-only copy, like the large ones."""
    kept = values.copy()
    kept.flags.writeable = False
    return kept


def _array_over(storage, dtype, shape):
    import numpy

    return numpy.ndarray(shape, dtype, buffer=memoryview(storage).toreadonly())


def _reduce_array(values):
    """Pickling between processes: a whole shared array is sent as a handle, any other array as NumPy pickles it."""
    storage = getattr(values.base, "obj", None)
    if isinstance(storage, torch.UntypedStorage) and storage.nbytes() == values.nbytes and values.flags.c_contiguous:
        return _array_over, (storage, values.dtype, values.shape)
    return values.__reduce__()


def _shared_bytes(content) -> Any:
    storage = torch.UntypedStorage(max(len(content), 1)).share_memory_()
    memoryview(storage)[: len(content)] = content
    return storage


class _Items:
    """Concatenated pickles, and the offset of each."""

    def __init__(self, items) -> None:
        content, places = io.BytesIO(), array.array("q", [0])
        for item in items:
            content.write(pickle.dumps(item, pickle.HIGHEST_PROTOCOL))
            places.append(content.tell())
        self._content = _shared_bytes(content.getbuffer())
        self._places = _shared_bytes(memoryview(places).cast("B"))
        self._open()

    def _open(self) -> None:
        self._bytes = memoryview(self._content)
        self._starts = memoryview(self._places).cast("q")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, place: int) -> Any:
        return pickle.loads(self._bytes[self._starts[place] : self._starts[place + 1]])

    def __getstate__(self):
        return self._content, self._places

    def __setstate__(self, state) -> None:
        self._content, self._places = state
        self._open()


class SharedList(collections.abc.Sequence):
    """A read-only list in shared memory. Each access creates the item."""

    def __init__(self, items) -> None:
        self._items = _Items(items)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self._items[place] for place in range(*index.indices(len(self)))]
        return self._items[range(len(self))[index]]

    def __eq__(self, other) -> bool:
        return (
            len(self) == len(other) and all(a == b for a, b in zip(self, other)) if _is_list(other) else NotImplemented
        )

    def __repr__(self) -> str:
        return f"SharedList of {len(self)} items"


def _is_list(value) -> bool:
    return isinstance(value, (list, SharedList))


class SharedDict(collections.abc.Mapping):
    """A read-only dict in shared memory. Keys keep their order and are found by bisection."""

    def __init__(self, items: dict) -> None:
        self._entries = _Items(items.items())
        numbers = torch.frombuffer(array.array("q", map(_number, items)), dtype=torch.int64)
        self._table = torch.stack(torch.sort(numbers, stable=True)).share_memory_()
        self._open()

    def _open(self) -> None:
        table = memoryview(self._table.untyped_storage()).cast("q")
        self._numbers, self._order = table[: len(self)], table[len(self) :]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self):
        return (self._entries[place][0] for place in range(len(self)))

    def __getitem__(self, key):
        if isinstance(key, (str, bytes, int)):
            number = _number(key)
            at = bisect.bisect_left(self._numbers, number)
            while at < len(self) and self._numbers[at] == number:
                found, value = self._entries[self._order[at]]
                if found == key:
                    return value
                at += 1
        raise KeyError(key)

    def __repr__(self) -> str:
        return f"SharedDict of {len(self)} items"

    def __getstate__(self):
        return self._entries, self._table

    def __setstate__(self, state) -> None:
        self._entries, self._table = state
        self._open()


def _number(key) -> int:
    """A hash that is the same in every process, unlike Python's hash of strings."""
    content = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
    if isinstance(content, int):
        content = b"%d" % content
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)

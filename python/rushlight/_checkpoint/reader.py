"""Loads a checkpoint: the archive (or the legacy format), its pickle, and the bytes of its storages."""

import contextlib
import io
import mmap
import os
import pickle
import stat
import sys
from typing import Any

import rushlight as torch
from rushlight import _C
from rushlight._utils import set_state
from rushlight.storage import TypedStorage
from rushlight.utils.serialization import config

from .errors import translated
from .legacy_format import part
from .options import LoadEndianness, skipping_data
from .pickler import Global
from .rebuild import find_known, home
from .storage_classes import StorageClass

_ZIP_MAGIC = b"PK\x03\x04"
_ENDLESS = (stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK)


class Source:
    """A path or a file object to load from."""

    def __init__(self, path, data, leave=None) -> None:
        self.path = path
        self._data = data
        self._leave = leave
        if path is not None and stat.S_IFMT(os.stat(path).st_mode) in _ENDLESS:
            raise pickle.UnpicklingError(
                f"{path} is a device or a pipe, which may have no end: a regular file is required"
            )
        self.is_zip = self.head() == _ZIP_MAGIC

    def head(self) -> bytes:
        if self.path is None:
            return self._data[:4]
        with open(self.path, "rb") as file:
            return file.read(4)

    def reader(self):
        return _C._CheckpointReader(self._data if self.path is None else self.path)

    def end(self, length: int) -> None:
        """Sets the size of the checkpoint. A file object may contain other data after it."""
        if self._leave is not None:
            self._leave(length)

    def data(self) -> bytes:
        if self.path is None:
            return self._data
        with open(self.path, "rb") as file:
            return file.read()


@contextlib.contextmanager
def opened(f):
    if isinstance(f, (str, os.PathLike)):
        yield Source(os.fspath(f), None)
        return
    try:
        seek, place = f.seek, f.tell()
        seek(place)
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the data into a buffer "
            "like io.BytesIO and try to load from it instead."
        ) from None
    # The contents of a buffer are used directly, because reading would copy them.
    data = f.getvalue() if type(f) is io.BytesIO and place == 0 else f.read()
    if isinstance(data, str):
        raise AssertionError(
            "Expected bytes, got str: the file must be opened for reading bytes, as by open(path, 'rb')"
        )
    yield Source(None, data if type(data) is bytes else bytes(data), lambda length: f.seek(place + length))


class Checkpoint:
    """One load: the storages that were created so far, and how to create others."""

    def __init__(self, source: Source, safe: dict, restore, mapped: bool) -> None:
        self._source = source
        self._restore = restore
        self._mapped = mapped
        self._swapped = False
        self._storages: dict = {}
        self._slices: dict = {}
        self._safe = safe
        # Set by `_open` or `_locate_legacy`, depending on the format.
        self._reader: Any = None
        self._legacy: Any = None
        self._map: _C._FileMap | None = None

    def read(self):
        """Loads without executing code."""
        allowed = list(self._safe)
        callbacks = (self._find_safe, self._load_storage, set_state)
        if self._open():
            data = translated(lambda: self._reader.read("data.pkl"))
            if not data:
                raise EOFError("Ran out of input: the checkpoint's data.pkl is empty")
            return translated(lambda: _C._unpickle(data, allowed, *callbacks)[0])
        data = self._source.data()
        if not data:
            raise EOFError("Ran out of input: the file is empty")
        self._locate_legacy(data)
        return translated(lambda: _C._unpickle(data[self._legacy.start :], allowed, *callbacks)[0])

    def execute(self, pickle_module, options: dict):
        """Loads with Python's unpickler, which executes code in the file."""
        checkpoint = self

        class Unpickler(pickle_module.Unpickler):
            def find_class(self, module, name):
                known = find_known(module, name)
                if known is not None:
                    return known
                return super().find_class(*home(module, name))

            def persistent_load(self, saved):
                return checkpoint._load_storage(*saved[1:5])

        if self._open():
            data = translated(lambda: self._reader.read("data.pkl"))
            return Unpickler(io.BytesIO(data), **options).load()
        from .legacy_format import execute

        found, length = execute(self._source.data(), pickle_module, options, self._restore)
        self._source.end(length)
        return found

    def _open(self) -> bool:
        """Opens the archive. Returns False for the legacy format, which is not an archive."""
        if not self._source.is_zip:
            if self._mapped:
                raise RuntimeError(
                    f"mmap can only be used with files saved with `torch.save({self._source.path}, "
                    "_use_new_zipfile_serialization=True), please torch.save your checkpoint with this option in "
                    "order to use mmap."
                )
            return False
        self._reader = translated(self._source.reader)
        names = self._reader.names()
        if "version" not in names:
            raise RuntimeError(
                'Expected hasRecord("version") to be true, but got false.  (Could this error message be improved?  '
                "If so, please report an enhancement request to PyTorch.)\nThe file is a zip archive but not a checkpoint."
            )
        if "constants.pkl" in names:
            raise RuntimeError("the file holds a TorchScript program, not a checkpoint: use torch.jit.load")
        self._swapped = self._byteorder(names) != sys.byteorder
        return True

    def _byteorder(self, names) -> str:
        if "byteorder" not in names:
            order = config.load.endianness or LoadEndianness.NATIVE
            return sys.byteorder if order is LoadEndianness.NATIVE else order.name.lower()
        found = translated(lambda: self._reader.read("byteorder"))
        if found not in (b"little", b"big"):
            raise ValueError("Unknown endianness type: " + found.decode(errors="replace"))
        return found.decode()

    def _find_safe(self, module: str, name: str):
        full = f"{module}.{name}"
        if full in self._safe:
            return self._safe[full]
        found = find_known(module, name)
        return Global(module, name) if found is None else found

    def _load_storage(self, kind, key: str, location: str, elements: int, view: tuple[str, int, int] | None = None):
        if key not in self._storages:
            if not isinstance(kind, StorageClass):
                raise TypeError(f"the class of a storage cannot be {kind!r}")
            read = self._read_record if self._reader is not None else self._read_legacy
            storage = self._restore(read(key, elements, kind.dtype), location)
            self._storages[key] = TypedStorage(wrap_storage=storage, dtype=kind.dtype)
        whole = self._storages[key]
        return whole if view is None else part(self._slices, whole, view)

    def _read_record(self, key: str, elements: int, dtype):
        name = f"data/{key}"
        offset, size = translated(lambda: self._reader.range(name))
        _check_size(size, elements, dtype)
        if skipping_data():
            return torch.UntypedStorage(size)
        unit = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        swapped = self._swapped and unit > 1
        if self._mapped and size and offset % dtype.itemsize == 0 and not swapped:
            return self._mapping().storage(offset, size)
        storage = torch.UntypedStorage(size)
        if size:
            translated(lambda: self._reader.read_into(name, memoryview(storage)))
        return _byteswapped(storage, unit) if swapped else storage

    def _mapping(self):
        """Maps the file into memory. Writes stay in this process, unless the settings say otherwise."""
        if self._map is None:
            self._map = _C._FileMap(os.fspath(self._source.path), config.load.mmap_flags == mmap.MAP_SHARED)
        return self._map

    def _locate_legacy(self, data: bytes) -> None:
        """Finds the bytes of each storage in the legacy format: a number of elements, followed by the bytes."""
        self._legacy = translated(lambda: _C._legacy_layout(data))
        self._legacy_bytes = {}
        rest = memoryview(data)[self._legacy.storages :]
        for key in self._legacy.keys:
            kind = find_known(*self._legacy.classes.get(key, ("", "")))
            if not isinstance(kind, StorageClass):
                raise RuntimeError(f"the checkpoint does not describe its storage {key}")
            size = int.from_bytes(rest[:8], "little") * kind.dtype.itemsize
            if len(rest) < 8 + size:
                raise RuntimeError(
                    f"unexpected EOF, expected {8 + size - len(rest)} more bytes. The file might be corrupted."
                )
            self._legacy_bytes[key] = rest[8 : 8 + size]
            rest = rest[8 + size :]
        self._source.end(len(data) - len(rest))

    def _read_legacy(self, key: str, elements: int, dtype):
        content = self._legacy_bytes.get(key)
        if content is None:
            raise RuntimeError(f"the checkpoint does not contain its storage {key}. The file might be corrupted.")
        _check_size(len(content), elements, dtype)
        storage = torch.UntypedStorage(len(content))
        if content and not skipping_data():
            memoryview(storage)[:] = content
        return storage


def _byteswapped(storage, unit: int):
    """Swaps the byte order of a storage of numbers with `unit` bytes."""
    bytes_ = torch.empty(0, dtype=torch.uint8).set_(storage)
    return bytes_.view(-1, unit).flip(1).untyped_storage()


def _check_size(size: int, elements: int, dtype) -> None:
    expected = elements * dtype.itemsize
    if size != expected:
        raise RuntimeError(
            f"record size ({size} bytes) does not match expected size ({expected} bytes = {expected} elements * 1 "
            f"bytes/element) for dtype Byte\nThe checkpoint says that the storage has {elements} elements of {dtype}."
        )

"""`save` and `load`: checkpoints in torch's zip format, both ways.

Loading executes nothing by default. The engine interprets the pickle's opcodes and refuses every name that is not
on a short list; what is left are plain values, and calls to the functions of `_checkpoint/rebuild.py`, which check
what they are given. Only `weights_only=False` hands the file to Python's own unpickler.

Saving goes through Python's pickler in its pure form, since only that can write torch's names for our classes; it
sees tensors as the few values that describe them, their bytes are records of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import mmap as mapping
import os
import pickle
import stat
import sys
from typing import Any

import rushlight as torch
from rushlight import _C
from rushlight._homes import adopt
from rushlight._warnings import warn

from ._checkpoint.errors import translated
from ._checkpoint.inspect import unknown_globals
from ._checkpoint.locations import default_restore_location, location_tag, register_package, restorer
from ._checkpoint.options import (
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    only_weights,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
    skipping_data,
)
from ._checkpoint.pickler import Global, Pickler
from ._checkpoint.rebuild import find_known, home
from ._checkpoint.storage_classes import StorageClass
from ._replacing import replacing
from ._utils import set_state
from .storage import TypedStorage
from .utils.serialization import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    _File: TypeAlias = str | os.PathLike[str] | Any

__all__ = [
    "LoadEndianness",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]

DEFAULT_PROTOCOL = 2
_ZIP_MAGIC = b"PK\x03\x04"


def save(
    obj: Any,
    f: _File,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
    *,
    compact: bool = False,
) -> None:
    """Writes ``obj`` to the path or file object ``f``, so that `load` (here or in torch) finds it again.

    Views keep sharing their storage, and a view of a large storage brings all of it along; ``compact=True`` saves
    only what each tensor shows. A path is replaced at once, when everything has been written: whoever is killed meanwhile
    leaves the old file.

    Args:
        obj: tensors, modules' `state_dict`, or any objects around them that can be pickled.
        f: a path, or a file object with ``write``.
        pickle_module: Python's own pickle.
        pickle_protocol: its protocol.
        compact: whether tensors are saved without the rest of their storage; then views are saved apart.

    Raises:
        RuntimeError: another pickle, or the format before torch 1.6.
        AttributeError: ``f`` is neither a path nor a file.
        pickle.PicklingError: an object that cannot be pickled.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.tensor([1.0, 2.0])}, file)
    >>> torch.load(io.BytesIO(file.getvalue()))
    {'weight': tensor([1., 2.])}
    """
    if not _use_new_zipfile_serialization:
        raise RuntimeError("rushlight reads the format before torch 1.6 but does not write it")
    if pickle_module is not pickle and pickle_module.__name__ not in ("pickle", "_pickle"):
        raise RuntimeError(f"save only works with Python's own pickle, not with {pickle_module.__name__}")
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if hasattr(f, "write"):
        _write(f, "archive", obj, pickle_protocol, compact, not _disable_byteorder_record)
        return
    path = os.fspath(f)
    folder = os.path.splitext(os.path.basename(path))[0]
    if not (folder and folder.isascii()):
        folder = "archive"
    with replacing(path) as target:
        _write(target, folder, obj, pickle_protocol, compact, not _disable_byteorder_record)


def _write(target, folder: str, obj: object, protocol: int, compact: bool, byteorder: bool) -> None:
    data = io.BytesIO()
    pickler = Pickler(data, protocol, compact)
    pickler.dump(obj)
    alignment = config.save.storage_alignment
    writer = translated(lambda: _C._CheckpointWriter(target, folder, alignment))
    writer.record("data.pkl", data.getvalue())
    writer.record(".format_version", b"1")
    writer.record(".storage_alignment", str(alignment).encode())
    if byteorder:
        writer.record("byteorder", sys.byteorder.encode())
    for number, storage in enumerate(pickler.storages):
        writer.record(f"data/{number}", _content(storage))
    writer.record("version", b"3\n")
    content = hashlib.blake2b(repr(writer.checksums()).encode(), digest_size=16).digest()
    writer.record(".data/serialization_id", f"{int.from_bytes(content, 'little'):040d}".encode()[:40])
    writer.finish()
    if hasattr(target, "flush"):
        target.flush()


def _content(storage):
    """The bytes of a storage, or as many zeros, which take no memory."""
    if skipping_data() and storage.nbytes():
        return memoryview(mapping.mmap(-1, storage.nbytes(), mapping.MAP_PRIVATE))
    return memoryview(storage if storage.device.type == "cpu" else storage.cpu())


# --- safe globals ------------------------------------------------------------------------------------------------------

_safe_globals: list = []


def add_safe_globals(safe_globals: list) -> None:
    """Allows `load` to build objects of these classes, or call these functions; a pair of an object and its name
    allows it under that name.

    >>> from fractions import Fraction
    >>> torch.serialization.add_safe_globals([Fraction])
    >>> torch.serialization.get_safe_globals()
    [<class 'fractions.Fraction'>]
    >>> torch.serialization.clear_safe_globals()
    """
    _safe_globals.extend(safe_globals)


def get_safe_globals() -> list:
    """What `add_safe_globals` allowed so far, as a list of its own.

    >>> torch.serialization.get_safe_globals()
    []
    """
    return list(_safe_globals)


def clear_safe_globals() -> None:
    """Takes back what `add_safe_globals` allowed.

    >>> torch.serialization.clear_safe_globals()
    """
    _safe_globals.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list) -> Iterator[None]:
    """`add_safe_globals` for a block.

    >>> from fractions import Fraction
    >>> with torch.serialization.safe_globals([Fraction]):
    ...     torch.serialization.get_safe_globals()
    [<class 'fractions.Fraction'>]
    """
    before = list(_safe_globals)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe_globals[:] = before


def _safe_names() -> dict:
    names = {}
    for entry in _safe_globals:
        if isinstance(entry, tuple):
            names[entry[1]] = entry[0]
            continue
        name = f"{entry.__module__}.{entry.__qualname__}"
        names[name] = entry
        if name.startswith("rushlight."):
            names["torch" + name[len("rushlight") :]] = entry
    return names


def get_unsafe_globals_in_checkpoint(f: _File) -> list[str]:
    """The names that keep `load` from reading the file, for inspection; nothing is built or called.

    Raises:
        ValueError: the file is no zip archive: not one of `save`'s.

    >>> import io
    >>> from fractions import Fraction
    >>> file = io.BytesIO()
    >>> torch.save(Fraction(1, 2), file)
    >>> torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(file.getvalue()))
    ['fractions.Fraction']
    """
    with _opened(f) as source:
        if not source.is_zip:
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        found = unknown_globals(translated(lambda: source.reader().read("data.pkl")))
    known = _safe_names()
    return sorted({name for name in found if name not in known})


# --- loading -----------------------------------------------------------------------------------------------------------


def load(
    f: _File,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads what `save` (here or in torch) wrote to the path or file object ``f``.

    By default nothing in the file is executed: it may hold tensors, numbers, strings, dicts, lists and their like, and
    what `add_safe_globals` allows.

    Args:
        f: a path, or a file object that can be read and sought.
        map_location: where storages go: a device, its name, a dict from name to name, or a function of a storage and the
            device that the file names.
        pickle_module: what executes the file where ``weights_only`` is false.
        weights_only: False executes whatever the file says: only for files that you trust.
        mmap: True maps the file of a path instead of reading it: writes to such tensors stay in this process
            (`set_default_mmap_options` can say otherwise). Where somebody else shortens the file meanwhile, the next call that
            reads the tensor raises. What is not given here, `torch.utils.serialization.config` says.
        pickle_load_args: for ``pickle_module``.

    Raises:
        FileNotFoundError: no such file.
        pickle.UnpicklingError: the file holds what would have to be executed; the message names it.
        RuntimeError: the file is damaged, or a TorchScript program.
        EOFError: the file is empty.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save([torch.arange(3), "three"], file)
    >>> torch.load(io.BytesIO(file.getvalue()), map_location="cpu")
    [tensor([0, 1, 2]), 'three']
    """
    weights_only = only_weights(weights_only, pickle_module)
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if weights_only and pickle_load_args:
        warn("pickle_load_args only works if `weights_only=False`.")
    mmap = config.load.mmap if mmap is None else mmap
    if isinstance(f, (str, os.PathLike)):
        if os.fspath(f).endswith(".safetensors"):
            return _load_safetensors(f, map_location)
    elif mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    with _opened(f) as source:
        checkpoint = _Checkpoint(source, restorer(map_location), bool(mmap))
        if not weights_only:
            return checkpoint.execute(pickle_module or pickle, pickle_load_args)
        return checkpoint.read()


def _load_safetensors(path, map_location):
    from .safetensors import load_file

    kind = "dict" if isinstance(map_location, dict) else "callable" if callable(map_location) else None
    if kind is not None:
        raise RuntimeError(
            f"Loading safetensors file with {kind} map_location is not supported. Use a device string or torch.device "
            "instead."
        )
    return load_file(path, "cpu" if map_location is None else map_location)


_ENDLESS = (stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK)


class _Source:
    """A path or a file object that is to be loaded."""

    def __init__(self, path, data, leave=None) -> None:
        self.path = path
        self._data = data
        self._leave = leave
        if path is not None and stat.S_IFMT(os.stat(path).st_mode) in _ENDLESS:
            raise pickle.UnpicklingError(f"{path} is a device or a pipe, not a file: what it gives may have no end")
        self.is_zip = self.head() == _ZIP_MAGIC

    def head(self) -> bytes:
        if self.path is None:
            return self._data[:4]
        with open(self.path, "rb") as file:
            return file.read(4)

    def reader(self):
        return _C._CheckpointReader(self._data if self.path is None else self.path)

    def end(self, length: int) -> None:
        """The checkpoint has as many bytes: what follows them in a file object is another one's."""
        if self._leave is not None:
            self._leave(length)

    def data(self) -> bytes:
        if self.path is None:
            return self._data
        with open(self.path, "rb") as file:
            return file.read()


@contextlib.contextmanager
def _opened(f):
    if isinstance(f, (str, os.PathLike)):
        yield _Source(os.fspath(f), None)
        return
    try:
        seek, place = f.seek, f.tell()
        seek(place)
        # The contents of a buffer are its own bytes, where reading would copy them.
        data = f.getvalue() if type(f) is io.BytesIO and place == 0 else f.read()
        if isinstance(data, str):
            raise AssertionError(
                "Expected bytes, got str: the file must be opened for reading bytes, as by open(path, 'rb')"
            )
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the data into a buffer "
            "like io.BytesIO and try to load from it instead."
        ) from None
    yield _Source(None, data if type(data) is bytes else bytes(data), lambda length: f.seek(place + length))


class _Checkpoint:
    """One load: the storages that have been made so far, and how to make more."""

    def __init__(self, source: _Source, restore, mapped: bool) -> None:
        self._source = source
        self._restore = restore
        self._mapped = mapped
        self._swapped = False
        self._storages: dict = {}
        self._safe = _safe_names()
        # What `_open` and `_locate_legacy` find: one of the two, by the format.
        self._reader: Any = None
        self._legacy: Any = None
        self._map: _C._FileMap | None = None

    def read(self):
        """Without executing anything."""
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
        """With Python's unpickler, which runs what the file says."""
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
        data = self._source.data()
        self._locate_legacy(data)
        return Unpickler(io.BytesIO(data[self._legacy.start :]), **options).load()

    def _open(self) -> bool:
        """Opens the archive; False for the old format, which is none."""
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
                "If so, please report an enhancement request to PyTorch.)\nThe file is a zip archive but no checkpoint."
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

    def _load_storage(self, kind, key: str, location: str, elements: int):
        if key not in self._storages:
            if not isinstance(kind, StorageClass):
                raise TypeError(f"the class of a storage cannot be {kind!r}")
            read = self._read_record if self._reader is not None else self._read_legacy
            storage = self._restore(read(key, elements, kind.dtype), location)
            self._storages[key] = TypedStorage(storage, kind.dtype)
        return self._storages[key]

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
        return _turned(storage, unit) if swapped else storage

    def _mapping(self):
        """The file as memory: private, so that what is written to it stays in this process, unless the settings differ."""
        if self._map is None:
            self._map = _C._FileMap(os.fspath(self._source.path), config.load.mmap_flags == mapping.MAP_SHARED)
        return self._map

    def _locate_legacy(self, data: bytes) -> None:
        """Finds the bytes of each storage: a count of elements, then they follow."""
        self._legacy = translated(lambda: _C._legacy_layout(data))
        self._legacy_bytes = {}
        rest = memoryview(data)[self._legacy.storages :]
        for key in self._legacy.keys:
            kind = find_known(*self._legacy.classes.get(key, ("", "")))
            if not isinstance(kind, StorageClass):
                raise RuntimeError(f"the checkpoint does not say what its storage {key} consists of")
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
            raise RuntimeError(f"the checkpoint does not hold its storage {key}. The file might be corrupted.")
        _check_size(len(content), elements, dtype)
        storage = torch.UntypedStorage(len(content))
        if content and not skipping_data():
            memoryview(storage)[:] = content
        return storage


def _turned(storage, unit: int):
    """A storage whose numbers of `unit` bytes have the other byte order."""
    bytes_ = torch.empty(0, dtype=torch.uint8).set_(storage)
    return bytes_.view(-1, unit).flip(1).untyped_storage()


def _check_size(size: int, elements: int, dtype) -> None:
    expected = elements * dtype.itemsize
    if size != expected:
        raise RuntimeError(
            f"record size ({size} bytes) does not match expected size ({expected} bytes = {expected} elements * 1 "
            f"bytes/element) for dtype Byte\nThe checkpoint says that the storage has {elements} elements of {dtype}."
        )


def __dir__() -> list[str]:
    return __all__


adopt(globals())

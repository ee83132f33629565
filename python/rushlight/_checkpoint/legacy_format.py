"""The format before torch 1.6: five pickles (a magic number, a version, the writer's platform, the object, the keys of its
storages), then each storage as a count of elements and its bytes.

Files are written here, and read if they may execute code. Otherwise the engine reads them.
"""

import io
import pickle
import sys
from typing import Any

import rushlight as torch
from rushlight.storage import TypedStorage

from .options import skipping_data
from .pickler import Pickler
from .rebuild import find_known, home
from .storage_classes import StorageClass
from .writer import bytes_of

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
SHORT_SIZE, INT_SIZE, LONG_SIZE = 2, 4, 4
_COUNT = 8


class _LegacyPickler(Pickler):
    """Names storages as the old format does: the persistent id has a place for a slice of another storage."""

    def persistent_id(self, obj):
        found = super().persistent_id(obj)
        if found is None:
            return None
        if found[1].name == "UntypedStorage":
            raise RuntimeError(
                "the format before torch 1.6 has no storages without a dtype, and none of "
                "dtypes that are newer than the format"
            )
        return *found, None


def write(target, obj: object, protocol: int, compact: bool) -> None:
    """Writes an object to a path or a file."""
    if not hasattr(target, "write"):
        with open(target, "wb") as file:
            write(file, obj, protocol, compact)
        return
    body = io.BytesIO()
    pickler = _LegacyPickler(body, protocol, compact)
    pickler.dump(obj)
    platform = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": SHORT_SIZE, "int": INT_SIZE, "long": LONG_SIZE},
    }
    for head in (MAGIC_NUMBER, PROTOCOL_VERSION, platform):
        target.write(pickle.dumps(head, protocol))
    target.write(body.getvalue())
    keys = sorted(map(str, range(len(pickler.storages))))
    target.write(pickle.dumps(keys, protocol))
    for key in keys:
        storage = pickler.storages[int(key)]
        elements = storage.nbytes() // pickler.item_sizes[int(key)]
        target.write(elements.to_bytes(_COUNT, sys.byteorder))
        target.write(bytes_of(storage))
    if hasattr(target, "flush"):
        target.flush()


def execute(data: bytes, pickle_module: Any, options: dict, restore: Any) -> tuple[Any, int]:
    """Reads an object with Python's unpickler, which executes code in the file. Returns it and the size of its file."""
    file = io.BytesIO(data)
    if not data:
        raise EOFError("Ran out of input: the file is empty")
    if pickle_module.load(file, **options) != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = pickle_module.load(file, **options)
    if version != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {version}")
    if not pickle_module.load(file, **options).get("little_endian", True):
        raise RuntimeError("checkpoints of big-endian machines cannot be read")
    storages, length = _read_storages(data, file.tell(), pickle_module, options)
    restored: dict[str, TypedStorage] = {}
    slices: dict[str, TypedStorage] = {}

    class Unpickler(pickle_module.Unpickler):
        def find_class(self, module, name):
            known = find_known(module, name)
            return super().find_class(*home(module, name)) if known is None else known

        def persistent_load(self, saved):
            kind, *rest = saved
            if _text(kind) == "module":  # a class, with its source
                return rest[0]
            _, key, location, _, *view = rest
            key = _text(key)
            if key not in restored:
                storage, dtype = storages[key]
                restored[key] = TypedStorage(wrap_storage=restore(storage, _text(location)), dtype=dtype)
            if not view or view[0] is None:
                return restored[key]
            name, start, count = view[0]
            return part(slices, restored[key], (_text(name), start, count))

    return Unpickler(file, **options).load(), length


class _Inert(type):
    """What the first pass over an object makes of each name in it: a class that is also its own instances."""

    def __call__(cls, *arguments, **options):
        return cls

    def __setitem__(cls, key, value):
        """Keeps nothing."""


class _Nothing(metaclass=_Inert):
    def __new__(cls, *arguments, **options):
        return cls

    @staticmethod
    def append(*items):
        """Keeps nothing. Pickles also call it by these other names."""

    __setstate__ = extend = add = append


def _read_storages(data, start, pickle_module, options):
    """The filled storages with their dtypes, by key, and the size of the file.

    They lie behind the object, which needs them: indices, scales and sizes are checked when their tensor is made. So the object is
    read twice. The first time nothing in it is called.
    """
    storages: dict[str, tuple[torch.UntypedStorage, torch.dtype]] = {}

    class Unpickler(pickle_module.Unpickler):
        def find_class(self, module, name):
            known = find_known(module, name)
            return known if isinstance(known, StorageClass) else _Nothing

        def persistent_load(self, saved):
            kind, *rest = saved
            if _text(kind) not in ("module", "storage"):
                raise RuntimeError(f"Unknown saved id type: {kind}")
            if _text(kind) == "storage":
                kind, key, _, elements, *_ = rest
                if not isinstance(kind, StorageClass):
                    raise TypeError(f"the class of a storage cannot be {kind!r}")
                if _text(key) not in storages:
                    storages[_text(key)] = torch.UntypedStorage(elements * kind.dtype.itemsize), kind.dtype
            return _Nothing

    file = io.BytesIO(data)
    file.seek(start)
    Unpickler(file, **options).load()
    keys = [_text(key) for key in pickle_module.load(file, **options)]
    if missing := storages.keys() - set(keys):
        raise RuntimeError(f"the checkpoint does not contain its storage {min(missing)}. The file might be corrupted.")
    rest = memoryview(data)[file.tell() :]
    for key in keys:
        if key not in storages:
            raise RuntimeError(f"the checkpoint does not describe its storage {key}")
        storage, dtype = storages[key]
        size = int.from_bytes(rest[:_COUNT], "little") * dtype.itemsize
        if size != storage.nbytes() or len(rest) < _COUNT + size:
            raise RuntimeError(
                f"unexpected EOF, expected {max(0, _COUNT + size - len(rest))} more bytes. The file might be corrupted."
            )
        if size and not skipping_data():
            memoryview(storage)[:] = rest[_COUNT : _COUNT + size]
        rest = rest[_COUNT + size :]
    return storages, len(data) - len(rest)


def part(slices: dict[str, TypedStorage], whole: TypedStorage, view: tuple[str, int, int]) -> TypedStorage:
    """The slice of a storage with a name, a start and a count. Slices of one name are one storage."""
    name, start, count = view
    if not 0 <= start <= start + count <= len(whole):
        raise RuntimeError(f"the slice {name} lies outside of its storage. The file might be corrupted.")
    if name not in slices:
        size = whole.dtype.itemsize
        elements = whole.untyped()[start * size : (start + count) * size]
        slices[name] = TypedStorage(wrap_storage=elements, dtype=whole.dtype)
    return slices[name]


def _text(value: Any) -> Any:
    """A string. Python 2 wrote some as bytes."""
    return value.decode("ascii") if isinstance(value, bytes) else value

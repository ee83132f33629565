"""`save` and `load`: checkpoints in torch's zip format, both ways.

Loading executes nothing by default. The engine interprets the pickle's opcodes and refuses every name that is not
on a short list; what is left are plain values, and calls to the functions of `_CALLS` below, which check what
they are given. Only `weights_only=False` hands the file to Python's own unpickler.

Saving goes through Python's pickler in its pure form, since only that can write torch's names for our classes; it
sees tensors as the few values that describe them, their bytes are records of their own.
"""

import collections
import contextlib
import ctypes
import hashlib
import io
import mmap as mapping
import os
import pickle
import stat
import sys
import tempfile
import warnings
from typing import NamedTuple

import rushlight as torch
from rushlight import _C

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "safe_globals",
    "save",
]

DEFAULT_PROTOCOL = 2
_ZIP_MAGIC = b"PK\x03\x04"
_BLOCKED_MODULES = ("sys", "os", "posix", "nt")

# The classes that stand for a dtype in a checkpoint. Other dtypes travel as bytes with their name beside them.
_STORAGE_DTYPES = {
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "HalfStorage": "float16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "BFloat16Storage": "bfloat16",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
_STORAGE_NAMES = {dtype: name for name, dtype in _STORAGE_DTYPES.items()}


class _TypedStorage(NamedTuple):
    """A storage as checkpoints know it: bytes, and the dtype they are counted in."""

    untyped_storage: object
    dtype: object

    def untyped(self):
        return self.untyped_storage


class _StorageClass(NamedTuple):
    """What `torch.FloatStorage` and its like are to a checkpoint."""

    dtype: object


def _bytes_of(storage):
    """The memory of a storage as a writable buffer; the storage must outlive it."""
    return (ctypes.c_ubyte * storage.nbytes()).from_address(storage.data_ptr())


# --- saving --------------------------------------------------------------------------------------------------


def save(
    obj,
    f,
    pickle_module=pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
    *,
    compact: bool = False,
) -> None:
    """Writes `obj` to the path or file object `f`, so that `load` (here or in torch) finds it again.

    Views keep sharing their storage, and a view of a large storage brings all of it along; `compact=True` saves
    only what each tensor shows. A path is replaced at once, when everything has been written.
    """
    if not _use_new_zipfile_serialization:
        raise RuntimeError("rushlight reads the format before torch 1.6 but does not write it")
    if pickle_module is not pickle and pickle_module.__name__ not in ("pickle", "_pickle"):
        raise RuntimeError(f"save only works with Python's own pickle, not with {pickle_module.__name__}")
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    data = io.BytesIO()
    pickler = _Pickler(data, pickle_protocol, compact)
    pickler.dump(obj)
    if hasattr(f, "write"):
        _write_archive(f, "archive", data.getvalue(), pickler.storages, not _disable_byteorder_record)
        return
    path = os.path.realpath(os.fspath(f))
    folder = os.path.splitext(os.path.basename(os.fspath(f)))[0]
    with _replacing(path) as target:
        _write_archive(
            target, folder if folder.isascii() and folder else "archive", data.getvalue(), pickler.storages,
            not _disable_byteorder_record,
        )


@contextlib.contextmanager
def _replacing(path: str):
    """A path beside the final one, renamed to it at the end: nobody ever sees half a file."""
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        raise RuntimeError(f"Parent directory {parent} does not exist.")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory")
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        yield path  # a pipe or a device cannot be replaced
        return
    handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=parent)
    os.close(handle)
    try:
        yield temporary
        os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _write_archive(target, folder: str, data: bytes, storages, byteorder: bool) -> None:
    writer = _C._CheckpointWriter(target, folder)
    writer.record("data.pkl", data)
    writer.record(".format_version", b"1")
    writer.record(".storage_alignment", b"64")
    if byteorder:
        writer.record("byteorder", sys.byteorder.encode())
    for number, storage in enumerate(storages):
        on_host = storage if storage.device.type == "cpu" else storage.cpu()
        writer.record(f"data/{number}", _bytes_of(on_host) if on_host.nbytes() else b"")
    writer.record("version", b"3\n")
    content = hashlib.blake2b(repr(writer.checksums()).encode(), digest_size=16).digest()
    writer.record(".data/serialization_id", f"{int.from_bytes(content, 'little'):040d}".encode()[:40])
    writer.finish()
    if hasattr(target, "flush"):
        target.flush()


class _Global:
    """A name that the pickle shall hold, whatever object it stands for here."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *_):
        raise TypeError(f"{self.module}.{self.name} is a name in a checkpoint")


_GLOBALS: dict = {}


def _named(module: str, name: str) -> _Global:
    """One object per name, so that the pickle writes it once."""
    return _GLOBALS.setdefault((module, name), _Global(module, name))


class _StorageReference:
    """A storage on its way into the pickle: its persistent id."""

    def __init__(self, kind: _Global, key: str, location: str, elements: int) -> None:
        self.id = ("storage", kind, key, location, elements)


class _Pickler(pickle._Pickler):
    def __init__(self, file, protocol: int, compact: bool) -> None:
        super().__init__(file, protocol)
        self.storages: list = []
        self._compact = compact
        self._keys: dict = {}  # address and size -> key, dtype

    def persistent_id(self, obj):
        return obj.id if isinstance(obj, _StorageReference) else None

    def reducer_override(self, obj):
        if isinstance(obj, torch.Tensor):
            return self._reduce_tensor(obj)
        if isinstance(obj, torch.UntypedStorage):
            raise RuntimeError("save takes tensors; wrap the storage in one")
        if isinstance(obj, _Global):
            return obj.name
        if isinstance(obj, torch.dtype):
            return str(obj).rpartition(".")[2]
        if isinstance(obj, torch.Size):
            return _named("torch", "Size"), (tuple(obj),)
        if isinstance(obj, torch.device):
            return _named("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def save_global(self, obj, name=None):
        module, name = _checkpoint_name(obj, name)
        if module is None:
            super().save_global(obj, name)
            return
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    # The base class finds types through this table before it would ask `save_global`.
    dispatch = {**pickle._Pickler.dispatch}

    def save_type(self, obj):
        if obj in (type(None), type(NotImplemented), type(...)):
            super().save_type(obj)
        else:
            self.save_global(obj)

    dispatch[type] = save_type

    def _reduce_tensor(self, tensor):
        kind = type(tensor)
        state = dict(getattr(tensor, "__dict__", None) or {})
        if isinstance(tensor, torch.nn.Parameter):
            arguments = (tensor.data, tensor.requires_grad, collections.OrderedDict())
            if state:
                return _named("torch._utils", "_rebuild_parameter_with_state"), (*arguments, state)
            return _named("torch._utils", "_rebuild_parameter"), arguments
        function, arguments = self._describe(tensor)
        if kind is torch.Tensor and not state:
            return function, arguments
        return _named("torch._tensor", "_rebuild_from_type_v2"), (function, kind, arguments, state)

    def _describe(self, tensor):
        """The function that rebuilds the tensor, and its arguments."""
        if tensor.layout is not torch.strided:
            layout = str(tensor.layout)
            if layout != "torch.sparse_coo":
                raise NotImplementedError(f"save does not know the layout {layout}")
            parts = (tensor._indices(), tensor._values(), torch.Size(tensor.shape), tensor.is_coalesced())
            return _named("torch._utils", "_rebuild_sparse_tensor"), (_Layout(layout), parts)
        if tensor.device.type == "meta":
            shape = (tensor.dtype, tuple(tensor.size()), tuple(tensor.stride()), tensor.requires_grad)
            return _named("torch._utils", "_rebuild_meta_tensor_no_storage"), shape
        _warn_of_hooks(tensor)
        requires_grad = tensor.requires_grad
        tensor = tensor.detach()
        if tensor.is_complex() and tensor.is_conj():
            tensor = tensor.resolve_conj()
        if tensor.is_neg():
            tensor = tensor.resolve_neg()
        stride = tuple(tensor.stride())
        if self._compact or any(step < 0 for step in stride):
            # torch knows no negative strides, so such a view travels as a copy.
            tensor = tensor.clone(memory_format=torch.contiguous_format)
            stride = tuple(tensor.stride())
        name = str(tensor.dtype).rpartition(".")[2]
        typed = name in _STORAGE_NAMES
        reference = self._storage(tensor, name if typed else None)
        arguments = (reference, tensor.storage_offset(), tuple(tensor.size()), stride, requires_grad)
        arguments += (collections.OrderedDict(),)
        if typed:
            return _named("torch._utils", "_rebuild_tensor_v2"), arguments
        return _named("torch._utils", "_rebuild_tensor_v3"), (*arguments, tensor.dtype)

    def _storage(self, tensor, dtype) -> _StorageReference:
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        # Empty storages may share an address without being one.
        place = (storage.data_ptr(), size) if size else object()
        key, known = self._keys.setdefault(place, (str(len(self.storages)), dtype))
        if known != dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        if int(key) == len(self.storages):
            # Kept alive until it is written: an address is only an identity for the living.
            self.storages.append(storage)
        kind = _named("torch", _STORAGE_NAMES[dtype]) if dtype else _named("torch.storage", "UntypedStorage")
        elements = size // tensor.element_size() if dtype else size
        return _StorageReference(kind, key, location_tag(storage), elements)


class _Layout:
    """A layout, pickled by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self):
        return _named("torch.serialization", "_get_layout"), (self.name,)


def _checkpoint_name(obj, name):
    """torch's name of an object of ours; (None, name) for all others."""
    if isinstance(obj, _Global):
        return obj.module, obj.name
    if isinstance(obj, torch.dtype):
        return "torch", name
    if obj is torch.Tensor:
        return "torch", "Tensor"
    module = getattr(obj, "__module__", None) or ""
    if module == "rushlight" or module.startswith("rushlight."):
        return "torch" + module[len("rushlight") :], name or obj.__qualname__
    return None, name


def _warn_of_hooks(tensor) -> None:
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        warnings.warn(
            f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
            "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
            stacklevel=4,
        )


# --- where storages go -----------------------------------------------------------------------------------------


def location_tag(storage) -> str:
    """The place of a storage as a checkpoint records it."""
    device = storage.device
    return device.type if device.type == "cpu" else str(device)


def default_restore_location(storage, location: str):
    """The storage, or its copy on the device that `location` names."""
    if location == "cpu":
        return storage
    if location == "meta":
        return torch.UntypedStorage(storage.nbytes(), device="meta")
    if location.partition(":")[0] == "cuda":
        if not torch.cuda.is_available():
            raise RuntimeError(
                "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
                "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map "
                "your storages to the CPU."
            )
        return storage.to(device=torch.device(location))
    raise RuntimeError(
        f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})"
    )


def _restorer(map_location):
    """`map_location` in any of its forms, as a function of storage and location."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, (str, bytes)):
        name = map_location.decode("ascii") if isinstance(map_location, bytes) else map_location
        return lambda storage, _: default_restore_location(storage, name)
    if isinstance(map_location, torch.device):
        return lambda storage, _: default_restore_location(storage, str(map_location))

    def restore(storage, location):
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return restore


# --- what a checkpoint may call --------------------------------------------------------------------------------


def _rebuild_tensor(storage, storage_offset, size, stride):
    return _view(storage, storage.dtype, storage_offset, size, stride)


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    tensor = _view(storage, storage.dtype, storage_offset, size, stride)
    if metadata:
        if metadata.get("conj"):
            tensor = tensor.conj()
        if metadata.get("neg"):
            tensor = tensor.neg()
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    tensor = _view(storage, dtype, storage_offset, size, stride)
    return tensor.requires_grad_() if requires_grad else tensor


def _view(storage, dtype, offset, size, stride):
    if not isinstance(storage, _TypedStorage):
        raise TypeError(f"a tensor needs a storage, got {type(storage).__name__}")
    untyped = storage.untyped_storage
    _check_extent(untyped.nbytes(), dtype, offset, size, stride)
    if untyped.device.type == "meta":
        return torch.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta")
    return torch.empty(0, dtype=dtype, device=untyped.device).set_(untyped, offset, tuple(size), tuple(stride))


def _check_extent(available: int, dtype, offset, size, stride) -> None:
    """A view must lie within its storage, or it would show memory that is not its own."""
    numbers = [offset, *size, *stride]
    if not all(type(number) is int and 0 <= number < 1 << 62 for number in numbers) or len(size) != len(stride):
        raise RuntimeError(f"the checkpoint describes an impossible tensor: size {size}, stride {stride}, offset {offset}")
    last = offset + sum((length - 1) * step for length, step in zip(size, stride))
    needed = 0 if 0 in size else (last + 1) * dtype.itemsize
    if needed > available:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize "
            f"{dtype.itemsize} requiring a storage size of {needed} are out of bounds for storage of size {available}"
        )


def _rebuild_parameter(data, requires_grad, backward_hooks):
    return torch.nn.Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return _set_state(torch.nn.Parameter(data, requires_grad), state)


def _rebuild_from_type_v2(function, kind, arguments, state):
    tensor = function(*arguments)
    if kind is not torch.Tensor and type(tensor) is not kind:
        tensor = tensor.as_subclass(kind)
    return _set_state(tensor, state)


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    return torch.empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad)


def _rebuild_sparse_tensor(layout, data):
    if layout != torch.sparse_coo:
        raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}")
    indices, values, size, *coalesced = data
    return torch.sparse_coo_tensor(indices, values, size, is_coalesced=coalesced[0] if coalesced else None)


def _get_layout(name: str):
    return {"torch.strided": torch.strided, "torch.sparse_coo": torch.sparse_coo}[name]


def _set_state(obj, state):
    """The state of an object: by its own method, or attribute by attribute (a dict, and slots beside it)."""
    if hasattr(obj, "__setstate__") and not isinstance(obj, (torch.Tensor, collections.OrderedDict)):
        obj.__setstate__(state)
        return obj
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for part in (attributes, slots):
        for name, value in (part or {}).items():
            setattr(obj, name, value)
    return obj


_CALLS = {
    "collections.Counter": lambda: collections.Counter,
    "collections.OrderedDict": lambda: collections.OrderedDict,
    "collections.defaultdict": lambda: collections.defaultdict,
    "builtins.dict": lambda: dict,
    "builtins.float": lambda: float,
    "builtins.int": lambda: int,
    "builtins.list": lambda: list,
    "torch.Size": lambda: torch.Size,
    "torch.Tensor": lambda: torch.Tensor,
    "torch.device": lambda: torch.device,
    "torch.nn.parameter.Parameter": lambda: torch.nn.Parameter,
    "torch.serialization._get_layout": lambda: _get_layout,
    "torch._tensor._rebuild_from_type_v2": lambda: _rebuild_from_type_v2,
    **{
        f"torch._utils.{function.__name__}": lambda function=function: function
        for function in (
            _rebuild_tensor,
            _rebuild_tensor_v2,
            _rebuild_tensor_v3,
            _rebuild_parameter,
            _rebuild_parameter_with_state,
            _rebuild_meta_tensor_no_storage,
            _rebuild_sparse_tensor,
        )
    },
}


def _find_known(module: str, name: str):
    """The object behind a name that checkpoints use; None if it is not ours."""
    full = f"{'builtins' if module == '__builtin__' else module}.{name}"
    if full in _CALLS:
        return _CALLS[full]()
    if full in ("torch.storage.UntypedStorage", "torch.UntypedStorage", "torch.storage.TypedStorage"):
        return _StorageClass(torch.uint8)
    if module == "torch" and name in _STORAGE_DTYPES:
        return _StorageClass(getattr(torch, _STORAGE_DTYPES[name]))
    if module == "torch" and isinstance(found := getattr(torch, name, None), torch.dtype):
        return found
    return None


# --- safe globals ------------------------------------------------------------------------------------------------

_safe_globals: list = []


def add_safe_globals(safe_globals: list) -> None:
    """Allows `load` to build objects of these classes, or call these functions; a pair of an object and its name
    allows it under that name."""
    _safe_globals.extend(safe_globals)


def get_safe_globals() -> list:
    return list(_safe_globals)


def clear_safe_globals() -> None:
    _safe_globals.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list):
    """`add_safe_globals` for a block."""
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


def get_unsafe_globals_in_checkpoint(f) -> list:
    """The names that keep `load` from reading the file, for inspection; nothing is built or called."""
    with _opened(f) as source:
        if not source.is_zip:
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        found = _C._pickle_globals(_translated(lambda: source.reader().read("data.pkl")))
    known = _safe_names()
    return sorted({name for name in found if name not in known})


# --- loading -----------------------------------------------------------------------------------------------------


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Reads what `save` (here or in torch) wrote to the path or file object `f`.

    By default nothing in the file is executed. `map_location` says where storages go (a device, its name, a dict
    from name to name, or a function); `mmap=True` maps the file of a path instead of reading it, writes to such
    tensors stay in this process.
    """
    if weights_only is None:
        weights_only = pickle_module is None
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if weights_only and pickle_load_args:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    with _opened(f) as source:
        checkpoint = _Checkpoint(source, _restorer(map_location), bool(mmap))
        if not weights_only:
            return checkpoint.execute(pickle_module or pickle, pickle_load_args)
        return checkpoint.read()


class _Source:
    """A path or a file object that is to be loaded."""

    def __init__(self, path, data) -> None:
        self.path = path
        self._data = data
        self.is_zip = self.head() == _ZIP_MAGIC

    def head(self) -> bytes:
        if self.path is None:
            return self._data[:4]
        with open(self.path, "rb") as file:
            return file.read(4)

    def reader(self):
        return _C._CheckpointReader(self._data if self.path is None else self.path)

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
        f.seek(f.tell())
        data = f.read()
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the data into a buffer "
            "like io.BytesIO and try to load from it instead."
        ) from None
    yield _Source(None, data if type(data) is bytes else bytes(data))


class _Checkpoint:
    """One load: the storages that have been made so far, and how to make more."""

    def __init__(self, source: _Source, restore, mapped: bool) -> None:
        self._source = source
        self._restore = restore
        self._mapped = mapped
        self._storages: dict = {}
        self._safe = _safe_names()
        self._reader = None
        self._map = None
        self._legacy = None

    def read(self):
        """Without executing anything."""
        allowed = list(self._safe)
        callbacks = (self._find_safe, self._load_storage, _set_state)
        if self._open():
            data = _translated(lambda: self._reader.read("data.pkl"))
            if not data:
                raise EOFError("Ran out of input: the checkpoint's data.pkl is empty")
            return _translated(lambda: _C._unpickle(data, allowed, *callbacks)[0])
        data = self._source.data()
        if not data:
            raise EOFError("Ran out of input: the file is empty")
        self._locate_legacy(data)
        return _translated(lambda: _C._unpickle(data[self._legacy.start :], allowed, *callbacks)[0])

    def execute(self, pickle_module, options: dict):
        """With Python's unpickler, which runs what the file says."""
        checkpoint = self

        class Unpickler(pickle_module.Unpickler):
            def find_class(self, module, name):
                known = _find_known(module, name)
                if known is not None:
                    return known
                if module == "torch" or module.startswith("torch."):
                    module = "rushlight" + module[len("torch") :]
                return super().find_class(module, name)

            def persistent_load(self, saved):
                return checkpoint._load_storage(*saved[1:5])

        if self._open():
            data = _translated(lambda: self._reader.read("data.pkl"))
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
        self._reader = _translated(self._source.reader)
        names = self._reader.names()
        if "version" not in names:
            raise RuntimeError(
                'Expected hasRecord("version") to be true, but got false.  (Could this error message be improved?  '
                "If so, please report an enhancement request to PyTorch.)\nThe file is a zip archive but no checkpoint."
            )
        if "constants.pkl" in names:
            raise RuntimeError("the file holds a TorchScript program, not a checkpoint: use torch.jit.load")
        if "byteorder" in names and self._reader.read("byteorder") != b"little":
            raise RuntimeError("checkpoints of big-endian machines cannot be read")
        return True

    def _find_safe(self, module: str, name: str):
        full = f"{module}.{name}"
        if full in self._safe:
            return self._safe[full]
        found = _find_known(module, name)
        return _Global(module, name) if found is None else found

    def _load_storage(self, kind, key: str, location: str, elements: int):
        if key not in self._storages:
            if not isinstance(kind, _StorageClass):
                raise TypeError(f"the class of a storage cannot be {kind!r}")
            read = self._read_record if self._reader is not None else self._read_legacy
            storage = self._restore(read(key, elements, kind.dtype), location)
            self._storages[key] = _TypedStorage(storage, kind.dtype)
        return self._storages[key]

    def _read_record(self, key: str, elements: int, dtype):
        name = f"data/{key}"
        offset, size = _translated(lambda: self._reader.range(name))
        _check_size(size, elements, dtype)
        if self._mapped and size and offset % dtype.itemsize == 0:
            return torch.frombuffer(self._mapping(), dtype=torch.uint8, count=size, offset=offset).untyped_storage()
        storage = torch.UntypedStorage(size)
        if size:
            _translated(lambda: self._reader.read_into(name, _bytes_of(storage)))
        return storage

    def _mapping(self):
        """The file as private memory: what is written to it stays in this process."""
        if self._map is None:
            with open(self._source.path, "rb") as file:
                self._map = mapping.mmap(file.fileno(), 0, access=mapping.ACCESS_COPY)
        return self._map

    def _locate_legacy(self, data: bytes) -> None:
        """Finds the bytes of each storage: a count of elements, then they follow."""
        self._legacy = _translated(lambda: _C._legacy_layout(data))
        self._legacy_bytes = {}
        rest = memoryview(data)[self._legacy.storages :]
        for key in self._legacy.keys:
            kind = _find_known(*self._legacy.classes.get(key, ("", "")))
            if not isinstance(kind, _StorageClass):
                raise RuntimeError(f"the checkpoint does not say what its storage {key} consists of")
            size = int.from_bytes(rest[:8], "little") * kind.dtype.itemsize
            if len(rest) < 8 + size:
                raise RuntimeError(
                    f"unexpected EOF, expected {8 + size - len(rest)} more bytes. The file might be corrupted."
                )
            self._legacy_bytes[key] = rest[8 : 8 + size]
            rest = rest[8 + size :]

    def _read_legacy(self, key: str, elements: int, dtype):
        content = self._legacy_bytes[key]
        _check_size(len(content), elements, dtype)
        storage = torch.UntypedStorage(len(content))
        if content:
            memoryview(_bytes_of(storage)).cast("B")[:] = content
        return storage


def _check_size(size: int, elements: int, dtype) -> None:
    if size != elements * dtype.itemsize:
        raise RuntimeError(
            f"record size ({size} bytes) does not match expected size ({elements * dtype.itemsize} bytes = "
            f"{elements} elements * {dtype.itemsize} bytes/element) for dtype {dtype}"
        )


# --- errors ------------------------------------------------------------------------------------------------------

_CORRUPT = (
    "This is an internal miniz error. If you are seeing this error, there is a high likelihood that your checkpoint "
    "file is corrupted. This can happen if the checkpoint was not saved properly, was transferred incorrectly, or the "
    "file was modified after saving."
)
_ADVICE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to "
    "`True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in "
    "arbitrary code execution. Do it only if you got the file from a trusted source."
)
_DOCUMENTATION = (
    "Check the documentation of torch.load to learn more about types accepted by default with weights_only "
    "https://pytorch.org/docs/stable/generated/torch.load.html."
)


def _translated(action):
    """Runs `action` and says in torch's classes and words what it finds wrong with the file."""
    try:
        return action()
    except _C._CheckpointError as error:
        kind, about = error.args
    if kind == "archive":
        raise RuntimeError(f"PytorchStreamReader failed reading zip archive: {about}. {_CORRUPT}")
    if kind == "missing":
        raise RuntimeError(f"PytorchStreamReader failed locating file {about}: file not found. {_CORRUPT}")
    if kind == "global":
        raise pickle.UnpicklingError(_unsupported_global(about))
    raise pickle.UnpicklingError(
        f"Weights only load failed. {_ADVICE}\nPlease file an issue with the following so that we can make "
        f"`weights_only=True` compatible with your use case: WeightsUnpickler error: \n\n{about}\n\n{_DOCUMENTATION}"
    )


def _unsupported_global(name: str) -> str:
    module = name.partition(".")[0]
    if "." in name and module in _BLOCKED_MODULES:
        return (
            f"Weights only load failed. {_ADVICE}\n\n\nTrying to load unsupported GLOBAL {name} whose module {module} "
            f"is blocked.\n\n{_DOCUMENTATION}"
        )
    return (
        "Weights only load failed. This file can still be loaded, to do so you have two options, "
        "\x1b[1mdo those steps only if you trust the source of the checkpoint\x1b[0m. \n"
        f"\t(1) {_ADVICE}\n"
        "\t(2) Alternatively, to load with `weights_only=True` please check the recommended steps in the following "
        f"error message.\n\tWeightsUnpickler error: Unsupported global: GLOBAL {name} was not an allowed global by "
        f"default. Please use `torch.serialization.add_safe_globals([{name}])` or the "
        f"`torch.serialization.safe_globals([{name}])` context manager to allowlist this global if you trust this "
        f"class/function.\n\n{_DOCUMENTATION}"
    )

"""`torch.storage`: the bytes of a tensor, and the same memory as elements of a dtype."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from copy import deepcopy

import rushlight as torch
from rushlight import _C, dtype
from rushlight._C import UntypedStorage as UntypedStorage
from rushlight._utils import stored, view_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Self

    from rushlight import Tensor, device

__all__ = ["TypedStorage", "UntypedStorage"]


class TypedStorage:
    """All elements of a storage, also those outside of the tensor. ``Tensor.storage`` returns it.

    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> len(x[0].storage()), x[0].storage()[3]
    (4, 4.0)
    """

    is_sparse = False
    _untyped_storage: UntypedStorage

    def __init__(
        self,
        *args: Any,
        device: Any = None,
        dtype: dtype | None = None,
        wrap_storage: UntypedStorage | None = None,
        _internal: bool = False,  # in torch it silences a warning; libraries set it
    ) -> None:
        if wrap_storage is not None:
            if args or device is not None or dtype is None:
                missing = "Argument 'dtype' must be specified"
                extra = "No positional arguments should be given when using 'wrap_storage'"
                raise RuntimeError(_FORMS + (extra if args else missing if dtype is None else "No device is expected"))
            if not isinstance(dtype, torch.dtype):
                raise TypeError(f"{_FORMS}Argument 'dtype' must be torch.dtype, not {type(dtype)}")
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(f"{_FORMS}Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
            self.dtype, self._untyped_storage = dtype, wrap_storage
            return
        if len(args) > 1:
            raise RuntimeError(f"{_FORMS}Too many positional arguments")
        self.dtype = torch.get_default_dtype() if dtype is None else _dtype(dtype)
        self._untyped_storage = _made(args[0] if args else 0, self.dtype, device)

    def untyped(self) -> UntypedStorage:
        """The storage as bytes."""
        return self._untyped_storage

    def _elements(self) -> Tensor:
        return torch.empty(0, dtype=stored(self.dtype), device=self.device).set_(self._untyped_storage)

    @property
    def device(self) -> device:
        """The device of the storage."""
        return self._untyped_storage.device

    def __len__(self) -> int:
        return self.nbytes() // self.element_size()

    def size(self) -> int:
        """The number of elements."""
        return len(self)

    def element_size(self) -> int:
        """The number of bytes per element."""
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """The number of bytes of all elements."""
        return self._untyped_storage.nbytes()

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self._untyped_storage.data_ptr()

    def _place(self, index: Any) -> int:
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        return index

    def __getitem__(self, index: int) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if isinstance(index, bool):
            raise TypeError(f"can't index a {type(self)} with {type(index)}")
        if not -len(self) <= self._place(index) < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return self._elements()[index].item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._elements()[index if isinstance(index, slice) else self._place(index)] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """The elements as a list of Python numbers."""
        return self._elements().tolist()

    def fill_(self, value: Any) -> Self:
        """Sets every element to a number."""
        self._untyped_storage._check_bytes("fill_")
        self._elements().fill_(value)
        return self

    def copy_(self, source: TypedStorage | UntypedStorage, non_blocking: bool | None = None) -> Self:
        """Copies the bytes of a storage of the same size."""
        self._untyped_storage.copy_(source.untyped(), non_blocking)
        return self

    def clone(self) -> TypedStorage:
        """A copy."""
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def cpu(self) -> TypedStorage:
        """The storage on the CPU: itself if it is there."""
        return TypedStorage(wrap_storage=self._untyped_storage.cpu(), dtype=self.dtype)

    def pin_memory(self, device: Any = None) -> TypedStorage:
        """The elements in page-locked memory. See `UntypedStorage.pin_memory`."""
        return TypedStorage(wrap_storage=self._untyped_storage.pin_memory(device), dtype=self.dtype)

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the elements are in page-locked memory."""
        return self._untyped_storage.is_pinned(device)

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """The storage on a device: itself if it is there."""
        return TypedStorage(wrap_storage=self._untyped_storage.to(device=device), dtype=self.dtype)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """The storage on a GPU, by default the current one."""
        return TypedStorage(wrap_storage=self._untyped_storage.cuda(device, non_blocking), dtype=self.dtype)

    def hpu(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """Refused: no storage is on such a device."""
        return TypedStorage(wrap_storage=self._untyped_storage.hpu(device), dtype=self.dtype)

    @property
    def is_cuda(self) -> bool:
        """Whether the storage is on a GPU."""
        return self._untyped_storage.is_cuda

    @property
    def is_hpu(self) -> bool:
        """Whether the storage is on such a device: always False."""
        return False

    @property
    def filename(self) -> str | None:
        """The name of the file that is mapped and written through, or None."""
        return self._untyped_storage.filename

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The legacy name of a storage of this dtype, ``"torch.FloatStorage"``; or a copy of another type."""
        if dtype is None:
            known = self.dtype in _CLASSES.values()
            return f"torch.{self.pickle_storage_type()}" if known else "torch.storage.TypedStorage"
        name = dtype if isinstance(dtype, str) else f"torch.{dtype.__name__}"
        return self._cast(_CLASSES[name.removeprefix("torch.").removesuffix("Storage")])

    def pickle_storage_type(self) -> str:
        """The name of the legacy class of this dtype: ``"FloatStorage"``."""
        for name, kind in _CLASSES.items():
            if kind == self.dtype:
                return f"{name}Storage"
        raise KeyError(f"dtype {self.dtype} is not recognized")

    def _cast(self, dtype: dtype) -> TypedStorage:
        if dtype == self.dtype:
            return self
        return TypedStorage(wrap_storage=self._elements().to(stored(dtype)).untyped_storage(), dtype=dtype)

    def resizable(self) -> bool:
        """Whether the size can change."""
        return self._untyped_storage.resizable()

    def resize_(self, size: int) -> None:
        """Changes the number of elements. New ones are not initialised."""
        self._untyped_storage.resize_(size * self.element_size())

    def get_device(self) -> int | None:
        """The index of the device; None for the CPU."""
        return self.device.index

    @classmethod
    def from_buffer(cls, *args: Any, dtype: dtype | None = None, device: Any = None, **kwargs: Any) -> TypedStorage:
        """A storage with a copy of numbers in a buffer. See `UntypedStorage.from_buffer`."""
        kind = torch.get_default_dtype() if dtype is None else dtype
        return TypedStorage(wrap_storage=UntypedStorage.from_buffer(*args, dtype=kind, **kwargs), dtype=kind)

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, size: int = 0) -> TypedStorage:
        """Maps the first numbers of a file, of the default dtype. See `UntypedStorage.from_file`."""
        kind = torch.get_default_dtype()
        return TypedStorage(wrap_storage=UntypedStorage.from_file(filename, shared, size * kind.itemsize), dtype=kind)

    def is_shared(self) -> bool:
        """Whether the storage is in shared memory."""
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> Self:
        """Moves the storage into shared memory."""
        self._untyped_storage.share_memory_()
        return self

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return TypedStorage(wrap_storage=deepcopy(self._untyped_storage, memo), dtype=self.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and (self._untyped_storage, self.dtype) == (
            other._untyped_storage,
            other.dtype,
        )

    def __hash__(self) -> int:
        return hash((self._untyped_storage, self.dtype))

    def __repr__(self) -> str:
        meta = self.device.type == "meta"
        elements = "..." if meta else " " + "\n ".join(map(str, self))
        return f"{elements}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"


#: The legacy classes, by the beginning of their names.
_DTYPES = {
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Long": torch.int64,
    "Int": torch.int32,
    "Short": torch.int16,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "Bool": torch.bool,
    "ComplexDouble": torch.complex128,
    "ComplexFloat": torch.complex64,
}

#: The same for quantised elements, which have no casts.
_QUANTIZED = {"QUInt8": torch.quint8, "QInt8": torch.qint8, "QInt32": torch.qint32}
_CLASSES = {**_DTYPES, **_QUANTIZED}

_FORMS = """TypedStorage.__init__ received an invalid combination of arguments. Expected one of:
 * (*, torch.device device, torch.dtype dtype)
 * (int size, *, torch.device device, torch.dtype dtype)
 * (Sequence data, *, torch.device device, torch.dtype dtype)
 * (*, UntypedStorage wrap_storage, torch.dtype dtype)
"""


# The same without torch's warning; programs that avoid it call these.
for _name in (
    "size",
    "element_size",
    "nbytes",
    "data_ptr",
    "resize_",
    "pickle_storage_type",
    "is_shared",
    "share_memory_",
):
    setattr(TypedStorage, f"_{_name}", getattr(TypedStorage, _name))
TypedStorage._getitem = TypedStorage.__getitem__  # type: ignore[attr-defined]
TypedStorage._setitem = TypedStorage.__setitem__  # type: ignore[attr-defined]


def _dtype(dtype: Any) -> dtype:
    if not isinstance(dtype, torch.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype


def _made(data: Any, dtype: dtype, device: Any) -> UntypedStorage:
    """The bytes of a new storage of a size, or with the elements of a sequence."""
    if isinstance(data, int):
        return UntypedStorage(data * dtype.itemsize, device=device)
    if isinstance(data, (TypedStorage, UntypedStorage)) or not isinstance(data, Sequence):
        raise TypeError(f"{_FORMS}Argument type not recognized: {type(data)}")
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    return torch.tensor(data, dtype=stored(dtype), device=device).untyped_storage()


def _add_casts() -> None:
    def cast_to(name: str, kind: dtype) -> Callable[[TypedStorage], TypedStorage]:
        def cast(self: TypedStorage) -> TypedStorage:
            return self._cast(kind)

        cast.__name__, cast.__doc__ = name, f"The elements cast to {kind}; the storage itself if it has this dtype."
        return cast

    for prefix, kind in _DTYPES.items():
        name = {"ComplexDouble": "complex_double", "ComplexFloat": "complex_float"}.get(prefix, prefix.lower())
        setattr(TypedStorage, name, cast_to(name, kind))
    # Without a legacy class.
    for name in ("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz"):
        setattr(TypedStorage, name, cast_to(name, getattr(torch, name)))


_add_casts()


class _LegacyStorageMeta(type):
    """The metaclass of `torch.FloatStorage` and the others. Storages of its dtype and device are its instances."""

    dtype: dtype
    _place: str

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype == cls.dtype and instance.device.type == cls._place


class _LegacyStorage:
    """The base of `torch.FloatStorage` and the others, whose instances are `TypedStorage`."""

    dtype: dtype
    _place: str

    def __new__(cls, *args: Any, wrap_storage: UntypedStorage | None = None, **kwargs: Any) -> Any:
        forms = (
            f"{cls}.__new__ received an invalid combination of arguments. Expected one of:\n"
            " * no arguments\n * (int size)\n * (Sequence data)\n * (*, UntypedStorage wrap_storage)\n"
        )
        if kwargs:
            raise RuntimeError(f"{forms}Keyword argument '{next(iter(kwargs))}' cannot be specified")
        if len(args) > (wrap_storage is None):
            raise RuntimeError(f"{forms}Too many positional arguments")
        if cls._place == "cuda":
            torch.cuda.init()
        if wrap_storage is not None and not isinstance(wrap_storage, UntypedStorage):
            raise TypeError(f"{forms}Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
        if args and (isinstance(args[0], (TypedStorage, UntypedStorage)) or not isinstance(args[0], (int, Sequence))):
            raise TypeError(f"{forms}Argument type not recognized: {type(args[0])}")
        device = cls._place if wrap_storage is None else None
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype, device=device)

    @classmethod
    def from_buffer(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        """A storage with a copy of numbers in a buffer. See `UntypedStorage.from_buffer`."""
        return TypedStorage.from_buffer(*args, dtype=cls.dtype, **kwargs)

    @classmethod
    def _new_shared(cls, size: int) -> TypedStorage:
        return TypedStorage(wrap_storage=UntypedStorage._new_shared(size * cls.dtype.itemsize), dtype=cls.dtype)

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, size: int = 0) -> TypedStorage:
        """Maps the first numbers of a file. See `UntypedStorage.from_file`."""
        bytes_ = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=bytes_, dtype=cls.dtype)


def legacy_storage(name: str, place: str = "cpu") -> _LegacyStorageMeta:
    """`torch.FloatStorage` for its name, or `torch.cuda.FloatStorage` with another place."""
    dtype = _CLASSES[name.removesuffix("Storage")]
    module = "rushlight" if place == "cpu" else f"rushlight.{place}"
    example = f">>> torch.{name}(2).size()\n    2\n    " if place == "cpu" else ""
    doc = f"""The legacy class of storages of {dtype}. A call creates a `TypedStorage` of a size or from a sequence.

    {example}"""
    members = {"dtype": dtype, "_place": place, "__module__": module, "__doc__": doc}
    return _LegacyStorageMeta(name, (_LegacyStorage,), members)


def __getattr__(name: str) -> Any:
    if name.removesuffix("Storage") in _CLASSES and name.endswith("Storage"):
        made = globals()[name] = legacy_storage(name)
        return made
    if name == "Storage":  # the class of the default dtype, which may change
        found = TypedStorage(0).pickle_storage_type()
        return globals().get(found) or __getattr__(found)
    from rushlight._missing_names import missing_from

    raise missing_from("torch.storage", name, lambda: __all__)


def _load_from_bytes(b: bytes) -> TypedStorage:
    """The storage in a pickle of torch, which holds a checkpoint of it."""
    from rushlight.serialization import load

    return load(io.BytesIO(b), weights_only=False)


def from_file(
    filename: str | os.PathLike[str],
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: dtype | None = None,
    layout: torch.layout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Maps the first ``size`` numbers of a file as a tensor.

    Args:
        filename: the path.
        shared: whether writes to the tensor change the file, which is created or extended if it is too short; otherwise
            they stay in this process.
        size: the number of elements.
        dtype: the dtype of the elements.
        layout: must be `torch.strided`.
        device: must be the CPU.
        pin_memory: accepted; it has no effect.
        requires_grad: whether the result requires a gradient.

    Raises:
        RuntimeError: the file does not exist or is too short; or, when the tensor is read, another process has
            truncated the file.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "numbers")
    ...     x = torch.from_file(path, shared=True, size=3, dtype=torch.uint8).fill_(65)
    ...     open(path, "rb").read()
    b'AAA'
    """
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if device is not None and torch.device(device).type != "cpu":
        raise RuntimeError("from_file() maps files into CPU memory only")
    storage = UntypedStorage.from_file(os.fspath(filename), bool(shared), size * dtype.itemsize)
    return _C._requiring_grad(view_of(storage, dtype, 0, (size,), (1,)), requires_grad)


def __dir__() -> list[str]:
    return __all__

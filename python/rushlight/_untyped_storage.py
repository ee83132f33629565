"""The class `UntypedStorage`, and its methods that are written in Python."""

from rushlight import _C
from rushlight._loading import load
from rushlight._warnings import warn_unpinned

_FORMS = """
 * (*, int allocator = None, torch.device device = None)
 * (int size, *, int allocator = None, torch.device device = None)
 * (object sequence, *, int allocator = None, torch.device device = None)
"""


class UntypedStorage(_C._StorageBase):
    """Bytes without a dtype, shared by every tensor that views them.

    ``UntypedStorage(size)`` has bytes that are not initialised, ``UntypedStorage(sequence)`` those of a sequence of
    integers.

    >>> storage = torch.tensor([1, 2], dtype=torch.int16).untyped_storage()
    >>> storage.nbytes(), list(storage)
    (4, [1, 0, 2, 0])
    """

    def __new__(cls, *args, **kwargs):
        known = kwargs.keys() <= {"size", "device"} and len(args) + ("size" in kwargs) <= 1
        data = args[0] if args else kwargs.get("size", 0)
        if not known or ("size" in kwargs and type(data) is not int):
            given = [type(arg).__name__ for arg in args]
            given += [f"{name}={type(value).__name__}" for name, value in kwargs.items()]
            raise TypeError(
                "torch.UntypedStorage() received an invalid combination of arguments - got "
                f"({', '.join(given)}{', ' * bool(kwargs)}), but expected one of:{_FORMS}"
            )
        device = kwargs.get("device")
        if type(data) is int:
            _check_long(data)
            if data < 0:
                raise RuntimeError(f"a storage cannot have {data} bytes")
            return super().__new__(cls, data, device=device)
        content = _content(data)
        made = super().__new__(cls, len(content), device=device)
        if content and made.device.type != "meta":
            _bytes(made).copy_(_bytes(UntypedStorage._from_buffer(content)))
        return made


def _check_long(value):
    """Raises ValueError for an integer of more than 64 bits."""
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"Overflow when unpacking long long\nIt is {value}.")


def _content(data):
    """The bytes of a sequence of integers, of which the last eight bits count."""
    from collections.abc import Sequence

    kind = type(data).__name__
    if not isinstance(data, (Sequence, UntypedStorage)):
        raise RuntimeError(f"torch.UntypedStorage(): Expected a sequence type, but got {kind}")
    content = bytearray()
    for place, item in enumerate(data):
        if not isinstance(item, int):
            raise RuntimeError(
                f"torch.UntypedStorage(): tried to construct a storage from a sequence ({kind}), but one of the items was "
                f"of type {type(item).__name__} instead of int\nIt is item {place}."
            )
        content.append(item % 256)
    return content


UntypedStorage.__module__ = "rushlight"
_C.UntypedStorage = UntypedStorage  # type: ignore[assignment, misc]
_C._set_storage_class(UntypedStorage)


def _method(function):
    """Attaches a function to `UntypedStorage`."""
    function.__qualname__ = f"UntypedStorage.{function.__name__}"
    setattr(UntypedStorage, function.__name__, function)
    return function


def _bytes(storage):
    """The bytes as a tensor that shares their memory."""
    import rushlight as torch

    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _check_reachable(storage):
    if storage._is_wrapper():
        raise RuntimeError("The tensor has a non-zero number of elements, but its data is not allocated yet.")
    if storage.device.type == "meta":
        raise NotImplementedError(f"Not available for '{storage.device.type}' device type")


@_method
def tolist(self):
    """The bytes as a list of Python integers."""
    _check_reachable(self)
    return list(self.tobytes())


@_method
def fill_(self, value):
    """Sets every byte to a value."""
    if not isinstance(value, int):
        raise RuntimeError(f"fill_ expects int, but got {type(value).__name__}")
    self._check_bytes("fill_")
    _bytes(self).fill_(value % 256)
    return self


_byte_at = UntypedStorage.__getitem__


def _ends(storage, index):
    """Where a slice begins and ends."""
    start, stop, step = index.indices(len(storage))
    if step != 1:
        raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
    return start, stop


@_method
def __getitem__(self, index):
    _check_reachable(self)
    if not isinstance(index, slice):
        if type(index) is not int:
            raise TypeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        _check_long(index)
        return _byte_at(self, index)
    start, stop = _ends(self, index)
    return UntypedStorage._from_buffer(self, start, max(stop - start, 0))


@_method
def __setitem__(self, index, value):
    if not isinstance(value, int):
        raise RuntimeError(f"can only set storage content with a int types, but got {type(value).__name__} instead")
    if isinstance(index, slice):
        place = slice(*_ends(self, index))
    elif type(index) is int:
        _check_long(index)
        if not 0 <= index < len(self):
            raise RuntimeError(
                f"out of bounds\nThe storage has {len(self)} bytes, and {index} is none of them. Negative numbers only "
                "read bytes."
            )
        place = index
    else:
        raise RuntimeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
    self._check_bytes("__setitem__")
    _bytes(self)[place] = value % 256


@_method
def copy_(self, source, non_blocking=None):
    """Copies the bytes of another storage of the same size."""
    if not isinstance(source, UntypedStorage):
        raise TypeError(f"copy_(): argument 'src' (position 1) must be torch.Storage, not {type(source).__name__}")
    if len(source) != len(self):
        raise RuntimeError(f"size does not match, self was {len(self)} bytes but src was {len(source)} bytes")
    self._check_bytes("copy_")
    source._check_bytes("copy_")
    _bytes(self).copy_(_bytes(source), bool(non_blocking))
    return self


@_method
def byteswap(self, dtype):
    """Swaps the byte order of numbers of a dtype, in place; for each part of a complex number."""
    import rushlight as torch

    if not isinstance(dtype, torch.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    self._check_bytes("byteswap")
    if len(self) % dtype.itemsize:
        raise RuntimeError(f"the length of data is not a multiple of {dtype.itemsize}")
    size = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if size > 1:
        numbers = _bytes(self).view(-1, size)
        numbers.copy_(numbers.flip(1))


@_method
def __deepcopy__(self, memo):
    # Tensors use the same keys, so that copies of a tensor and of its storage share memory.
    key = "storage", self.data_ptr(), self.nbytes()
    if self.nbytes() == 0 or key not in memo:
        memo[key] = self.clone()
    return memo[key]


_copied = UntypedStorage.clone


@_method
def clone(self):
    """A copy, of the same class."""
    if type(self) is UntypedStorage:
        return _copied(self)
    return type(self)(len(self), device=self.device).copy_(self)


@_method
def to(self, *, device, non_blocking=False):
    """The storage on a device: itself if it is there."""
    import rushlight as torch

    device = torch.device(device)
    if device.type == "cuda":
        return self.cuda(device, non_blocking)
    if device.type == self.device.type:
        return self
    if device.type == "cpu":
        return self.cpu()
    raise AssertionError(f"{device.type.upper()} device module is not loaded")


@_method
def cuda(self, device=None, non_blocking=False):
    """The bytes on a GPU, by default the current one: the storage itself if it is there.

    Raises:
        RuntimeError: there is no GPU.
    """
    device = _C.device("cuda" if device is None else device)
    index = _C._cuda_current_device() if device.index is None else device.index
    if self.device.type == "cuda" and self.device.index == index:
        return self
    return type(self)(len(self), device=_C.device("cuda", index)).copy_(self, non_blocking)


@_method
def mps(self):
    """Refused: no storage is on such a device."""
    return type(self)(len(self), device="mps").copy_(self)


@_method
def hpu(self, device=None, non_blocking=False):
    """Refused: no storage is on such a device."""
    raise AssertionError("HPU device module is not loaded")


@_method
def get_device(self):
    """The index of the device; None for the CPU."""
    return self.device.index


@_method
def __sizeof__(self):
    return super(UntypedStorage, self).__sizeof__() + len(self)


def _new_shared(size, *, device="cpu"):
    return UntypedStorage(size, device=device).share_memory_()


@_method
def new(self):
    """An empty storage on the same device."""
    return UntypedStorage(0, device=self.device)


@_method
def cpu(self):
    """The bytes on the CPU: the storage itself if it is there."""
    return self if self.device.type == "cpu" else type(self)(len(self)).copy_(self)


@_method
def untyped(self):
    """The storage itself. For a `TypedStorage` it is the underlying bytes."""
    return self


@_method
def pin_memory(self, device=None):
    """The bytes in page-locked memory, which GPUs copy while the program goes on; itself if they are there already.

    Without a GPU it is the storage itself, with a warning.
    """
    if self.device.type != "cpu":
        raise TypeError(f"cannot pin 'torch.{self.device.type}.UntypedStorage' only CPU memory can be pinned")
    if _C._cuda_device_count() == 0:
        warn_unpinned()
        return self
    return self if self.is_pinned() else _C._cuda_pinned_storage(len(self)).copy_(self)


@_method
def is_pinned(self, device=None):
    """Whether the bytes are in page-locked memory."""
    return _bytes(self).is_pinned()


@_method
def element_size(self):
    """The number of bytes per element: one."""
    return 1


def _as(name, dtype_name):
    """Attaches a method that returns each byte as a number of the dtype."""

    def method(self):
        import rushlight as torch

        dtype = getattr(torch, dtype_name)
        return load("rushlight.storage").TypedStorage(
            wrap_storage=_bytes(self).to(dtype).untyped_storage(), dtype=dtype
        )

    method.__name__, method.__doc__ = name, f"A copy with each byte converted to {dtype_name}."
    _method(method)


for _pair in (
    *(("float", "float32"), ("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16"), ("bool", "bool")),
    *(("complex_float", "complex64"), ("complex_double", "complex128")),
    *((name, name) for name in ("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz")),
    *(("byte", "uint8"), ("char", "int8"), ("short", "int16"), ("int", "int32"), ("long", "int64")),
):
    _as(*_pair)


@_method
def __repr__(self):
    shown = "..." if self.device.type == "meta" else " " + "\n ".join(map(str, self.tobytes()))
    return f"{shown}\n[torch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"


def from_file(filename, shared=False, nbytes=0):
    """Maps the first bytes of a file. With ``shared``, writes change the file, which is created or extended if needed."""
    import os
    import stat

    if not isinstance(filename, (str, os.PathLike)):
        raise TypeError(f"argument 1 must be str, not {type(filename).__name__}")
    for value in (shared, nbytes):
        if not isinstance(value, int):
            raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer")
    if nbytes < 0:
        raise RuntimeError(f"unable to mmap {nbytes} bytes from file <{filename}>: Cannot allocate memory (12)")
    kind = "read-write" if shared else "read-only"
    try:
        file = os.open(filename, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o666)
    except OSError as error:
        sentence = f"unable to open file <{filename}> in {kind} mode: {error.strerror} ({error.errno})"
        raise RuntimeError(sentence) from None
    try:
        found = os.fstat(file)
        size = found.st_size
        if size < nbytes and shared:
            os.ftruncate(file, nbytes)
        elif size < nbytes:
            raise RuntimeError(f"file <{filename}> size <{size}> is smaller than the required mapping size <{nbytes}>")
        if nbytes == 0:
            return UntypedStorage(0)
        if stat.S_ISDIR(found.st_mode):
            raise RuntimeError(f"unable to mmap {nbytes} bytes from file <{filename}>: No such device (19)")
        return _C._FileMap(os.fspath(filename), bool(shared), nbytes).storage(0, nbytes)
    finally:
        os.close(file)


def from_buffer(buffer, byte_order=None, count=-1, offset=0, *, dtype=None):
    """A storage with a copy of numbers in a buffer. Their bytes are swapped if they are not in the machine's order.

    Args:
        byte_order: ``"big"``, ``"little"`` or ``"native"``; not needed for dtypes of one byte.
        count: the number of numbers; all by default.
        offset: the index of the first byte.
    """
    import sys

    import rushlight as torch

    if dtype is None:
        raise RuntimeError("argument 'dtype' cannot be None")
    size = dtype.itemsize
    if byte_order is None and size > 1:
        raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
    if byte_order not in ("big", "little", "native", None):
        raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
    try:
        held = memoryview(buffer).cast("B")
    except TypeError:
        raise TypeError(f"a bytes-like object is required, not '{type(buffer).__name__}'") from None
    left = len(held) - offset
    if offset < 0 or left < 0:
        raise ValueError(
            f"offset must be non-negative and no greater than buffer length ({offset}) , but got {len(held)}"
        )
    if count < 0:
        if left % size:
            raise ValueError(f"buffer size ({len(held)}) must be a multiple of element size ({size})")
        count = left // size
    if count * size > left:
        raise ValueError(
            f"buffer has only {left // size} elements after offset {offset}, but specified a size of {count}"
        )
    content = bytearray(held[offset : offset + count * size])
    part = size // 2 if dtype.is_complex else size
    if part > 1 and byte_order not in ("native", sys.byteorder):
        for place in range(part // 2):
            content[place::part], content[part - 1 - place :: part] = (
                content[part - 1 - place :: part],
                content[place::part],
            )
    if dtype == torch.bool:
        content = bytearray(map(bool, content))
    return UntypedStorage._from_buffer(content)


def _type(self):
    """The name of the class."""
    return "torch.storage.UntypedStorage"


for _name, _function in (
    ("from_file", staticmethod(from_file)),
    ("from_buffer", staticmethod(from_buffer)),
    ("type", _type),
    ("_new_shared", staticmethod(_new_shared)),
    ("_cdata", property(hash)),
    ("is_hpu", property(lambda self: False, doc="Whether the storage is on such a device: always False.")),
    ("is_sparse", False),
    ("is_sparse_csr", False),
):
    setattr(UntypedStorage, _name, _function)

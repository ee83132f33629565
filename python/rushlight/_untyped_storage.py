"""The rare methods of `UntypedStorage`, written in Python and attached to the engine's class."""

from rushlight import _C
from rushlight._C import UntypedStorage
from rushlight._loading import load
from rushlight._warnings import warn


def _method(function):
    """Attaches a function to `UntypedStorage`."""
    function.__qualname__ = f"UntypedStorage.{function.__name__}"
    setattr(UntypedStorage, function.__name__, function)
    return function


def _bytes(storage):
    """The bytes as a tensor on them."""
    import rushlight as torch

    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


@_method
def tolist(self):
    """The bytes as Python's numbers."""
    return list(self.tobytes())


@_method
def fill_(self, value):
    """Writes one byte everywhere."""
    if not isinstance(value, int):
        raise RuntimeError(f"fill_ expects int, but got {type(value).__name__}")
    _bytes(self).fill_(value % 256)
    return self


_byte_at = UntypedStorage.__getitem__


@_method
def __getitem__(self, index):
    if not isinstance(index, slice):
        return _byte_at(self, index)
    start, stop, step = index.indices(len(self))
    if step != 1:
        raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
    return UntypedStorage._from_buffer(self, start, max(stop - start, 0))


@_method
def __setitem__(self, index, value):
    if not isinstance(value, int):
        raise RuntimeError(f"can only set storage content with a int types, but got {type(value).__name__} instead")
    if not isinstance(index, (int, slice)):
        raise RuntimeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
    if isinstance(index, int) and not -len(self) <= index < len(self):
        raise RuntimeError("out of bounds")
    _bytes(self)[index] = value % 256


@_method
def copy_(self, source, non_blocking=None):
    """Takes over the bytes of a storage of the same size."""
    if not isinstance(source, UntypedStorage):
        raise TypeError(f"copy_(): argument 'src' (position 1) must be torch.Storage, not {type(source).__name__}")
    if len(source) != len(self):
        raise RuntimeError(f"size does not match, self was {len(self)} bytes but src was {len(source)} bytes")
    _bytes(self).copy_(_bytes(source))
    return self


@_method
def new(self):
    """A storage of no bytes on the same device."""
    return UntypedStorage(0, device=self.device)


@_method
def cpu(self):
    """The bytes on the host, where they are."""
    return self


@_method
def untyped(self):
    """The storage itself; a `TypedStorage` gives its bytes."""
    return self


@_method
def pin_memory(self, device=None):
    """The storage itself, with a warning: pinned memory is for cards, and there is none."""
    warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.")
    return self


@_method
def is_pinned(self, device=None):
    """Whether the bytes are pinned for a card: never."""
    return False


@_method
def element_size(self):
    """Bytes of one element: one."""
    return 1


def _as(name, dtype_name):
    """Attaches the method that gives the bytes, each as one number of a dtype."""

    def method(self):
        import rushlight as torch

        dtype = getattr(torch, dtype_name)
        return load("rushlight.storage").TypedStorage(_bytes(self).to(dtype).untyped_storage(), dtype)

    method.__name__, method.__doc__ = name, f"Each byte as one number of {dtype_name}."
    _method(method)


for _pair in (
    *(("float", "float32"), ("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16"), ("bool", "bool")),
    *(("byte", "uint8"), ("char", "int8"), ("short", "int16"), ("int", "int32"), ("long", "int64")),
):
    _as(*_pair)


@_method
def __repr__(self):
    shown = "...\n" if self.device.type == "meta" else "".join(f" {byte}\n" for byte in self.tobytes())
    return f"{shown}[torch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"


def from_file(filename, shared=False, nbytes=0):
    """The first bytes of a file, mapped. With ``shared`` what is written reaches the file, which grows or is made as needed."""
    import os

    kind = "read-write" if shared else "read-only"
    try:
        file = os.open(filename, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o666)
    except OSError as error:
        told = f"unable to open file <{filename}> in {kind} mode: {error.strerror} ({error.errno})"
        raise RuntimeError(told) from None
    try:
        size = os.fstat(file).st_size
        if size < nbytes and shared:
            os.ftruncate(file, nbytes)
        elif size < nbytes:
            raise RuntimeError(f"file <{filename}> size <{size}> is smaller than the required mapping size <{nbytes}>")
        if nbytes == 0:
            return UntypedStorage(0)
        return _C._FileMap(os.fspath(filename), shared, nbytes).storage(0, nbytes)
    finally:
        os.close(file)


def from_buffer(buffer, byte_order=None, count=-1, offset=0, *, dtype=None):
    """A copy of a buffer's numbers of one dtype, whose bytes are turned around if they are in the other order.

    Args:
        byte_order: ``"big"``, ``"little"`` or ``"native"``; numbers of one byte need none.
        count: how many numbers; all by default.
        offset: the first byte.
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
    held = memoryview(buffer).cast("B")
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
    """What the class is called."""
    return "torch.storage.UntypedStorage"


for _name, _function in (
    ("from_file", staticmethod(from_file)),
    ("from_buffer", staticmethod(from_buffer)),
    ("type", _type),
):
    setattr(UntypedStorage, _name, _function)

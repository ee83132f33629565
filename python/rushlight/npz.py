"""NumPy's `.npz` archives, without NumPy: tensors by their names, as `numpy.savez` writes and `numpy.load` reads them.

Arrays of Python objects are refused, since they are pickles. A record is decompressed into memory of the size that its
header states, and never beyond it.
"""

from __future__ import annotations

import errno
import io
import math
import os
import re
import struct
import sys
import zipfile
import zlib

import rushlight as torch

from ._replacing import replacing
from ._utils import view_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

__all__ = ["NpzError", "load", "load_file", "save", "save_file"]

_MAGIC = b"\x93NUMPY"
# What stands at the end of an archive, up to its comment: its mark, and how many records it holds.
_END = struct.Struct("<4s6xH10x")
_LONGEST_HEADER = 1 << 16
_PIECE = 1 << 20
# What deflate can at most make of a byte.
_MOST_RATIO = 1032

_DTYPES = {
    "b1": torch.bool,
    "i1": torch.int8,
    "i2": torch.int16,
    "i4": torch.int32,
    "i8": torch.int64,
    "u1": torch.uint8,
    "u2": torch.uint16,
    "u4": torch.uint32,
    "u8": torch.uint64,
    "f2": torch.float16,
    "f4": torch.float32,
    "f8": torch.float64,
    "c8": torch.complex64,
    "c16": torch.complex128,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_HEADER = re.compile(
    r"\{\s*'descr'\s*:\s*'(?P<order>[<>|=])(?P<kind>[a-zA-Z]\d{0,4})'\s*,"
    r"\s*'fortran_order'\s*:\s*(?P<fortran>True|False)\s*,"
    r"\s*'shape'\s*:\s*\((?P<shape>[\d\s,]*)\)\s*,?\s*\}\s*"
)


class NpzError(ValueError):
    """The file is no archive of arrays, or holds what is no tensor.

    >>> try:
    ...     torch.npz.load(b"nothing")
    ... except torch.npz.NpzError as error:
    ...     print("refused")
    refused
    """


def save_file(tensors: dict[str, torch.Tensor], filename: str | os.PathLike[str], compress: bool = False) -> None:
    """Writes the tensors to a file, which is replaced at once when everything has been written.

    Args:
        tensors: tensors by their names.
        filename: the path.
        compress: whether the arrays are deflated, as `numpy.savez_compressed` does.

    Raises:
        NpzError: a dtype that NumPy does not have.
        ValueError: what is no tensor, or no name.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tensors")
    ...     torch.npz.save_file({"weight": torch.tensor([1.0, 2.0])}, path)
    ...     torch.npz.load_file(path)
    {'weight': tensor([1., 2.])}
    """
    with replacing(os.fspath(filename)) as target:
        if os.path.isfile(target):
            _write(target, tensors, compress)
            return
        with open(target, "wb") as pipe:  # where an archive cannot go back to its beginning
            pipe.write(save(tensors, compress))


def save(tensors: dict[str, torch.Tensor], compress: bool = False) -> bytes:
    """The bytes that `save_file` would write.

    >>> torch.npz.load(torch.npz.save({"weight": torch.tensor([1.0, 2.0])}))
    {'weight': tensor([1., 2.])}
    """
    file = io.BytesIO()
    _write(file, tensors, compress)
    return file.getvalue()


def load_file(filename: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """All arrays of a file as tensors, by their names.

    Raises:
        NpzError: the file is not what the format asks for.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tensors")
    ...     torch.npz.save_file({"step": torch.tensor(3)}, path)
    ...     torch.npz.load_file(path)["step"]
    tensor(3)
    """
    with open(filename, "rb") as file:
        return _read(file)


def load(data: bytes) -> dict[str, torch.Tensor]:
    """All arrays of the bytes of a file, by their names.

    Raises:
        NpzError: the bytes are not what the format asks for.
        TypeError: a path; `load_file` takes one.

    >>> torch.npz.load(torch.npz.save({"step": torch.tensor(3)}))
    {'step': tensor(3)}
    """
    if isinstance(data, (str, os.PathLike)):
        raise TypeError("load() takes the bytes of a file; load_file() takes its name")
    return _read(io.BytesIO(data))


# --- writing -----------------------------------------------------------------------------------------------------------


def _write(target: Any, tensors: dict[str, torch.Tensor], compress: bool) -> None:
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise ValueError(f"a file holds tensors by their names, not {type(tensor).__name__} by {name!r}")
        if tensor.dtype not in _NAMES:
            raise NpzError(f"NumPy has no dtype for {name!r}, which is of {tensor.dtype}")
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, tensor in tensors.items():
            tensor = tensor.detach().cpu().contiguous()
            size = tensor.numel() * tensor.dtype.itemsize
            start = tensor.storage_offset() * tensor.dtype.itemsize
            content = memoryview(tensor.untyped_storage())[start : start + size]
            with archive.open(f"{name}.npy", "w", force_zip64=True) as record:
                record.write(_header(tensor))
                for first in range(0, size, _PIECE):
                    record.write(content[first : first + _PIECE])


def _header(tensor: torch.Tensor) -> bytes:
    order = "|" if tensor.dtype.itemsize == 1 else "<"
    shape = f"({tensor.shape[0]},)" if tensor.dim() == 1 else f"({', '.join(map(str, tensor.shape))})"
    text = f"{{'descr': '{order}{_NAMES[tensor.dtype]}', 'fortran_order': False, 'shape': {shape}, }}"
    # What follows begins at a multiple of 64.
    text += " " * (-(len(_MAGIC) + 4 + len(text) + 1) % 64) + "\n"
    return _MAGIC + b"\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin1")


# --- reading -----------------------------------------------------------------------------------------------------------


def described(path: str) -> dict[str, torch.Tensor]:
    """What the headers of a file say of its arrays, as tensors without data."""
    with open(path, "rb") as file:
        return _read(file, data=False)


def _read(file: BinaryIO, data: bool = True) -> dict[str, torch.Tensor]:
    tensors = {}
    try:
        length = file.seek(0, os.SEEK_END)
        if not length:  # or a device without an end
            raise NpzError("the file is empty")
        with zipfile.ZipFile(file) as archive:
            if sum(entry.compress_size for entry in archive.infolist()) > length:
                raise NpzError("records of the archive overlap")
            _check_count(file, archive)
            for entry in archive.infolist():
                name = entry.filename.removesuffix(".npy")
                if name in tensors:
                    raise NpzError(f"the array {name!r} stands twice in the archive")
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise NpzError(f"the array {name!r} is compressed in a way that NumPy does not write")
                if entry.file_size > _MOST_RATIO * entry.compress_size + _LONGEST_HEADER:
                    raise NpzError(f"the array {name!r} cannot be as large as the archive says")
                with archive.open(entry) as record:
                    tensors[name] = _array(name, record, entry.file_size, data)
    except NpzError:
        raise
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise NpzError("the archive is damaged: a record lies outside of the file") from None
    # What the standard library's reader says to an archive that contradicts itself.
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError, OverflowError) as error:
        raise NpzError(f"the archive is damaged: {error}") from None
    return tensors


def _check_count(file: BinaryIO, archive: zipfile.ZipFile) -> None:
    """The standard library takes the records that it finds, whether or not they are as many as the archive says."""
    file.seek(-_END.size - len(archive.comment), os.SEEK_END)
    magic, count = _END.unpack(file.read(_END.size))
    if magic == b"PK\x05\x06" and count != min(len(archive.infolist()), 0xFFFF):
        raise NpzError(f"the archive says that it holds {count} arrays, and {len(archive.infolist())} are found")


def _array(name: str, record: Any, total: int, data: bool) -> torch.Tensor:
    start = record.read(8)
    if not start.startswith(_MAGIC) or len(start) < 8:
        raise NpzError(f"{name!r} is no array of NumPy's")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(record.read(width), "little")
    if length > _LONGEST_HEADER:
        raise NpzError(f"the header of {name!r} is too long")
    text = record.read(length).decode("latin1")
    found = _HEADER.fullmatch(text)
    if found is None:
        raise NpzError(f"the header of {name!r} describes no plain array: {text[:200]!r}")
    dtype = _DTYPES.get(found["kind"])
    if dtype is None:
        raise NpzError(f"{name!r} is an array of {found['order']}{found['kind']}, which is no dtype of a tensor")
    shape = _shape(name, found["shape"])
    size = math.prod(shape) * dtype.itemsize
    if size != total - 8 - width - length:
        raise NpzError(f"{name!r} does not have the bytes of an array of shape {shape}")
    lying = shape[::-1] if found["fortran"] == "True" else shape
    tensor = _filled(name, record, dtype, lying, size) if data else torch.empty(lying, dtype=dtype, device="meta")
    if data and found["order"] == ">" and sys.byteorder == "little" and dtype.itemsize > 1:
        tensor = _swapped(tensor)
    return tensor.permute(*reversed(range(len(shape)))) if found["fortran"] == "True" else tensor


def _shape(name: str, text: str) -> tuple[int, ...]:
    numbers = [number.strip() for number in text.split(",")]
    if numbers[-1] == "":
        numbers.pop()
    if len(numbers) > 64 or not all(number.isdecimal() and len(number) < 19 for number in numbers):
        raise NpzError(f"the shape of {name!r} is impossible: ({text[:200]})")
    return tuple(map(int, numbers))


def _filled(name: str, record: Any, dtype: torch.dtype, shape: tuple[int, ...], size: int) -> torch.Tensor:
    storage = torch.UntypedStorage(size)
    rest = memoryview(storage)
    while rest:
        piece = record.read(min(len(rest), _PIECE))
        if not piece:
            raise NpzError(f"the archive ends within {name!r}")
        rest[: len(piece)] = piece
        rest = rest[len(piece) :]
    # One byte more than there should be: the end is where the checksum is compared.
    if record.read(1):
        raise NpzError(f"{name!r} goes on behind its end")
    flat = view_of(storage, dtype, 0, (math.prod(shape),), (1,))
    return flat.reshape(shape)


def _swapped(tensor: torch.Tensor) -> torch.Tensor:
    """The other order of bytes; of a complex number each part has its own."""
    part = tensor.dtype.itemsize // (2 if tensor.dtype.is_complex else 1)
    flat = tensor.reshape(-1).view(torch.uint8).reshape(-1, part).flip(1)
    return flat.reshape(-1).view(tensor.dtype).reshape(tensor.shape)


def __dir__() -> list[str]:
    return __all__

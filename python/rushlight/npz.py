"""NumPy's `.npz` archives, without NumPy: named tensors in the format of `numpy.savez` and `numpy.load`.

Arrays of Python objects are rejected, because they are pickles. A record is decompressed into memory of the size that
its header gives, and an error is raised if it is longer.
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

from ._atomic_write import atomic_write
from ._utils import view_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

__all__ = ["NpzError", "load", "load_file", "save", "save_file"]

_MAGIC = b"\x93NUMPY"
# The record at the end of an archive, before its comment: its signature and the number of records.
_END = struct.Struct("<4s6xH10x")
_LONGEST_HEADER = 1 << 16
_PIECE = 1 << 20
# The largest factor by which deflate can compress.
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
    """The file is not an archive of arrays, or contains an array that cannot be a tensor.

    >>> try:
    ...     torch.npz.load(b"nothing")
    ... except torch.npz.NpzError as error:
    ...     print("refused")
    refused
    """


def save_file(tensors: dict[str, torch.Tensor], filename: str | os.PathLike[str], compress: bool = False) -> None:
    """Writes the tensors to a file. The file is replaced atomically, after everything has been written.

    Args:
        tensors: a dictionary of tensors.
        filename: the path.
        compress: whether to compress the arrays, as `numpy.savez_compressed` does.

    Raises:
        NpzError: a dtype that NumPy does not have.
        TypeError: ``compress`` is not a bool.
        ValueError: a value is not a tensor, or a key is not a string.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tensors")
    ...     torch.npz.save_file({"weight": torch.tensor([1.0, 2.0])}, path)
    ...     torch.npz.load_file(path)
    {'weight': tensor([1., 2.])}
    """
    if not isinstance(compress, bool):
        raise TypeError(f"save_file(): compress must be a bool, got {type(compress).__name__}")
    with atomic_write(os.fspath(filename)) as target:
        if os.path.isfile(target):
            _write(target, tensors, compress)
            return
        with open(target, "wb") as pipe:  # not seekable
            pipe.write(save(tensors, compress))


def save(tensors: dict[str, torch.Tensor], compress: bool = False) -> bytes:
    """The bytes that `save_file` would write.

    Raises:
        TypeError: ``compress`` is not a bool, as in a call with a path; use `save_file`.

    >>> torch.npz.load(torch.npz.save({"weight": torch.tensor([1.0, 2.0])}))
    {'weight': tensor([1., 2.])}
    """
    if not isinstance(compress, bool):
        raise TypeError("save() returns the bytes of a file; use save_file() for a path")
    file = io.BytesIO()
    _write(file, tensors, compress)
    return file.getvalue()


def load_file(filename: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """Reads all arrays of a file into a dictionary of tensors.

    Raises:
        NpzError: the file is malformed.

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
    """Reads all arrays from the bytes of a file.

    Raises:
        NpzError: the bytes are malformed.
        TypeError: the argument is a path; use `load_file`.

    >>> torch.npz.load(torch.npz.save({"step": torch.tensor(3)}))
    {'step': tensor(3)}
    """
    if isinstance(data, (str, os.PathLike)):
        raise TypeError("load() takes the bytes of a file; use load_file() for a path")
    return _read(io.BytesIO(data))


# --- writing -----------------------------------------------------------------------------------------------------------


def _write(target: Any, tensors: dict[str, torch.Tensor], compress: bool) -> None:
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise ValueError(f"expected a dictionary from names to tensors, got {type(tensor).__name__} for {name!r}")
        if tensor.dtype not in _NAMES:
            raise NpzError(f"NumPy has no dtype {tensor.dtype}, which {name!r} has")
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
    # The data begins at a multiple of 64 bytes.
    text += " " * (-(len(_MAGIC) + 4 + len(text) + 1) % 64) + "\n"
    return _MAGIC + b"\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin1")


# --- reading -----------------------------------------------------------------------------------------------------------


def described(path: str) -> dict[str, torch.Tensor]:
    """The arrays of a file as meta tensors, from their headers."""
    with open(path, "rb") as file:
        return _read(file, data=False)


def _read(file: BinaryIO, data: bool = True) -> dict[str, torch.Tensor]:
    tensors = {}
    try:
        length = file.seek(0, os.SEEK_END)
        if not length:  # also a device of unknown length
            raise NpzError("the file is empty")
        with zipfile.ZipFile(file) as archive:
            if sum(entry.compress_size for entry in archive.infolist()) > length:
                raise NpzError("records of the archive overlap")
            _check_count(file, archive)
            for entry in archive.infolist():
                name = entry.filename.removesuffix(".npy")
                if name in tensors:
                    raise NpzError(f"the array {name!r} occurs twice in the archive")
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise NpzError(f"the array {name!r} uses a compression method that NumPy does not write")
                if entry.file_size > _MOST_RATIO * entry.compress_size + _LONGEST_HEADER:
                    raise NpzError(f"the array {name!r} cannot have the size that the archive gives")
                with archive.open(entry) as record:
                    tensors[name] = _array(name, record, entry.file_size, data)
    except NpzError:
        raise
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise NpzError("the archive is damaged: a record lies outside of the file") from None
    # Errors of the standard library's reader for inconsistent archives.
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError, OverflowError) as error:
        raise NpzError(f"the archive is damaged: {error}") from None
    return tensors


def _check_count(file: BinaryIO, archive: zipfile.ZipFile) -> None:
    """Checks the number of records, which the standard library does not do."""
    file.seek(-_END.size - len(archive.comment), os.SEEK_END)
    magic, count = _END.unpack(file.read(_END.size))
    if magic == b"PK\x05\x06" and count != min(len(archive.infolist()), 0xFFFF):
        raise NpzError(f"the archive gives a count of {count} arrays but contains {len(archive.infolist())}")


def _array(name: str, record: Any, total: int, data: bool) -> torch.Tensor:
    start = record.read(8)
    if not start.startswith(_MAGIC) or len(start) < 8:
        raise NpzError(f"{name!r} is not a NumPy array")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(record.read(width), "little")
    if length > _LONGEST_HEADER:
        raise NpzError(f"the header of {name!r} is too long")
    text = record.read(length).decode("latin1")
    found = _HEADER.fullmatch(text)
    if found is None:
        raise NpzError(f"the header of {name!r} does not describe a plain array: {text[:200]!r}")
    dtype = _DTYPES.get(found["kind"])
    if dtype is None:
        raise NpzError(f"{name!r} is an array of {found['order']}{found['kind']}, which is not a tensor dtype")
    shape = _shape(name, found["shape"])
    size = math.prod(shape) * dtype.itemsize
    if size != total - 8 - width - length:
        raise NpzError(f"{name!r} does not have the size of an array of shape {shape}")
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
    # Read one byte more than expected: the checksum is compared at the end of the record.
    if record.read(1):
        raise NpzError(f"{name!r} is longer than its header says")
    flat = view_of(storage, dtype, 0, (math.prod(shape),), (1,))
    return flat.reshape(shape)


def _swapped(tensor: torch.Tensor) -> torch.Tensor:
    """Swaps the byte order, for each part of a complex number."""
    part = tensor.dtype.itemsize // (2 if tensor.dtype.is_complex else 1)
    flat = tensor.reshape(-1).view(torch.uint8).reshape(-1, part).flip(1)
    return flat.reshape(-1).view(tensor.dtype).reshape(tensor.shape)


def __dir__() -> list[str]:
    return __all__

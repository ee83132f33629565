"""Files of the safetensors format, with the functions of `safetensors.torch`.

A file has a header in JSON (name, dtype, shape and offsets of each tensor), followed by the data. Reading checks that
the offsets of every tensor are inside the file and match its dtype and shape, without gaps or overlaps.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import os

import rushlight as torch

from ._atomic_write import atomic_write
from ._utils import view_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Self

__all__ = ["SafetensorError", "load", "load_file", "safe_open", "save", "save_file"]

_LONGEST_HEADER = 100_000_000
_PIECE = 1 << 20

# In the order of the format: tensors with a later dtype come first in a file, so that all tensors are aligned.
_NAMES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "C64": torch.complex64,
    "F64": torch.float64,
    "I64": torch.int64,
    "U64": torch.uint64,
}
_RANKS = {dtype: -rank for rank, dtype in enumerate(_NAMES.values())}
_OF_DTYPE = {dtype: name for name, dtype in _NAMES.items()}


class SafetensorError(Exception):
    """The file is malformed.

    >>> try:
    ...     torch.safetensors.load(b"nothing")
    ... except torch.safetensors.SafetensorError as error:
    ...     print("refused")
    refused
    """


def save_file(
    tensors: dict[str, torch.Tensor], filename: str | os.PathLike[str], metadata: dict[str, str] | None = None
) -> None:
    """Writes the tensors to a file. The file is replaced atomically, after everything has been written.

    Args:
        tensors: a dictionary of tensors.
        filename: the path.
        metadata: a dictionary of strings that is stored in the file.

    Raises:
        RuntimeError: tensors share memory, which the format cannot represent.
        SafetensorError: the format does not have a dtype.
        ValueError: a value is not a tensor, or the metadata are not strings.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tensors")
    ...     torch.safetensors.save_file({"weight": torch.tensor([1.0, 2.0])}, path)
    ...     torch.safetensors.load_file(path)
    {'weight': tensor([1., 2.])}
    """
    with atomic_write(os.fspath(filename)) as target, open(target, "wb") as file:
        _write(file, tensors, metadata)


def save(tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes that `save_file` would write.

    Raises:
        TypeError: ``metadata`` is a path; use `save_file`.

    >>> torch.safetensors.load(torch.safetensors.save({"weight": torch.tensor([1.0, 2.0])}))
    {'weight': tensor([1., 2.])}
    """
    if isinstance(metadata, (str, os.PathLike)):
        raise TypeError("save() returns the bytes of a file; use save_file() for a path")
    file = io.BytesIO()
    _write(file, tensors, metadata)
    return file.getvalue()


def load_file(filename: str | os.PathLike[str], device: Any = "cpu") -> dict[str, torch.Tensor]:
    """Reads all tensors of a file into a dictionary.

    Raises:
        SafetensorError: the file is malformed.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tensors")
    ...     torch.safetensors.save_file({"step": torch.tensor(3)}, path)
    ...     torch.safetensors.load_file(path)["step"]
    tensor(3)
    """
    with safe_open(filename, device=device) as file:
        return file.get_tensors()


def load(data: bytes) -> dict[str, torch.Tensor]:
    """Reads all tensors from the bytes of a file.

    Raises:
        SafetensorError: the bytes are malformed.
        TypeError: the argument is a path; use `load_file`.

    >>> torch.safetensors.load(torch.safetensors.save({"step": torch.tensor(3)}))
    {'step': tensor(3)}
    """
    if isinstance(data, (str, os.PathLike)):
        raise TypeError("load() takes the bytes of a file; use load_file() for a path")
    contents = _Contents(io.BytesIO(data), len(data))
    return {name: contents.tensor(name) for name in contents.entries}


class safe_open:
    """An open file whose tensors are read one by one. Used in a ``with`` block.

    Args:
        filename: the path.
        framework: must be ``"pt"``.
        device: the device of the tensors.

    Raises:
        SafetensorError: the file is malformed, or has no tensor with that name.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tensors")
    ...     torch.safetensors.save_file({"weight": torch.tensor([1.0, 2.0])}, path)
    ...     with torch.safetensors.safe_open(path) as file:
    ...         file.keys(), file.get_tensor("weight")
    (['weight'], tensor([1., 2.]))
    """

    def __init__(self, filename: str | os.PathLike[str], framework: str = "pt", device: Any = "cpu") -> None:
        if framework not in ("pt", "torch", "pytorch"):
            raise SafetensorError(f"framework {framework} is invalid")
        self._device = torch.device(device)
        self._file = open(filename, "rb")
        try:
            self._contents = _Contents(self._file, os.fstat(self._file.fileno()).st_size)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def keys(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._contents.entries)

    def metadata(self) -> dict[str, str] | None:
        """The metadata that were saved with the tensors, or None."""
        return self._contents.metadata

    def get_tensor(self, name: str) -> torch.Tensor:
        """The tensor with this name."""
        return self._contents.tensor(name).to(self._device)

    def get_tensors(self) -> dict[str, torch.Tensor]:
        """All tensors as a dictionary."""
        return {name: self.get_tensor(name) for name in self.keys()}

    def get_slice(self, name: str) -> Slice:
        """The tensor with this name as a `Slice`: indexing reads only the selected rows."""
        return Slice(self._contents, name, self._device)

    def offset_keys(self) -> list[str]:
        """The names, in the order of the data in the file."""
        return self._contents.in_order()


class Slice:
    """A tensor that is read from its file when it is indexed. `safe_open.get_slice` returns it.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tensors")
    ...     torch.safetensors.save_file({"weight": torch.arange(6).reshape(3, 2)}, path)
    ...     with torch.safetensors.safe_open(path) as file:
    ...         part = file.get_slice("weight")
    ...         part.get_shape(), part.get_dtype(), part[1:, 0]
    ([3, 2], 'I64', tensor([2, 4]))
    """

    def __init__(self, contents: _Contents, name: str, device: torch.device) -> None:
        self._contents, self._name, self._device = contents, name, device
        self._dtype, self._shape, *_ = contents.entry(name)

    def get_shape(self) -> list[int]:
        """The sizes of the whole tensor."""
        return list(self._shape)

    def get_dtype(self) -> str:
        """The format's name of the dtype."""
        return _OF_DTYPE[self._dtype]

    def described(self) -> torch.Tensor:
        """A meta tensor with the same shape and dtype."""
        return torch.empty(self._shape, dtype=self._dtype, device="meta")

    def __getitem__(self, index: Any) -> torch.Tensor:
        indices = index if isinstance(index, tuple) else (index,)
        if self._shape and indices and isinstance(indices[0], slice):
            first, last, step = indices[0].indices(self._shape[0])
            if step == 1:
                rows = self._contents.tensor(self._name, range(first, max(first, last)))
                return rows[(slice(None), *indices[1:])].to(self._device)
        return self._contents.tensor(self._name)[index].to(self._device)


# --- writing -----------------------------------------------------------------------------------------------------------


def _write(file: Any, tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None) -> None:
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise ValueError(f"expected a dictionary from names to tensors, got {type(tensor).__name__} for {name!r}")
        if tensor.dtype not in _OF_DTYPE:
            raise SafetensorError(f"the format has no dtype {tensor.dtype}, which {name!r} has")
    _refuse_shared(tensors)
    order = sorted(tensors, key=lambda name: (_RANKS[tensors[name].dtype], name))
    header: dict[str, Any] = {}
    if metadata is not None:
        if not all(isinstance(text, str) for pair in metadata.items() for text in pair):
            raise ValueError("expected a dictionary from strings to strings as metadata")
        header["__metadata__"] = metadata
    place = 0
    for name in order:
        tensor = tensors[name]
        end = place + tensor.numel() * tensor.dtype.itemsize
        offsets = [place, end]
        header[name] = {"dtype": _OF_DTYPE[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        place = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        tensor = tensors[name].detach().cpu().contiguous()
        size = tensor.numel() * tensor.dtype.itemsize
        start = tensor.storage_offset() * tensor.dtype.itemsize
        if start + size > tensor.untyped_storage().nbytes():  # the storage has shrunk
            tensor, start = tensor.clone(), 0
        content = memoryview(tensor.untyped_storage())[start : start + size]
        for first in range(0, size, _PIECE):
            file.write(content[first : first + _PIECE])


def _refuse_shared(tensors: dict[str, torch.Tensor]) -> None:
    """Raises an error if tensors share memory, because the format has no views."""
    spans: dict[int, list[tuple[int, int, str]]] = {}
    for name, tensor in tensors.items():
        if tensor.numel() and tensor.device.type == "cpu":
            reach = [(length - 1) * step for length, step in zip(tensor.shape, tensor.stride())]
            first = tensor.storage_offset() + sum(step for step in reach if step < 0)
            last = tensor.storage_offset() + sum(step for step in reach if step > 0)
            size = tensor.dtype.itemsize
            span = first * size, (last + 1) * size, name
            spans.setdefault(tensor.untyped_storage().data_ptr(), []).append(span)
    for parts in spans.values():
        parts.sort()
        for (_, end, name), (start, _, other) in itertools.pairwise(parts):
            if start < end:
                raise RuntimeError(
                    f"Some tensors share memory, this will lead to duplicate memory on disk and potential differences "
                    f"when loading them again: {name!r} and {other!r}. Save one of them, or a clone."
                )


# --- reading -----------------------------------------------------------------------------------------------------------


class _Contents:
    """The header of a file. Every entry is checked before it is used."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        start = file.read(8)
        if len(start) < 8:
            raise SafetensorError("Error while deserializing header: header too small")
        length = int.from_bytes(start, "little")
        if length > _LONGEST_HEADER:
            raise SafetensorError("Error while deserializing header: header too large")
        if length > size - 8:
            raise SafetensorError("Error while deserializing header: invalid header length")
        self._start = 8 + length
        table = _table(file.read(length))
        self.metadata = table.pop("__metadata__", None)
        if self.metadata is not None and not _are_strings(self.metadata):
            raise SafetensorError("Error while deserializing header: the metadata are not strings")
        self.entries = {name: _entry(name, entry) for name, entry in table.items()}
        end = 0
        for name in self.in_order():
            first, last = self.entries[name][2:]
            if first != end:
                raise SafetensorError(f"Error while deserializing header: invalid offset for tensor {name!r}")
            end = last
        if end != size - self._start:
            raise SafetensorError(
                "Error while deserializing header: metadata incomplete, the file is not fully covered"
            )

    def in_order(self) -> list[str]:
        return sorted(self.entries, key=lambda name: (*self.entries[name][2:], name))

    def entry(self, name: str) -> tuple[Any, list[int], int, int]:
        if name not in self.entries:
            raise SafetensorError(f"File does not contain tensor {name}")
        return self.entries[name]

    def tensor(self, name: str, rows: range | None = None) -> torch.Tensor:
        """The whole tensor, or the given indices of its first dimension."""
        dtype, shape, first, last = self.entry(name)
        if rows is not None:
            row = (last - first) // max(shape[0], 1)
            first, last = first + rows.start * row, first + rows.stop * row
            shape = [len(rows), *shape[1:]]
        storage = torch.UntypedStorage(last - first)
        self._file.seek(self._start + first)
        rest = memoryview(storage)
        while rest:
            # The file may have been truncated since the header was read.
            count = self._file.readinto(rest)  # type: ignore[attr-defined] # exists in binary files
            if not count:
                raise SafetensorError(f"the file ends within tensor {name!r}")
            rest = rest[count:]
        strides, step = [], 1
        for length in reversed(shape):
            strides.append(step)
            step *= max(length, 1)
        return view_of(storage, dtype, 0, tuple(shape), tuple(reversed(strides)))


def _table(text: bytes) -> dict[str, Any]:
    try:
        table = json.loads(text.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise SafetensorError(f"Error while deserializing header: {error}") from None
    if not text.startswith(b"{") or not isinstance(table, dict):
        raise SafetensorError("Error while deserializing header: invalid header start")
    return table


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name occurs twice")
    return table


def _are_strings(metadata: Any) -> bool:
    return isinstance(metadata, dict) and all(isinstance(text, str) for text in metadata.values())


def _entry(name: str, entry: Any) -> tuple[Any, list[int], int, int]:
    try:
        dtype, shape, (first, last) = _NAMES[entry["dtype"]], entry["shape"], entry["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise SafetensorError(f"Error while deserializing header: tensor {name!r} is described as {entry!r}") from None
    numbers = [first, last, *shape] if isinstance(shape, list) else [None]
    if not all(type(number) is int and 0 <= number < 1 << 62 for number in numbers) or len(shape) > 64:
        raise SafetensorError(f"Error while deserializing header: tensor {name!r} is described as {entry!r}")
    if last - first != math.prod(shape) * dtype.itemsize:
        raise SafetensorError(f"Error while deserializing header: invalid shape, data type, or offset for {name!r}")
    return dtype, shape, first, last


def __dir__() -> list[str]:
    return __all__

"""``python -m rushlight inspect FILE``: shows what a file contains and what loading it would execute.

It calls only functions that create tensors and containers. It does not read the data of tensors: checkpoints are
mapped, and the headers of npz and safetensors files are sufficient. The format before torch 1.6 has no index, so that
such a file is read whole.
"""

import os
import pickle
import pickletools
import sys
import zipfile

import rushlight as torch
from rushlight import _C
from rushlight._utils import is_sparse

from .errors import translated
from .locations import restorer
from .reader import Checkpoint, opened
from .rebuild import find_known


def inspect(path: str) -> list[str]:
    """The report, line by line."""
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        head = file.read(16)
    if head.startswith(b"PK"):
        lines = _zip(path)
    elif len(head) > 8 and head[8:9] == b"{":
        lines = _safetensors(path)
    else:
        lines = _pickles(path)
    return [f"{path}: {size:,} bytes, {lines[0]}", *lines[1:]]


def unknown_globals(data):
    """The names in a pickle that `load` does not allow, including names that are called by opcodes it rejects."""
    try:
        return _C._pickle_globals(data)
    except _C._CheckpointError as error:
        try:
            return sorted(_named(data))
        except ValueError:
            raise error from None


def _named(data):
    strings = []
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in ("GLOBAL", "INST"):
            module, name = argument.split(" ", 1)
        elif opcode.name == "STACK_GLOBAL" and len(strings) >= 2:
            module, name = strings[-2:]
        else:
            strings += [argument] if isinstance(argument, str) else []
            continue
        if find_known(module, name) is None:
            yield f"{module}.{name}"


def _zip(path):
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if names and all(name.endswith(".npy") for name in names):
        from rushlight import npz

        return ["NumPy arrays (npz); loading executes no code", *_listed(npz.described(path))]
    reader = translated(lambda: _C._CheckpointReader(path))
    found = reader.names()
    if "constants.pkl" in found:
        return ["a TorchScript program; these records contain its code", *(f"  {name}" for name in sorted(found))]
    sizes = [reader.range(name)[1] for name in found if name.startswith("data/")]
    lines = [f"checkpoint in torch's zip format, {len(sizes)} storages of {sum(sizes):,} bytes"]
    unknown = translated(lambda: unknown_globals(reader.read("data.pkl")))
    return lines + _checkpoint(path, unknown, map_location="cpu", mapped=True)


def _safetensors(path):
    from rushlight import safetensors

    with safetensors.safe_open(path) as file:
        lines = ["safetensors; loading executes no code"]
        lines += [f"  metadata {name} = {text!r}" for name, text in (file.metadata() or {}).items()]
        return lines + _listed({name: file.get_slice(name).described() for name in file.keys()})


def _pickles(path):
    with open(path, "rb") as file:
        data = file.read()
    try:
        layout = translated(lambda: _C._legacy_layout(data))
    except (RuntimeError, pickle.UnpicklingError):
        try:
            return ["a bare pickle", *_executed(unknown_globals(data))]
        except _C._CheckpointError:
            raise pickle.UnpicklingError("not a checkpoint, a safetensors file, an npz archive or a pickle") from None
    lines = [f"checkpoint in the format before torch 1.6, {len(layout.keys)} storages"]
    return lines + _checkpoint(path, translated(lambda: unknown_globals(data[layout.start :])), map_location="meta")


class _Unbuilt:
    """A placeholder for an object of a class that is not allowed. It stores what the file passes to the object."""

    def __new__(cls, *given):
        self = super().__new__(cls)
        self.parts = list(given)
        self.append, self.extend = self.parts.append, self.parts.extend
        return self

    def __init__(self, *_):
        pass

    def __setitem__(self, key, value):
        self.parts.append({key: value})

    def __setstate__(self, state):
        self.parts.append(state)


def _checkpoint(path, unknown, map_location, mapped=False):
    stands = {name: type(name, (_Unbuilt,), {}) for name in set(unknown)}
    try:
        with opened(path) as source:
            found = Checkpoint(source, stands, restorer(map_location), mapped).read()
    except (ArithmeticError, AttributeError, LookupError, TypeError, pickle.UnpicklingError) as error:
        if unknown:
            return _executed(unknown)
        if isinstance(error, pickle.UnpicklingError):
            raise
        raise pickle.UnpicklingError(f"its contents cannot be created: {type(error).__name__}: {error}") from error
    return _executed(unknown) + _objects(found)


def _executed(unknown):
    if not unknown:
        return ["  contains only tensors and containers: loading executes no code"]
    lines = ["  WARNING: loading with weights_only=False would import and may execute (the default refuses):"]
    return lines + [f"    {name}" for name in sorted(set(unknown))]


def _objects(value, path="", seen=None):
    """The tensors in nested containers, each with its path."""
    seen = set() if seen is None else seen
    if isinstance(value, torch.Tensor):
        return [f"  {path or 'the object itself'}: {_described(value)}"]
    if isinstance(value, (torch.UntypedStorage, torch.storage.TypedStorage)):
        return [f"  {path or 'the object itself'}: storage of {value.nbytes():,} bytes"]
    if id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, _Unbuilt):
        lines = [f"  {path or 'the object itself'}: {type(value).__name__}, not built"]
        return lines + [line for part in value.parts for line in _objects(part, path, seen)]
    many = isinstance(value, (list, tuple, set, frozenset))
    parts = value.items() if isinstance(value, dict) else enumerate(value) if many else ()
    return [line for key, part in parts for line in _objects(part, f"{path}.{key}" if path else f"{key}", seen)]


def _listed(tensors):
    return [f"  {name}: {_described(tensor)}" for name, tensor in tensors.items()]


def _described(tensor):
    if is_sparse(tensor):
        return f"{str(tensor.dtype).rpartition('.')[2]} {tuple(tensor.shape)}, sparse with {tensor._nnz()} places"
    strides = "" if tensor.is_contiguous() else f", strides {tuple(tensor.stride())}"
    return f"{str(tensor.dtype).rpartition('.')[2]} {tuple(tensor.shape)}{strides}"


def _faults():
    """The exceptions that an unreadable file may raise."""
    from rushlight.safetensors import SafetensorError

    return (
        OSError,
        ValueError,
        RuntimeError,
        EOFError,
        MemoryError,
        pickle.UnpicklingError,
        zipfile.BadZipFile,
        SafetensorError,
    )


def main(arguments):
    if not arguments:
        sys.exit("usage: python -m rushlight inspect FILE...")
    status = 0
    for path in arguments:
        try:
            print("\n".join(inspect(path)))
        except _faults() as error:
            about = error.strerror if isinstance(error, OSError) and error.strerror else error
            print(f"{path}: {about}", file=sys.stderr)
            status = 1
    return status

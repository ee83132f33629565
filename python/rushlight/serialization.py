"""`save` and `load`: checkpoints in torch's zip format, both ways.

Loading executes nothing by default. The engine interprets the pickle's opcodes and refuses every name that is not
on a short list; what is left are plain values, and calls to the functions of `_checkpoint/rebuild.py`, which check
what they are given. Only `weights_only=False` hands the file to Python's own unpickler.

Saving goes through Python's pickler in its pure form, since only that can write torch's names for our classes; it
sees tensors as the few values that describe them, their bytes are records of their own.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from typing import Any

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
)
from ._checkpoint.reader import Checkpoint, opened
from ._checkpoint.writer import write
from ._replacing import replacing
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
        write(f, "archive", obj, pickle_protocol, compact, not _disable_byteorder_record)
        return
    path = os.fspath(f)
    folder = os.path.splitext(os.path.basename(path))[0]
    if not (folder and folder.isascii()):
        folder = "archive"
    with replacing(path) as target:
        write(target, folder, obj, pickle_protocol, compact, not _disable_byteorder_record)


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
    with opened(f) as source:
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
    with opened(f) as source:
        checkpoint = Checkpoint(source, _safe_names(), restorer(map_location), bool(mmap))
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


def __dir__() -> list[str]:
    return __all__


adopt(globals())

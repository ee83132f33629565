"""`save` and `load`: checkpoints in torch's zip format.

By default, loading executes no code of the file. The engine interprets the pickle's opcodes and rejects every name that is not
on a short list (`rust/io/src/pickle/policy.rs`). What is called is on this list too: the functions of `_checkpoint/rebuild.py`,
which validate their arguments, and a few classes of plain values (`OrderedDict`, `Counter`, `defaultdict`, `torch.Size`,
`torch.device`, `Parameter`). A program may add names by `add_safe_globals`. With `weights_only=False` Python's own unpickler reads the file.

Saving uses Python's pickler written in Python, because only this one can replace the names of rushlight's classes by
torch's. Tensors are pickled as a few values that describe them, and their bytes are separate records.
"""

from __future__ import annotations

import contextlib
import operator
import os
import pickle
from collections.abc import Callable
from mmap import MAP_PRIVATE as MAP_PRIVATE
from mmap import MAP_SHARED as MAP_SHARED
from typing import Any

import rushlight as torch
from rushlight._set_module import set_public_module
from rushlight._warnings import warn

from ._atomic_write import atomic_write
from ._checkpoint.allowed import safe_names
from ._checkpoint.errors import translated
from ._checkpoint.inspect import unknown_globals
from ._checkpoint.legacy_format import (
    INT_SIZE as INT_SIZE,
)  # as torch names them, for programs that read the old format
from ._checkpoint.legacy_format import LONG_SIZE as LONG_SIZE
from ._checkpoint.legacy_format import MAGIC_NUMBER as MAGIC_NUMBER
from ._checkpoint.legacy_format import PROTOCOL_VERSION as PROTOCOL_VERSION
from ._checkpoint.legacy_format import SHORT_SIZE as SHORT_SIZE
from ._checkpoint.locations import (
    default_restore_location,
    location_tag,
    register_package,
    restorer,
    validate_cuda_device,
)
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
from ._checkpoint.rebuild import _get_layout as _get_layout  # pickles of torch name it
from ._checkpoint.writer import write
from .utils.serialization import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    _File: TypeAlias = str | os.PathLike[str] | Any

MAP_LOCATION = Callable[[Any, str], Any] | torch.device | str | dict[str, str] | None

__all__ = [
    "LoadEndianness",
    "SourceChangeWarning",
    "add_safe_globals",
    "check_module_version_greater_or_equal",
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
    "normalize_storage_type",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
    "storage_to_tensor_type",
    "validate_cuda_device",
]

DEFAULT_PROTOCOL = 2
STORAGE_KEY_SEPARATOR = ","


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
    """Writes ``obj`` to the path or file object ``f`` in a format that `load` and torch can read.

    Views continue to share their storage, and saving a view of a large storage saves the whole storage.
    ``compact=True`` saves only the elements of each tensor. The file at a path is replaced atomically: a process that
    is killed while it saves leaves the old file. With ``_use_new_zipfile_serialization=False`` the file has the format
    before torch 1.6.

    Args:
        obj: tensors, modules' `state_dict`, or any objects around them that can be pickled.
        f: a path, or a file object with ``write``.
        pickle_module: must be Python's own pickle.
        pickle_protocol: the pickle protocol.
        compact: whether to save only the elements of each tensor; then views do not share memory after loading.

    Raises:
        RuntimeError: another pickle module is requested.
        AttributeError: ``f`` is neither a path nor a file.
        pickle.PicklingError: an object cannot be pickled.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.tensor([1.0, 2.0])}, file)
    >>> torch.load(io.BytesIO(file.getvalue()))
    {'weight': tensor([1., 2.])}
    """
    pickle_protocol = operator.index(pickle_protocol)
    if pickle_module is not pickle and pickle_module.__name__ not in ("pickle", "_pickle"):
        raise RuntimeError(f"save only works with Python's own pickle, not with {pickle_module.__name__}")
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if not _use_new_zipfile_serialization:
        from ._checkpoint import legacy_format

        with contextlib.nullcontext(f) if hasattr(f, "write") else atomic_write(os.fspath(f)) as target:
            legacy_format.write(target, obj, pickle_protocol, compact)
        return
    if hasattr(f, "write"):
        write(f, "archive", obj, pickle_protocol, compact, not _disable_byteorder_record)
        return
    path = os.fspath(f)
    folder = os.path.splitext(os.path.basename(path))[0]
    if not (folder and folder.isascii()):
        folder = "archive"
    with atomic_write(path) as target:
        write(target, folder, obj, pickle_protocol, compact, not _disable_byteorder_record)


# --- safe globals ------------------------------------------------------------------------------------------------------

_safe_globals: list = []


def add_safe_globals(safe_globals: list) -> None:
    """Allows `load` to create objects of these classes and to call these functions. A pair of an object and a name
    allows the object under that name. Names of the modules ``os``, ``posix``, ``nt`` and ``sys`` stay forbidden.

    >>> from fractions import Fraction
    >>> torch.serialization.add_safe_globals([Fraction])
    >>> torch.serialization.get_safe_globals()
    [<class 'fractions.Fraction'>]
    >>> torch.serialization.clear_safe_globals()
    """
    _safe_globals.extend(safe_globals)


def get_safe_globals() -> list:
    """A copy of the list of objects that `add_safe_globals` has allowed.

    >>> torch.serialization.get_safe_globals()
    []
    """
    return list(_safe_globals)


def clear_safe_globals() -> None:
    """Removes everything that `add_safe_globals` has allowed.

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


def get_unsafe_globals_in_checkpoint(f: _File) -> list[str]:
    """The names in a file that `load` does not allow. Nothing is created or called.

    Raises:
        ValueError: the file is not a zip archive written by `save`.

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
    known = safe_names(_safe_globals)
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
    """Reads an object that `save` or torch wrote to the path or file object ``f``.

    By default no code in the file is executed. The file may contain tensors, numbers, strings, dicts, lists and similar
    types, and everything that `add_safe_globals` allows.

    Args:
        f: a path, or a readable and seekable file object.
        map_location: the device of storages: a device, its name, a dict from name to name, or a function of a storage
            and the name of the device in the file.
        pickle_module: the module that reads the file if ``weights_only`` is false.
        weights_only: False executes code in the file. Use it only for files that you trust.
        mmap: True maps the file of a path instead of reading it. Writes to these tensors do not change the file (see
            `set_default_mmap_options`). If another process truncates the file, the next call that reads the tensor
            raises an error. The default comes from `torch.utils.serialization.config`.
        pickle_load_args: arguments for ``pickle_module``.

    Raises:
        FileNotFoundError: no such file.
        pickle.UnpicklingError: the file contains a name that is not allowed; the message shows it.
        RuntimeError: the file is malformed, or a TorchScript program; ``pickle_module`` is given with ``weights_only``;
            or ``map_location`` leads to a device that is not there.
        ValueError: ``mmap`` is true for a file object.
        TypeError: an argument in ``pickle_load_args`` does not exist.
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
        if unknown := [name for name in pickle_load_args if name != "encoding"]:
            raise TypeError(f"Unpickler.__init__() got an unexpected keyword argument '{unknown[0]}'")
    mmap = config.load.mmap if mmap is None else mmap
    if isinstance(f, (str, os.PathLike)):
        if os.fspath(f).endswith(".safetensors"):
            return _load_safetensors(f, map_location)
    elif mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    with opened(f) as source:
        checkpoint = Checkpoint(source, safe_names(_safe_globals), restorer(map_location), bool(mmap))
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


# --- helpers that libraries import -------------------------------------------------------------------------------------


class SourceChangeWarning(Warning):
    """The warning about a class that has changed since a file was written. Files have not had sources for long.

    >>> issubclass(torch.serialization.SourceChangeWarning, Warning)
    True
    """


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[int, ...], error_if_malformed: bool = True
) -> bool:
    """Whether the version of a module is at least the given one.

    Raises:
        RuntimeError: the version is no list of numbers, and ``error_if_malformed``; otherwise there is a warning.

    >>> torch.serialization.check_module_version_greater_or_equal(torch, (0, 1))
    True
    """
    try:
        parts = module.__version__.split(".")
        found = tuple(type(part)(text) for part, text in zip(req_version_tuple, parts))
    except Exception as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared with "
            f"tuple {req_version_tuple!s}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        warn(f"{message}, but continuing assuming that requirement is met")
        return True
    return found >= req_version_tuple


def normalize_storage_type(storage_type: Any) -> Any:
    """The class of storages in `torch` for a class of storages in `torch.cuda`.

    >>> torch.serialization.normalize_storage_type(torch.FloatStorage) is torch.FloatStorage
    True
    """
    import rushlight as torch

    return getattr(torch, storage_type.__name__)


def storage_to_tensor_type(storage: Any) -> Any:
    """The class of tensors for a typed storage.

    >>> torch.serialization.storage_to_tensor_type(torch.FloatStorage(1)) is torch.FloatTensor
    True
    """
    import rushlight as torch

    return getattr(torch, storage.pickle_storage_type().replace("Storage", "Tensor"))


def __dir__() -> list[str]:
    return __all__


set_public_module(globals())

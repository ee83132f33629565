"""Defaults of `save` and `load`: functions that read and write `torch.utils.serialization.config`."""

from __future__ import annotations

import enum
import mmap
import os
import threading
from typing import Any

from rushlight._warnings import warn
from rushlight.utils.serialization import config


class LoadEndianness(enum.Enum):
    """The byte order of checkpoints that do not record one.

    >>> torch.serialization.LoadEndianness.LITTLE.value
    2
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


def get_default_load_endianness() -> LoadEndianness | None:
    """The value set with `set_default_load_endianness`.

    >>> torch.serialization.get_default_load_endianness()
    """
    return config.load.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Sets the byte order that `load` assumes for files that do not record one. None is the byte order of this machine.

    Raises:
        TypeError: the argument is not a `LoadEndianness`.

    >>> torch.serialization.set_default_load_endianness(None)
    """
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    config.load.endianness = endianness


def get_crc32_options() -> bool:
    """The value set with `set_crc32_options`.

    >>> torch.serialization.get_crc32_options()
    True
    """
    return config.save.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Sets whether `save` computes checksums. A file without them has zeros in their place: `load` reads it, and
    other programs may warn about it.

    >>> torch.serialization.set_crc32_options(True)
    """
    config.save.compute_crc32 = compute_crc32


def get_default_mmap_options() -> int | None:
    """The value set with `set_default_mmap_options`.

    >>> import mmap
    >>> torch.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    True
    """
    return config.load.mmap_flags


class set_default_mmap_options:
    """Sets, permanently or for a block, whether writes to tensors of ``load(..., mmap=True)`` change the file.

    Args:
        flags: with `mmap.MAP_PRIVATE` writes stay in the process; with `mmap.MAP_SHARED` they change the file. Its
            checksums are wrong then, so that it can only be loaded with ``mmap=True``.

    Raises:
        ValueError: the flags are invalid.

    >>> import mmap
    >>> with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
    ...     torch.serialization.get_default_mmap_options() == mmap.MAP_SHARED
    True
    """

    def __init__(self, flags: int) -> None:
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"but got {flags}"
            )
        self.prev = config.load.mmap_flags
        config.load.mmap_flags = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        config.load.mmap_flags = self.prev


class _Thread(threading.local):
    skip_data = False


_thread = _Thread()


class skip_data:
    """Inside the block, `save` reserves space for the bytes of storages without writing them, and `load` allocates
    storages without reading them. The program transfers the bytes in another way.

    Args:
        materialize_fake_tensors: accepted; it has no effect, because there are no fake tensors.

    >>> import io
    >>> file = io.BytesIO()
    >>> with torch.serialization.skip_data():
    ...     torch.save(torch.ones(2), file)
    >>> torch.load(io.BytesIO(file.getvalue()))
    tensor([0., 0.])
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self._before = _thread.skip_data
        _thread.skip_data = True

    def __exit__(self, *exception: object) -> None:
        _thread.skip_data = self._before


def skipping_data() -> bool:
    return _thread.skip_data


def only_weights(weights_only: bool | None, pickle_module: Any) -> bool:
    """The value of ``weights_only``, from the call and from the environment."""
    always, never = _is_set("TORCH_FORCE_WEIGHTS_ONLY_LOAD"), _is_set("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    if always and never:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, but both "
            "were set."
        )
    if always:
        return True
    if never and weights_only is None:
        warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the `weights_only` argument was not "
            "explicitly passed to `torch.load`, forcing weights_only=False."
        )
        return False
    return pickle_module is None if weights_only is None else weights_only


def _is_set(name: str) -> bool:
    return os.environ.get(name, "0").lower() in ("1", "y", "yes", "true")

"""The settings of `torch.save` and `torch.load` for the whole process. Assign them, or `patch` them for a block.

>>> from rushlight.utils.serialization import config
>>> config.save.storage_alignment
64
"""

from __future__ import annotations

import contextlib
import mmap as _mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight.serialization import LoadEndianness

__all__ = ["load", "patch", "save"]


class load:
    """Settings of `torch.load`.

    ``mmap``: whether paths are mapped if ``mmap=`` is not given. ``endianness``: the byte order of files that do not
    record one (None for this machine's). ``mmap_flags``: whether mappings are private (`mmap.MAP_PRIVATE`) or change
    the file (`mmap.MAP_SHARED`). ``calculate_storage_offsets`` has no effect: offsets always come from the archive's
    directory.

    >>> from rushlight.utils.serialization import config
    >>> config.load.mmap
    False
    """

    mmap: bool = False
    endianness: LoadEndianness | None = None
    mmap_flags: int | None = _mapping.MAP_PRIVATE
    calculate_storage_offsets: bool = False


class save:
    """Settings of `torch.save`.

    Every record of an archive begins at a multiple of ``storage_alignment``. The other two have no effect: checksums
    are always written, and storages on a GPU are copied to ordinary memory.

    >>> from rushlight.utils.serialization import config
    >>> config.save.compute_crc32
    True
    """

    compute_crc32: bool = True
    use_pinned_memory_for_d2h: bool = False
    storage_alignment: int = 64


@contextlib.contextmanager
def patch(settings: str | dict[str, Any], value: Any = None) -> Iterator[None]:
    """Changes settings for a block or, as a decorator, for a function.

    Args:
        settings: the name of a setting, or a dict from names to values.
        value: the value, if a name is given.

    Raises:
        AttributeError: there is no such setting.

    >>> from rushlight.utils.serialization import config
    >>> with config.patch("save.storage_alignment", 4096):
    ...     config.save.storage_alignment
    4096
    """
    wanted = {settings: value} if isinstance(settings, str) else settings
    before = [(*_found(name), new) for name, new in wanted.items()]
    try:
        for group, name, _, new in before:
            setattr(group, name, new)
        yield
    finally:
        for group, name, old, _ in before:
            setattr(group, name, old)


def _found(path: str) -> tuple[type, str, Any]:
    group_name, _, name = path.partition(".")
    group = {"load": load, "save": save}.get(group_name)
    if group is None or name not in group.__annotations__:
        raise AttributeError(f"torch.utils.serialization.config has no setting {path!r}")
    return group, name, getattr(group, name)


def __dir__() -> list[str]:
    return __all__

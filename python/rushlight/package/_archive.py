"""The files of a package: those of an archive that torch wrote, or of its folder."""

from __future__ import annotations

import os
from pathlib import Path

from rushlight import _C
from rushlight._checkpoint.errors import translated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any


class Folder:
    """The files below a folder. No other file can be read, whatever its name is."""

    def __init__(self, path: str) -> None:
        self._root = Path(path)
        self._names = {
            file.relative_to(self._root).as_posix()
            for file in self._root.rglob("*")
            if file.is_file() and not file.is_symlink()
        }

    def names(self) -> list[str]:
        return sorted(self._names)

    def read(self, name: str) -> bytes:
        if name not in self._names:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found.")
        return (self._root / name).read_bytes()


class Archive:
    """The records of an archive, which the engine's reader of checkpoints checks."""

    def __init__(self, source: str | bytes) -> None:
        self._reader = translated(lambda: _C._CheckpointReader(source))

    def names(self) -> list[str]:
        return sorted(self._reader.names())

    def read(self, name: str) -> bytes:
        return translated(lambda: self._reader.read(name))


def opened(file: Any) -> tuple[str, Folder | Archive]:
    """The name of a package, and its files."""
    if not isinstance(file, (str, os.PathLike)):
        return "<binary>", Archive(_contents(file))
    path = os.fspath(file)
    if os.path.isdir(path):
        return path, Folder(path)
    try:
        open(path, "rb").close()
    except OSError as error:
        raise RuntimeError(
            f"open file failed because of errno {error.errno} on fopen: {error.strerror}, file path: {path}"
        ) from error
    return path, Archive(path)


def _contents(file: IO[bytes]) -> bytes:
    file.tell()
    return bytes(file.read())

"""Files that are replaced at once: nobody ever sees half of one, and a kill leaves the old one.

The new file has no name while it is written, so that the system takes it back if this process is killed. Only a file with a
name can take another's place: it gets one for that moment, and what a kill just then leaves there, or at any time on a file
system where every file has a name, goes when the same file is saved again. The name ends in a digest, so that nobody's own
file has it, and a lock tells a leftover from the file of a process that lives.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import itertools
import os
import shutil
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _Made = TypeVar("_Made")

#: As many links as the system follows.
_LINKS = 40


@contextlib.contextmanager
def replacing(path: str):
    """A path to write to; what is there at the end of the block becomes the file at `path`, or where the links there lead.

    What cannot be replaced is written to as it is: a pipe, a device, an open file by its number, and a file in a folder that
    takes no new ones.
    """
    if not path or path.endswith(os.sep):
        raise RuntimeError(f"invalid file name: {f'{path!r} is a folder' if path else 'the path is empty'}")
    given, (path, is_open) = path, _followed(path)
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        raise RuntimeError(f"Parent directory {os.path.dirname(given) or parent} does not exist.")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory")
    old = None
    with contextlib.suppress(FileNotFoundError):
        old = os.stat(path)
    if is_open or (old is not None and not stat.S_ISREG(old.st_mode)):
        yield path
        return
    if old is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), given)
    _leave_the_cache(path)
    with _folder(parent) as folder:
        # A new file has the rights that the process gives its files, one that is replaced keeps its own.
        mode = 0o666 if old is None else 0o600
        temporary = None
        try:
            handle = os.open(parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode)
        except OSError:
            try:
                temporary, handle = _created(os.path.basename(path), folder, mode)
            except OSError as error:
                if old is None or not isinstance(error, PermissionError):
                    raise OSError(error.errno, error.strerror, given) from None
                yield path
                return
        try:
            yield f"/proc/self/fd/{handle}" if temporary is None else os.path.join(parent, temporary)
            if old is not None:
                _take_after(handle, path, old)
            if temporary is None:
                temporary = _linked(handle, os.path.basename(path), folder)
            try:
                os.replace(temporary, path, src_dir_fd=folder)
            except PermissionError:  # another user's file in a folder like /tmp
                os.unlink(temporary, dir_fd=folder)
                _copy(handle, path)
        except BaseException:
            if temporary is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
            raise
        finally:
            os.close(handle)


def _followed(path: str) -> tuple[str, bool]:
    """Where the links of a path lead; and whether to what a process holds open, which may have no name, or another one."""
    for _ in range(_LINKS):
        folder, name = os.path.split(path)
        path = os.path.join(os.path.realpath(folder), name)
        if path.startswith("/proc/") and os.path.basename(os.path.dirname(path)) == "fd":
            return path, True
        if not os.path.islink(path):
            return path, False
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _take_after(handle: int, path: str, old: os.stat_result) -> None:
    """Gives the new file the old one's owner, attributes and rights, as far as this process may."""
    with contextlib.suppress(OSError):
        os.fchown(handle, old.st_uid, old.st_gid)
    with contextlib.suppress(OSError):
        for name in os.listxattr(path):
            os.setxattr(handle, name, os.getxattr(path, name))
    os.fchmod(handle, stat.S_IMODE(old.st_mode))


def _copy(handle: int, path: str) -> None:
    os.lseek(handle, 0, os.SEEK_SET)
    with open(handle, "rb", closefd=False) as new, open(path, "wb") as file:
        shutil.copyfileobj(new, file)


@contextlib.contextmanager
def _folder(path: str):
    handle = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def _linked(handle: int, name: str, folder: int) -> str:
    """The name that a file without one is given, next to the file of this name."""
    _lock(handle)  # before anybody can see it

    def link(temporary: str) -> None:
        os.link(f"/proc/self/fd/{handle}", temporary, dst_dir_fd=folder, follow_symlinks=True)

    return _first_free(name, folder, link)[0]


def _created(name: str, folder: int, mode: int) -> tuple[str, int]:
    """A new file next to the one of this name: its own name and a handle."""

    def create(temporary: str) -> int:
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode, dir_fd=folder)
        _lock(handle)
        if not _is_at(handle, temporary, folder):
            os.close(handle)
            raise FileExistsError("another process took it for a leftover before it was locked")
        return handle

    return _first_free(name, folder, create)


def _first_free(name: str, folder: int, make: Callable[[str], _Made]) -> tuple[str, _Made]:
    """A name that a new file may have until it takes its place, and what `make` made there. The names are tried in the same
    order each time, so that what a killed process left at one of them is found."""
    encoded = os.fsencode(name)
    stem = f".{os.fsdecode(encoded[:200])}.rushlight-{hashlib.blake2b(encoded, digest_size=8).hexdigest()}"
    for number in itertools.count():
        temporary = f"{stem}-{number}"
        _remove_leftover(temporary, folder)
        with contextlib.suppress(FileExistsError):
            return temporary, make(temporary)
    raise AssertionError("numbers do not end")


def _remove_leftover(name: str, folder: int) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(handle, name, folder):
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(handle)


def _lock(handle: int) -> None:
    # Where there are no locks nobody removes what he did not make.
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX)


def _is_at(handle: int, name: str, folder: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _leave_the_cache(path: str):
    """Gives back the memory in which the system keeps the old file, so that the new one need not find as much again: on a
    machine that has to fetch it, saving took three times as long. The old file itself stays."""
    with contextlib.suppress(OSError), open(path, "rb") as old:
        os.posix_fadvise(old.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

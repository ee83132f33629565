"""Replaces files atomically: readers never see a half-written file, and a killed process leaves the old file.

The new file has no name while it is written, so that the system removes it if this process is killed. Only a file with
a name can replace another file, so it gets a temporary name just before. A kill at this moment (or at any time, on a
file system without unnamed files) leaves the temporary file. The next save of the same file removes it. The temporary
name ends in a digest, so that it cannot collide with a user's file, and a lock shows whether its process is still
alive.
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

#: The number of symbolic links that the system follows.
_LINKS = 40


@contextlib.contextmanager
def atomic_write(path: str):
    """Yields a path to write to. When the block ends, that file replaces the one at `path` (after following links).

    Targets that cannot be replaced are written directly: a pipe, a device, an open file given by its number, and a file
    in a folder that accepts no new files. A file that is itself a mount (as containers have) is overwritten once the
    new contents are complete.
    """
    if not path or path.endswith(os.sep):
        raise RuntimeError(f"invalid file name: {f'{path!r} is a folder' if path else 'the path is empty'}")
    given, (path, is_open) = path, _resolve_links(path)
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
    _drop_page_cache(path)
    with _folder(parent) as folder:
        # A new file gets the process's default permissions. A replaced file keeps its own.
        mode = 0o666 if old is None else 0o600
        temporary = None
        try:
            handle = os.open(parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode)
        except OSError:
            try:
                temporary, handle = _create_temporary(os.path.basename(path), folder, mode)
            except OSError as error:
                if old is None or not isinstance(error, PermissionError):
                    raise OSError(error.errno, error.strerror, given) from None
                yield path
                return
        try:
            yield f"/proc/self/fd/{handle}" if temporary is None else os.path.join(parent, temporary)
            if old is not None:
                _copy_metadata(handle, path, old)
            if temporary is None:
                temporary = _link_unnamed(handle, os.path.basename(path), folder)
            try:
                os.replace(temporary, path, src_dir_fd=folder)
            except OSError as error:
                # Another user's file in a folder like /tmp, and a file that is itself a mount, as in a container.
                if not isinstance(error, PermissionError) and error.errno not in (errno.EBUSY, errno.EXDEV):
                    raise
                _reserve(handle, path)
                # From here on the temporary file is kept until the copy is complete: a process that is killed leaves
                # all bytes in one of the two.
                complete, temporary = temporary, None
                _copy(handle, path)
                os.unlink(complete, dir_fd=folder)
        except BaseException:
            if temporary is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
            raise
        finally:
            os.close(handle)


def _resolve_links(path: str) -> tuple[str, bool]:
    """The target of a path after following links; and whether it is a file that a process holds open (``/proc``)."""
    for _ in range(_LINKS):
        folder, name = os.path.split(path)
        path = os.path.join(os.path.realpath(folder), name)
        if path.startswith("/proc/") and os.path.basename(os.path.dirname(path)) == "fd":
            return path, True
        if not os.path.islink(path):
            return path, False
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _copy_metadata(handle: int, path: str, old: os.stat_result) -> None:
    """Copies owner, attributes and permissions of the old file to the new one, as far as this process may."""
    with contextlib.suppress(OSError):
        os.fchown(handle, old.st_uid, old.st_gid)
    with contextlib.suppress(OSError):
        for name in os.listxattr(path):
            os.setxattr(handle, name, os.getxattr(path, name))
    os.fchmod(handle, stat.S_IMODE(old.st_mode))


def _reserve(handle: int, path: str) -> None:
    """Makes room for the contents of an open file at a path, so that a full disk is reported before a byte changes."""
    with open(path, "r+b") as file:
        before = os.fstat(file.fileno()).st_size
        try:
            os.posix_fallocate(file.fileno(), 0, max(1, os.fstat(handle).st_size))
        except OSError as error:
            file.truncate(before)
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise


def _copy(handle: int, path: str) -> None:
    """Overwrites the file at a path with the contents of an open file."""
    os.lseek(handle, 0, os.SEEK_SET)
    with open(handle, "rb", closefd=False) as new, open(path, "r+b") as file:
        shutil.copyfileobj(new, file)
        file.truncate()


@contextlib.contextmanager
def _folder(path: str):
    handle = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def _link_unnamed(handle: int, name: str, folder: int) -> str:
    """Gives an unnamed file a name next to the file with this name."""
    _lock(handle)  # before other processes can see it

    def link(temporary: str) -> None:
        os.link(f"/proc/self/fd/{handle}", temporary, dst_dir_fd=folder, follow_symlinks=True)

    return _first_free(name, folder, link)[0]


def _create_temporary(name: str, folder: int, mode: int) -> tuple[str, int]:
    """Creates a temporary file next to the file with this name. Returns its name and a handle."""

    def create(temporary: str) -> int:
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode, dir_fd=folder)
        _lock(handle)
        if not _is_at(handle, temporary, folder):
            os.close(handle)
            raise FileExistsError("another process removed it as a leftover before it was locked")
        return handle

    return _first_free(name, folder, create)


def _first_free(name: str, folder: int, make: Callable[[str], _Made]) -> tuple[str, _Made]:
    """Finds a free temporary name. Returns it and the result of `make`. The names are tried in a fixed order, so that
    leftovers of killed processes are found."""
    encoded = os.fsencode(name)
    stem = f".{os.fsdecode(encoded[:200])}.rushlight-{hashlib.blake2b(encoded, digest_size=8).hexdigest()}"
    for number in itertools.count():
        temporary = f"{stem}-{number}"
        _remove_leftover(temporary, folder)
        with contextlib.suppress(FileExistsError):
            return temporary, make(temporary)
    raise AssertionError("unreachable")


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
    # On a file system without locks, nobody removes files of other processes.
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX)


def _is_at(handle: int, name: str, folder: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _drop_page_cache(path: str):
    """Releases the page cache of the old file, so that the new one can use this memory. On a machine that is short of
    free memory, saving took three times as long without this. The old file is not deleted."""
    with contextlib.suppress(OSError), open(path, "rb") as old:
        os.posix_fadvise(old.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

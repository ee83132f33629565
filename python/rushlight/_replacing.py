"""Files that are replaced at once: nobody ever sees half of one, and a kill leaves the old one.

The new file has no name while it is written, so that the system takes it back if this process is killed. Only a file with a
name can take another's place: it gets one for that moment (`.FILE.rushlight`), and what a kill just then leaves there, or at any
time on a file system where every file has a name, goes when the same file is saved again. A lock tells it from the file of
a process that lives.
"""

import contextlib
import fcntl
import os
import secrets
import stat


@contextlib.contextmanager
def replacing(path: str):
    """A path to write to; what is there at the end of the block becomes the file at `path`, or where the links there lead."""
    if not path:
        raise RuntimeError("invalid file name: the path is empty")
    given, path = path, os.path.realpath(path)  # a link stays one
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        raise RuntimeError(f"Parent directory {os.path.dirname(given) or parent} does not exist.")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory")
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        yield path  # a pipe or a device cannot be replaced
        return
    mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else None
    # A new file has the rights that the process gives its files, one that is replaced keeps its own.
    first = 0o666 if mode is None else 0o600
    _leave_the_cache(path)
    with _folder(parent) as folder:
        try:
            handle = os.open(parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, first)
            temporary = None
        except OSError:
            temporary, handle = _created(os.path.basename(path), folder, first)
        try:
            yield f"/proc/self/fd/{handle}" if temporary is None else os.path.join(parent, temporary)
            if mode is not None:
                os.fchmod(handle, mode)
            if temporary is None:
                temporary = _linked(handle, os.path.basename(path), folder)
            os.replace(temporary, path, src_dir_fd=folder)
        except BaseException:
            if temporary is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
            raise
        finally:
            os.close(handle)


@contextlib.contextmanager
def _folder(path: str):
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def _linked(handle: int, name: str, folder: int) -> str:
    """The name that a file without one is given, next to the file of this name."""
    _lock(handle)  # before anybody can see it
    for temporary in _names(name, folder):
        with contextlib.suppress(FileExistsError):
            os.link(f"/proc/self/fd/{handle}", temporary, dst_dir_fd=folder, follow_symlinks=True)
            return temporary
    raise AssertionError("names do not end")


def _created(name: str, folder: int, mode: int) -> tuple[str, int]:
    """A new file next to the one of this name: its own name and a handle."""
    for temporary in _names(name, folder):
        with contextlib.suppress(FileExistsError):
            handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode, dir_fd=folder)
            _lock(handle)
            if _is_at(handle, temporary, folder):
                return temporary, handle
            os.close(handle)  # another process took it for a leftover before it was locked
    raise AssertionError("names do not end")


def _names(name: str, folder: int):
    """The names that a new file may have until it takes its place; the first is the same each time, so that what a killed
    process left there is found."""
    stem = "." + os.fsdecode(os.fsencode(name)[:200])
    _remove_leftover(f"{stem}.rushlight", folder)
    yield f"{stem}.rushlight"
    while True:
        yield f"{stem}.{secrets.token_hex(4)}"


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

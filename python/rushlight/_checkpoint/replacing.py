"""Files that are replaced at once: nobody ever sees half of one, and a kill leaves the old one and nothing else."""

import contextlib
import os
import secrets
import stat
import tempfile


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
    mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o666 & ~_umask()
    _leave_the_cache(path)
    try:
        # Without a name, so that the system takes it back if this process is killed.
        handle = os.open(parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        with _named(path, parent, mode) as temporary:
            yield temporary
        return
    try:
        yield f"/proc/self/fd/{handle}"
        os.fchmod(handle, mode)
        temporary = f".{os.path.basename(path)}.{secrets.token_hex(4)}"
        folder = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # A link cannot take the place of a file, but a file with a name can.
            os.link(f"/proc/self/fd/{handle}", temporary, dst_dir_fd=folder, follow_symlinks=True)
            os.replace(temporary, path, src_dir_fd=folder)
        finally:
            os.close(folder)
    finally:
        os.close(handle)


def _leave_the_cache(path: str):
    """Gives back the memory in which the system keeps the old file, so that the new one need not find as much again: on a
    machine that has to fetch it, saving took three times as long. The old file itself stays."""
    with contextlib.suppress(OSError), open(path, "rb") as old:
        os.posix_fadvise(old.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextlib.contextmanager
def _named(path: str, parent: str, mode: int):
    """For file systems where every file has a name."""
    handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=parent)
    os.close(handle)
    try:
        yield temporary
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

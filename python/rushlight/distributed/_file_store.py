"""A store in a file that several processes read and write, for example on a network file system."""

import fcntl
import os
import struct
import time

from rushlight._set_module import set_module
from rushlight.distributed.store import DistNetworkError, DistStoreError, Store, _refused

_RECORD = struct.Struct("<BII")
_SET, _DELETE = 1, 2
#: A longer key or value comes from no process of ours.
_LONGEST = 1 << 30
_OPEN = b"open/"


class FileStore(Store):
    """A store in a file. Every change is appended under the file's lock, so that a killed process leaves none half made.

    Args:
        file_name: the path. All processes use the same one; the file is made if it is missing.
        world_size: how many processes use it. The last of them to drop its store removes the file.

    Raises:
        DistNetworkError: the file cannot be opened, or holds something else.
        DistStoreError: it cannot be locked, read or written.

    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = torch.distributed.FileStore(os.path.join(folder, "store"), 1)
    ...     store.set("key", "value")
    ...     store.get("key")
    b'value'
    """

    def __init__(self, file_name, world_size=-1):
        if not hasattr(world_size, "__index__"):
            raise _refused(self, f"the size of the world {world_size!r} is no integer")
        self._path, self._world_size = os.fspath(file_name), world_size
        self._values: dict[bytes, bytes] = {}
        self._at, self._pid = 0, os.getpid()
        self._file = self._open()
        while not self._locked(self._enter):
            # The last process of a group before has removed the file between its opening and its lock.
            os.close(self._file)
            self._file, self._values, self._at = self._open(), {}, 0

    @property
    def path(self):
        """The path of the file."""
        return self._path

    def _open(self):
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DistNetworkError(f"The store cannot open {self._path}: {error.strerror}") from None

    def _enter(self):
        """Counts this process, unless the file is no longer the one at the path. The lock is held."""
        try:
            now, own = os.stat(self._path), os.fstat(self._file)
        except FileNotFoundError:
            return False
        if (now.st_dev, now.st_ino) != (own.st_dev, own.st_ino):
            return False
        self._append({_OPEN: b"%d" % (int(self._values.get(_OPEN, b"0")) + 1)})
        return True

    def _exit(self):
        """Counts this process no longer. The last one removes the file, under the lock, so that none that joins loses its values."""
        self._append({_OPEN: b"%d" % (int(self._values.get(_OPEN, b"0")) - 1)})
        if self._world_size > 0 and self._values.get(_OPEN) == b"0":
            os.unlink(self._path)

    def _locked(self, work):
        if self._pid != os.getpid():
            # A lock belongs to an open file, which a forked child shares with its parent.
            self._file, self._pid = self._open(), os.getpid()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                self._read()
                return work()
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError as error:
            raise DistStoreError(
                f"{error.strerror}\n  The store cannot use {self._path}: give the path of a file of its own."
            ) from None

    def _read(self):
        """Reads what other processes have appended. An incomplete last record is of a process that was killed."""
        size = os.fstat(self._file).st_size
        while self._at + _RECORD.size <= size:
            kind, key_size, value_size = _RECORD.unpack(os.pread(self._file, _RECORD.size, self._at))
            if kind not in (_SET, _DELETE) or key_size > _LONGEST or value_size > _LONGEST:
                raise DistNetworkError(f"{self._path} is not the file of a store\n  Remove it, or use another path.")
            end = self._at + _RECORD.size + key_size + value_size
            if end > size:
                break
            both = os.pread(self._file, key_size + value_size, self._at + _RECORD.size)
            key, value = both[:key_size], both[key_size:]
            if kind == _SET:
                self._values[key] = value
            else:
                self._values.pop(key, None)
            self._at = end

    def _change(self, changes):
        """Applies what a function of the values returns: new values by key, or None for keys to delete."""
        self._locked(lambda: self._append(changes(self._values)))

    def _append(self, changes):
        """Writes changes at the end of the file. The lock is held."""
        for key, value in changes.items():
            kind, stored = (_DELETE, b"") if value is None else (_SET, value)
            record = _RECORD.pack(kind, len(key), len(stored)) + key + stored
            os.ftruncate(self._file, self._at)
            written = 0
            while written < len(record):
                written += os.pwrite(self._file, record[written:], self._at + written)
            self._read()

    def _ask(self, name, *fields):
        if name in ("get", "check", "wait", "keys"):
            return self._look(name, fields)
        answer = []

        def changes(values):
            key, rest = fields[0], fields[1:]
            old = values.get(key)
            if name == "set":
                return {key: rest[0]}
            if name == "append":
                return {key: (old or b"") + rest[0]}
            if name == "delete":
                answer.append(old is not None)
                return {key: None} if old is not None else {}
            if name == "add":
                answer.append(int(old or b"0") + rest[0])
                return {key: b"%d" % answer[0]}
            expected, desired = rest
            agrees = expected == b"" if old is None else old == expected
            answer.append([desired if agrees else expected if old is None else old])
            return {key: desired} if agrees else {}

        self._change(changes)
        return answer[0] if answer else True

    def _look(self, name, keys):
        values = self._locked(lambda: dict(self._values))
        if name == "keys":
            return sorted(key for key in values if key != _OPEN)
        if name == "get":
            return [values[key] for key in keys] if all(key in values for key in keys) else False
        found = all(key in values for key in keys)
        if not found and name == "wait":
            time.sleep(0.01)
        return found

    def __del__(self):
        if not hasattr(self, "_file") or self._pid != os.getpid():
            return
        try:
            self._locked(self._exit)
        except (OSError, RuntimeError):
            pass  # the file, or its folder, is gone
        finally:
            os.close(self._file)


set_module("rushlight.distributed", FileStore)

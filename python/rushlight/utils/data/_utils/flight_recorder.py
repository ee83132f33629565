"""What a worker leaves behind when it dies: a page of anonymous memory shared with the parent.

Its first bytes say which task the worker is at, and at which sample of it; behind them Python's fault handler
writes the stack when a signal such as SIGSEGV ends the process, or when the parent asks where a worker hangs. The memory
has no name, so nothing can be left over.
"""

import contextlib
import faulthandler
import mmap
import os
import signal
import struct
from multiprocessing.reduction import DupFd

_SIZE = mmap.PAGESIZE
_NUMBER = struct.Struct("=q")
_STACK = 2 * _NUMBER.size
# A signal that programs leave alone.
_QUESTION = signal.SIGRTMAX - 1


#: The task of a worker that has begun none.
NO_TASK = -1


class FlightRecorder:
    def __init__(self, descriptor=None) -> None:
        is_new = descriptor is None
        if is_new:
            descriptor = os.memfd_create("rushlight-worker", os.MFD_CLOEXEC)
            os.ftruncate(descriptor, _SIZE)
        self._descriptor = descriptor
        self._page = mmap.mmap(descriptor, _SIZE)
        if is_new:
            self.begin(NO_TASK)

    def begin(self, task: int) -> None:
        """The worker is about to take the first sample of a task."""
        # The position first: who dies in between was at the end of the old task, and is never described by a sample that
        # the new one does not have.
        self.note(0)
        _NUMBER.pack_into(self._page, 0, task)

    def note(self, position: int) -> None:
        """The worker is about to take sample `position` of its task."""
        _NUMBER.pack_into(self._page, _NUMBER.size, position)

    @property
    def task(self) -> int:
        return _NUMBER.unpack_from(self._page, 0)[0]

    @property
    def position(self) -> int:
        return _NUMBER.unpack_from(self._page, _NUMBER.size)[0]

    def catch_faults(self) -> None:
        os.lseek(self._descriptor, _STACK, os.SEEK_SET)
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            faulthandler.enable(self._descriptor)
            faulthandler.register(_QUESTION, self._descriptor)

    @staticmethod
    def ask_for_stack(pid: int) -> None:
        """Has the process write where it is, whatever it is doing; one that is stopped will not."""
        with contextlib.suppress(OSError):
            os.kill(pid, _QUESTION)

    @property
    def stack(self) -> str:
        """The stack the fault handler wrote, or an empty string."""
        # At an offset: the place where a forked process writes next is this one's too.
        written = os.pread(self._descriptor, 1 << 20, _STACK)
        return written.rstrip(b"\0").decode("utf-8", "replace").rstrip()

    def close(self) -> None:
        self._page.close()
        os.close(self._descriptor)

    def __reduce__(self):
        # Only while a process is being started; the copy has a descriptor of its own.
        return _rebuild, (DupFd(self._descriptor),)


def _rebuild(duplicate) -> FlightRecorder:
    return FlightRecorder(duplicate.detach())

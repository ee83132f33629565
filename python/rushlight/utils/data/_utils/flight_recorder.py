"""A page of anonymous memory shared between a worker and its parent, which describes a worker that has ended.

Its first bytes identify the current task and sample of the worker. After them, Python's fault handler writes the stack
when a signal such as SIGSEGV ends the process, or when the parent requests it from a hanging worker. The memory has no
name, so that nothing remains.
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
# A signal that programs do not use.
_QUESTION = signal.SIGRTMAX - 1


#: The task of a worker that has not begun one.
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
        """Called before the worker loads the first sample of a task."""
        # The position is written first: a process that ends in between is described as at the end of the old task, and
        # never with a position that the new task does not have.
        self.note(0)
        _NUMBER.pack_into(self._page, 0, task)

    def note(self, position: int) -> None:
        """Called before the worker loads sample `position` of its task."""
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
        """Makes the process write its stack, whatever it does. A stopped process does not."""
        with contextlib.suppress(OSError):
            os.kill(pid, _QUESTION)

    @property
    def stack(self) -> str:
        """The stack that the fault handler wrote, or an empty string."""
        # Read at an offset, because forked processes share the file position.
        written = os.pread(self._descriptor, 1 << 20, _STACK)
        return written.rstrip(b"\0").decode("utf-8", "replace").rstrip()

    def close(self) -> None:
        """A second call has no effect."""
        self._page.close()
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __reduce__(self):
        # Used only while a process is being started. The duplicate has its own descriptor.
        return _rebuild, (DupFd(self._descriptor),)


def _rebuild(duplicate) -> FlightRecorder:
    return FlightRecorder(duplicate.detach())

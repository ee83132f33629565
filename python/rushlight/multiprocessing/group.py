"""Processes of one parent share the cores: by default each uses an equal part of them for its threads.

The parent stores the number of processes in shared memory, and every child reads it before a parallel loop.
`set_num_threads` and the environment variable take precedence.
"""

import multiprocessing
import os
import struct
from multiprocessing import process

from rushlight import _C

_COUNT = struct.Struct("=q")


class _Count:
    """The number of this process's children, in memory shared with them."""

    def __init__(self):
        self.pid = os.getpid()
        self.storage = _C.UntypedStorage(_COUNT.size).share_memory_()

    def set(self, number):
        _COUNT.pack_into(self.storage, 0, number)


_own: _Count | None = None


def _children():
    global _own
    if _own is None or _own.pid != os.getpid():
        _own = _Count()
    return _own


class Member(process.BaseProcess):
    """A process that counts itself among the children of its parent."""

    def start(self):
        children = _children()
        children.set(len(multiprocessing.active_children()) + 1)
        self._group = children.storage
        try:
            super().start()
        finally:
            del self._group

    def join(self, timeout=None):
        super().join(timeout)
        if _own is not None and _own.pid == os.getpid():
            _own.set(max(1, len(multiprocessing.active_children())))

    def _bootstrap(self, *args, **kwargs):
        _C._join_group(self._group)
        return super()._bootstrap(*args, **kwargs)

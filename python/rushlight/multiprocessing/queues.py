"""Queues over this package's channels. A reader or writer that is killed does not block the others.

There is no lock that a killed process could leave locked. Messages are datagrams (see ``channel``), counters are in the
kernel (``eventfd``), and the one lock, for bounded queues, is a file lock, which the kernel releases when its owner
ends.
"""

import collections
import fcntl
import os
import select
import threading
import time
import traceback
import weakref
from multiprocessing import context, queues, util
from queue import Empty, Full
from typing import Any

from . import bundle, channel
from .connection import Message, Pipe

_MOST = 2**31 - 1
"""The ``maxsize`` of an unbounded queue."""


class Counter:
    """A non-negative number that several processes increment and decrement."""

    def __init__(self, value=0):
        flags = os.EFD_SEMAPHORE | os.EFD_CLOEXEC | os.EFD_NONBLOCK
        self._attach(os.eventfd(value, flags))

    def _attach(self, descriptor):
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)
        self._close.atexit = False

    def raise_(self):
        os.eventfd_write(self._descriptor, 1)

    def lower(self, block=True, timeout=None):
        """Decrements the counter. Returns False if it was zero until the deadline."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                os.eventfd_read(self._descriptor)
                return True
            except BlockingIOError:
                if not block or not channel.wait(self._descriptor, select.POLLIN, deadline):
                    return False

    def value(self):
        with open(f"/proc/self/fdinfo/{self._descriptor}", encoding="ascii") as info:
            return next(int(line.split()[1], 16) for line in info if line.startswith("eventfd-count"))

    def __getstate__(self):
        return bundle.send_descriptor(self._descriptor)

    def __setstate__(self, place):
        self._attach(bundle.receive_descriptor(place))


#: The queues with their own threads and file descriptions in each process. The hooks of `multiprocessing` are not
#: sufficient: a process may fork without it.
_per_process: weakref.WeakSet = weakref.WeakSet()


def _reopen_in_child():
    for item in list(_per_process):
        item._begin()


os.register_at_fork(after_in_child=_reopen_in_child)


class RobustLock:
    """A lock between processes that is released when its owner ends.

    The kernel locks a file for an open file description. Each process has its own: a description inherited over
    ``fork`` would be the parent's.
    """

    _descriptor: Any = None

    def __init__(self):
        self._attach(os.memfd_create("rushlight-lock", os.MFD_CLOEXEC))

    def _attach(self, descriptor):
        self._descriptor = descriptor
        self._begin()
        _per_process.add(self)

    def _begin(self):
        # Threads of this process share the description, so that they need a lock among themselves.
        self._threads = threading.Lock()
        own = os.open(f"/proc/self/fd/{self._descriptor}", os.O_RDWR | os.O_CLOEXEC)
        os.close(self._descriptor)
        self._descriptor = own

    def __enter__(self):
        self._threads.acquire()
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_):
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._threads.release()

    def __getstate__(self):
        return bundle.send_descriptor(self._descriptor)

    def __setstate__(self, place):
        self._attach(bundle.receive_descriptor(place))

    def __del__(self):
        if self._descriptor is not None:
            os.close(self._descriptor)


class Queue(queues.Queue):
    """multiprocessing's ``Queue``. ``put`` itself pickles the object, so that pickling errors are raised there."""

    def __init__(self, maxsize=0, *, ctx=None):
        self._maxsize = maxsize if maxsize > 0 else _MOST
        self._reader, self._writer = Pipe(duplex=False)
        self._room = Counter(self._maxsize)
        # In a bounded queue a reader releases the slot before it takes the message, so that a kill in between does not
        # lose the slot. The lock prevents other readers from taking that message in the meantime.
        self._taking: Any = RobustLock() if maxsize > 0 else None
        self._ignore_epipe = False
        self._begin()
        _per_process.add(self)

    def __getstate__(self):
        context.assert_spawning(self)
        return self._maxsize, self._reader, self._writer, self._room, self._taking, self._ignore_epipe

    def __setstate__(self, state):
        self._maxsize, self._reader, self._writer, self._room, self._taking, self._ignore_epipe = state
        self._begin()
        _per_process.add(self)

    def _begin(self):
        self._closed = False
        # Attributes that `close`, `join_thread` and `cancel_join_thread` of the standard library use.
        self._close = self._jointhread = None
        self._joincancelled = False
        self._feeder: Any = None
        self._order = threading.Lock()

    def _check_open(self):
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")

    def put(self, obj, block=True, timeout=None):
        self._check_open()
        message = Message(obj)
        if not self._room.lower(block, timeout):
            raise Full
        self._count()
        try:
            self._send(message)
        except BaseException:
            self._give_up()()
            raise

    def _send(self, message):
        with self._order:
            # Messages must not overtake those that are waiting.
            if (self._feeder is None or self._feeder.is_idle()) and self._writer.send_message(message, block=False):
                return
            if self._feeder is None:
                self._start_feeder()
            self._feeder.add(message)

    def _count(self):
        """Called for each object that is put, before it can be received."""

    def _give_up(self):
        """Returns a function that frees what `put` reserved for an object that cannot be sent. It does not refer to the queue."""
        return self._room.raise_

    def get(self, block=True, timeout=None):
        self._check_open()
        deadline = None if timeout is None else time.monotonic() + timeout
        message = self._take(deadline, block) if self._taking is None else self._take_bounded(deadline, block)
        if message is None:
            raise Empty
        return bundle.unpack(*message)

    def _take(self, deadline, block):
        message = self._reader.recv_message(deadline, block)
        if message is not None:
            self._room.raise_()
        return message

    def _take_bounded(self, deadline, block):
        while True:
            if not (channel.wait(self._reader, select.POLLIN, deadline) if block else self._reader.poll()):
                return None
            with self._taking:
                if self._reader.poll():
                    self._room.raise_()
                    return self._reader.recv_message()

    def qsize(self):
        return self._maxsize - self._room.value()

    def empty(self):
        return not self._reader.poll()

    def full(self):
        return self._room.value() == 0

    def _start_feeder(self):
        self._feeder = feeder = Feeder(self._reader, self._writer, self._give_up(), self._ignore_epipe)
        feeder.start()
        if not self._joincancelled:
            self._jointhread = util.Finalize(feeder, _join, [weakref.ref(feeder)], exitpriority=-5)
        self._close = util.Finalize(self, feeder.finish, exitpriority=10)


class Feeder(threading.Thread):
    """A thread that sends messages for which the socket had no space, in order."""

    def __init__(self, reader, writer, give_up, ignore_epipe):
        super().__init__(name="QueueFeederThread", daemon=True)
        self._reader, self._writer, self._give_up = reader, writer, give_up
        self._ignore_epipe = ignore_epipe
        # A message stays here until it is sent. The semaphore counts the messages that were not processed yet.
        self._messages: collections.deque[Message | None] = collections.deque()
        self._some = threading.Semaphore(0)

    def is_idle(self):
        return not self._messages

    def add(self, message):
        self._messages.append(message)
        self._some.release()

    def finish(self):
        """Ends the thread after it has sent everything."""
        self.add(None)

    def run(self):
        while True:
            self._some.acquire()
            message = self._messages[0]
            if message is None:
                self._reader.close()
                self._writer.close()
                return
            try:
                self._writer.send_message(message)
            except OSError as error:
                self._give_up()
                if util.is_exiting():
                    util.info("error in queue thread: %s", error)
                    return
                if not (isinstance(error, BrokenPipeError) and self._ignore_epipe):
                    traceback.print_exc()
            finally:
                self._messages.popleft()


def _join(reference):
    feeder = reference()
    if feeder is not None:
        feeder.join()


class JoinableQueue(Queue):
    """A queue that counts its unfinished objects."""

    def __init__(self, maxsize=0, *, ctx=None):
        super().__init__(maxsize, ctx=ctx)
        self._unfinished = Counter()

    def __getstate__(self):
        return super().__getstate__(), self._unfinished

    def __setstate__(self, state):
        state, self._unfinished = state
        super().__setstate__(state)

    def _count(self):
        self._unfinished.raise_()

    def _give_up(self):
        room, unfinished = self._room, self._unfinished

        def give_up():
            room.raise_()
            unfinished.lower(block=False)

        return give_up

    def task_done(self):
        if not self._unfinished.lower(block=False):
            raise ValueError("task_done() called too many times")

    def join(self):
        # The kernel can wait until a counter is not zero, but not until it is zero.
        pause = 0.0001
        while self._unfinished.value():
            time.sleep(pause)
            pause = min(2 * pause, 0.01)


class SimpleQueue:
    """A pipe that any number of processes write and read. ``put`` waits while it is full."""

    def __init__(self, *, ctx=None):
        self._reader, self._writer = Pipe(duplex=False)

    def __getstate__(self):
        context.assert_spawning(self)
        return self._reader, self._writer

    def __setstate__(self, state):
        self._reader, self._writer = state

    def put(self, obj):
        self._writer.send(obj)

    def get(self):
        return self._reader.recv()

    def empty(self):
        return not self._reader.poll()

    def close(self):
        self._reader.close()
        self._writer.close()


__all__ = ["Empty", "Full", "JoinableQueue", "Queue", "SimpleQueue"]

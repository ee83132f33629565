"""Queues over our channels: a reader or writer that is killed never keeps the others from going on.

Nothing here is a lock that a dead process could leave closed. Messages are datagrams (see ``channel``), counters live in
the kernel (``eventfd``), and the one lock, of bounded queues, is one that the kernel opens when its holder dies.
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

from . import channel, parcel
from .connection import Message, Pipe

_MOST = 2**31 - 1
"""The bound of a queue without one."""


class Counter:
    """A number that several processes raise and lower, never below zero."""

    def __init__(self, value=0):
        flags = os.EFD_SEMAPHORE | os.EFD_CLOEXEC | os.EFD_NONBLOCK
        self._adopt(os.eventfd(value, flags))

    def _adopt(self, descriptor):
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)
        self._close.atexit = False

    def raise_(self):
        os.eventfd_write(self._descriptor, 1)

    def lower(self, block=True, timeout=None):
        """Takes one; False if there was none in time."""
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
        return parcel.send_descriptor(self._descriptor)

    def __setstate__(self, place):
        self._adopt(parcel.receive_descriptor(place))


#: What has threads and descriptions of its own in each process. The hooks of `multiprocessing` are not enough: a process may
#: fork without it.
_per_process: weakref.WeakSet = weakref.WeakSet()


def _renew():
    for item in list(_per_process):
        item._begin()


os.register_at_fork(after_in_child=_renew)


class DeathProofLock:
    """A lock between processes that opens when its holder dies.

    The kernel locks a file for an open file description. Each process has one of its own: a copy inherited over ``fork``
    would be the parent's.
    """

    _descriptor: Any = None

    def __init__(self):
        self._adopt(os.memfd_create("rushlight-lock", os.MFD_CLOEXEC))

    def _adopt(self, descriptor):
        self._descriptor = descriptor
        self._begin()
        _per_process.add(self)

    def _begin(self):
        # Threads of this process share the description, so they need a lock among themselves.
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
        return parcel.send_descriptor(self._descriptor)

    def __setstate__(self, place):
        self._adopt(parcel.receive_descriptor(place))

    def __del__(self):
        if self._descriptor is not None:
            os.close(self._descriptor)


class Queue(queues.Queue):
    """multiprocessing's ``Queue``. An object is pickled by ``put`` itself, so what cannot be sent is an error there."""

    def __init__(self, maxsize=0, *, ctx=None):
        self._maxsize = maxsize if maxsize > 0 else _MOST
        self._reader, self._writer = Pipe(duplex=False)
        self._room = Counter(self._maxsize)
        # Of a bounded queue a reader gives the room back before it takes the message, so that its death in between loses
        # no room. The lock keeps the other readers from taking that message meanwhile.
        self._taking: Any = DeathProofLock() if maxsize > 0 else None
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
        # What `close`, `join_thread` and `cancel_join_thread` of the standard library work on.
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
            # Nothing overtakes what is waiting.
            if (self._feeder is None or self._feeder.is_idle()) and self._writer.send_message(message, block=False):
                return
            if self._feeder is None:
                self._start_feeder()
            self._feeder.add(message)

    def _count(self):
        """Called for each object that is put, before it can be got."""

    def _give_up(self):
        """What takes back that an object was put, where it cannot be sent. It does not hold the queue."""
        return self._room.raise_

    def get(self, block=True, timeout=None):
        self._check_open()
        deadline = None if timeout is None else time.monotonic() + timeout
        message = self._take(deadline, block) if self._taking is None else self._take_bounded(deadline, block)
        if message is None:
            raise Empty
        return parcel.unpack(*message)

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
    """Sends what did not fit into the socket at once, in order."""

    def __init__(self, reader, writer, give_up, ignore_epipe):
        super().__init__(name="QueueFeederThread", daemon=True)
        self._reader, self._writer, self._give_up = reader, writer, give_up
        self._ignore_epipe = ignore_epipe
        # A message stays here until it is sent; the semaphore counts those that were not looked at.
        self._messages: collections.deque[Message | None] = collections.deque()
        self._some = threading.Semaphore(0)

    def is_idle(self):
        return not self._messages

    def add(self, message):
        self._messages.append(message)
        self._some.release()

    def finish(self):
        """Ends the thread when it has sent everything."""
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
    """A queue that knows how many of its objects are not done."""

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
        # The kernel tells when a counter is not zero, but not when it is.
        pause = 0.0001
        while self._unfinished.value():
            time.sleep(pause)
            pause = min(2 * pause, 0.01)


class SimpleQueue:
    """A pipe that any number of processes write and read; ``put`` waits while it is full."""

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

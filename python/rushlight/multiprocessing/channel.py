"""Messages over a Unix socket: each arrives whole, with its descriptors, at exactly one reader, or not at all.

The sockets keep message boundaries (``SOCK_SEQPACKET``), so any number of processes may read and write the same two ends
without a lock, and a kill at any instant leaves no half of a message and no lock behind. What is too long for a datagram
goes through a memory file; what needs more descriptors than a datagram carries sends them ahead through a socket of
its own, which then is the one descriptor. In a message the kernel holds all of it: the sender may die.
"""

import array
import errno
import fcntl
import mmap
import os
import select
import socket
import threading
import time
from multiprocessing import process

INLINE = 32 << 10
"""Longer messages travel in a memory file."""
MOST = 250
"""How many descriptors one datagram carries; the kernel's limit is 253."""

_PLAIN, _FILE, _BUNDLE = 0, 1, 2
# Plain numbers: joining Python's flags costs more than sending a message.
_SEND = int(socket.MSG_NOSIGNAL)
_RECEIVE = int(socket.MSG_CMSG_CLOEXEC)
_AT_ONCE = int(socket.MSG_DONTWAIT)
_LOST = int(socket.MSG_CTRUNC)
_HEADS = [bytes([flags]) for flags in range(4)]
_ROOM = socket.CMSG_SPACE((MOST + 3) * array.array("i").itemsize)
_CLOSED = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)


def adopt(descriptor):
    """A blocking socket object over a descriptor, whatever the program's default timeout."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, descriptor)
    end.settimeout(None)
    return end


def _adopted(descriptor):
    """The same, of a descriptor that came with a message and belongs to nobody yet."""
    try:
        return adopt(descriptor)
    except OSError:
        os.close(descriptor)
        raise


def pair():
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def wait(end, event, deadline=None):
    """Waits until the event; False when the deadline, a moment of ``time.monotonic`` or None, comes first.

    A process whose parent dies meanwhile gives its siblings a moment, and then raises: most often nobody is left at the
    other end, which does not show, since this process holds both.
    """
    poll = select.poll()
    poll.register(end, event)
    parent = _parent.descriptor()
    if parent is not None:
        poll.register(parent, select.POLLIN)
    ready = poll.poll(_milliseconds(deadline))
    if len(ready) == 1 and ready[0][0] == parent:
        poll.unregister(parent)
        last = time.monotonic() + _MOURNING
        ready = poll.poll(_milliseconds(last if deadline is None else min(last, deadline)))
        if not ready and (deadline is None or last < deadline):
            gone = "the parent process is gone, and nobody else is at the other end"
            raise BrokenPipeError(errno.EPIPE, gone) if event == select.POLLOUT else EOFError(gone)
    return bool(ready)


_MOURNING = 2.0
"""Seconds that siblings get to show that they live."""


def _milliseconds(deadline):
    return None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000


class _Parent:
    """What tells that the process which started this one has ended."""

    def __init__(self):
        self._descriptor, self._owner = None, None

    def descriptor(self):
        """A descriptor that is readable from then on; None in a process that nobody started."""
        if self._owner != os.getpid():
            self._owner, self._descriptor = os.getpid(), self._open()
        return self._descriptor

    @staticmethod
    def _open():
        parent = process.parent_process()
        if parent is None:
            return None
        # The standard library's pipe also stays open in siblings that were forked later.
        descriptor = process_descriptor(parent.pid)
        if descriptor is None:
            return parent.sentinel
        # The number may be another process's by now.
        if select.select([parent.sentinel], [], [], 0)[0]:
            os.close(descriptor)
            return parent.sentinel
        return descriptor


def process_descriptor(pid: int):
    """A descriptor that becomes readable when the process ends; None where it is gone, or where the kernel (or the headers that
    Python was compiled with) is older than such descriptors."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


_parent = _Parent()


def end_with_parent():
    """From now on this process ends as soon as the one that started it has."""
    threading.Thread(target=_outlive_nobody, name="rushlight-parent", daemon=True).start()


def _outlive_nobody():
    parent = _parent.descriptor()
    if parent is not None:
        poll = select.poll()
        poll.register(parent, select.POLLIN)
        poll.poll()
        os._exit(1)


def send(end, payload, descriptors=(), block=True):
    """Sends one message. Returns False if that would block and must not."""
    if len(payload) <= INLINE and len(descriptors) <= MOST:
        return _send(end, (_HEADS[_PLAIN], payload), descriptors, block)
    flags, extra = _PLAIN, []
    try:
        if len(descriptors) > MOST:
            extra.append(_bundle(descriptors))
            descriptors = extra[:]
            flags |= _BUNDLE
        if len(payload) > INLINE:
            extra.append(_file(payload))
            descriptors = [*descriptors, extra[-1]]
            payload = b""
            flags |= _FILE
        return _send(end, (_HEADS[flags], payload), descriptors, block)
    finally:
        close(extra)


def receive(end, block=True):
    """The payload, bytes or a mapping, and the descriptors of the next message, which belong to the caller.

    None if there is none and the call must not block; EOFError when all writers are gone.
    """
    received = _receive(end, block)
    if received is None:
        return None
    data, descriptors = received
    try:
        if not data:
            raise EOFError
        flags, payload = data[0], memoryview(data)[1:]
        if flags >= len(_HEADS) or len(descriptors) < flags.bit_count():
            raise OSError(errno.EBADMSG, "what arrived is no message of rushlight.multiprocessing")
        if flags & _FILE:
            payload = _contents(descriptors.pop())
        if flags & _BUNDLE:
            descriptors += _unbundle(descriptors.pop())
    except BaseException:
        close(descriptors)
        raise
    return payload, descriptors


def _send(end, parts, descriptors, block):
    flags = _SEND | _AT_ONCE
    control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    while True:
        try:
            end.sendmsg(parts, control, flags)
            return True
        except BlockingIOError:
            if block:
                wait(end, select.POLLOUT)
                continue
            return False
        except OSError as error:
            if error.errno in _CLOSED:
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None
            # Too many descriptors in flight: it passes when readers have read.
            if error.errno != errno.ETOOMANYREFS:
                raise
        if not block:
            return False
        time.sleep(0.001)


def _receive(end, block):
    # Whoever has no parent to watch leaves the waiting to the kernel.
    flags = _RECEIVE if block and _parent.descriptor() is None else _RECEIVE | _AT_ONCE
    while True:
        try:
            data, control, about, _ = end.recvmsg(INLINE + 1, _ROOM, flags)
            break
        except BlockingIOError:
            if not block:
                return None
            wait(end, select.POLLIN)
        except ConnectionResetError:
            # Said once when the other side went without reading all; what it had sent is still there.
            continue
    if not control:
        return data, []
    descriptors = array.array("i")
    for _level, _kind, content in control:
        descriptors.frombytes(content[: len(content) // descriptors.itemsize * descriptors.itemsize])
    if about & _LOST:
        close(descriptors)
        raise OSError(errno.EMFILE, "a message was lost since its descriptors did not fit under the limit (ulimit -n)")
    return data, descriptors.tolist()


def _file(payload):
    descriptor = os.memfd_create("rushlight-message", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        rest = memoryview(payload)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _contents(descriptor):
    try:
        # Whoever could still shorten it could end this process while it reads.
        if not fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            raise OSError(errno.EBADMSG, "what arrived is no message of rushlight.multiprocessing")
        return mmap.mmap(descriptor, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
    finally:
        os.close(descriptor)


def _bundle(descriptors):
    outside, inside = pair()
    with outside:
        for start in range(0, len(descriptors), MOST):
            if not _send(outside, [b"+"], descriptors[start : start + MOST], block=False):
                raise OSError(errno.ETOOMANYREFS, "too many descriptors for one message")
    return inside.detach()


def _unbundle(descriptor):
    descriptors: list[int] = []
    try:
        with _adopted(descriptor) as inside:
            while True:
                data, some = _receive(inside, block=True)
                descriptors += some
                if not data:
                    return descriptors
    except BaseException:
        close(descriptors)
        raise


def close(descriptors):
    for descriptor in descriptors:
        os.close(descriptor)

"""Messages over a Unix socket. Each message with its descriptors goes to exactly one reader, or is not sent at all.

The sockets preserve message boundaries (``SOCK_SEQPACKET``). Any number of processes can therefore read and write the
same two ends without a lock, and a process that is killed leaves neither half a message nor a held lock. Messages that
are too long for a datagram are sent in a memory file. If a message has too many descriptors for a datagram, they are
sent through an additional socket, whose descriptor is the only one in the message. The kernel holds a sent message
completely, so that the sender may end.
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
"""Messages longer than this are sent in a memory file."""
MOST = 250
"""The number of descriptors per datagram; the kernel's limit is 253."""

_PLAIN, _FILE, _BUNDLE = 0, 1, 2
# Plain numbers, because combining Python's flags takes longer than sending a message.
_SEND = int(socket.MSG_NOSIGNAL)
_RECEIVE = int(socket.MSG_CMSG_CLOEXEC)
_AT_ONCE = int(socket.MSG_DONTWAIT)
_LOST = int(socket.MSG_CTRUNC)
_HEADS = [bytes([flags]) for flags in range(4)]
_ROOM = socket.CMSG_SPACE((MOST + 3) * array.array("i").itemsize)
_CLOSED = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)


def open_socket(descriptor):
    """A blocking socket object for a descriptor, independent of the program's default timeout."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, descriptor)
    end.settimeout(None)
    return end


def _open_received_socket(descriptor):
    """The same for a descriptor that came with a message and that nothing owns yet."""
    try:
        return open_socket(descriptor)
    except OSError:
        os.close(descriptor)
        raise


def pair():
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def wait(end, event, deadline=None):
    """Waits for the event. Returns False if the deadline (a time of ``time.monotonic``, or None) is reached first.

    If the parent ends in the meantime, the process waits a moment for its siblings and then raises an error. Usually
    nobody is left at the other end then. The socket does not show this, because this process holds both ends.
    """
    poll = select.poll()
    poll.register(end, event)
    parent = _parent.descriptor()
    if parent is not None:
        poll.register(parent, select.POLLIN)
    ready = poll.poll(_milliseconds(deadline))
    if len(ready) == 1 and ready[0][0] == parent:
        poll.unregister(parent)
        last = time.monotonic() + _PARENT_GRACE
        ready = poll.poll(_milliseconds(last if deadline is None else min(last, deadline)))
        if not ready and (deadline is None or last < deadline):
            gone = "the parent process has ended, and no other process is at the other end"
            raise BrokenPipeError(errno.EPIPE, gone) if event == select.POLLOUT else EOFError(gone)
    return bool(ready)


_PARENT_GRACE = 2.0
"""The seconds to wait for siblings after the parent has ended."""


def _milliseconds(deadline):
    return None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000


class _Parent:
    """Detects that the parent of this process has ended."""

    def __init__(self):
        self._descriptor, self._owner = None, None

    def descriptor(self):
        """A descriptor that becomes readable at that time; None in a process without such a parent."""
        if self._owner != os.getpid():
            self._owner, self._descriptor = os.getpid(), self._open()
        return self._descriptor

    @staticmethod
    def _open():
        parent = process.parent_process()
        if parent is None:
            return None
        # The standard library's pipe is not enough: siblings that were forked later also hold it open.
        descriptor = _process_descriptor(parent.pid)
        if descriptor is None:
            return parent.sentinel
        # The process id may have been reused.
        if select.select([parent.sentinel], [], [], 0)[0]:
            os.close(descriptor)
            return parent.sentinel
        return descriptor


def _process_descriptor(pid: int):
    """A descriptor that becomes readable when the process ends. None if the process has ended, or if the kernel (or the
    headers of this Python) does not support such descriptors."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


_parent = _Parent()


def end_with_parent(grace: float = 0.0):
    """Makes this process end when its parent has ended, at the latest so many seconds afterwards."""
    threading.Thread(target=_exit_with_parent, args=(grace,), name="rushlight-parent", daemon=True).start()


def _exit_with_parent(grace: float):
    parent = _parent.descriptor()
    if parent is not None:
        poll = select.poll()
        poll.register(parent, select.POLLIN)
        poll.poll()
        time.sleep(grace)
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
    """Receives the payload (bytes or a mapping) and the descriptors of the next message. The caller owns them.

    Returns None if there is no message and the call must not block. Raises EOFError when all writers are closed.
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
            raise OSError(errno.EBADMSG, "received data that is not a message of rushlight.multiprocessing")
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
            # Too many descriptors are in flight. This ends when readers have read.
            if error.errno != errno.ETOOMANYREFS:
                raise
        if not block:
            return False
        time.sleep(0.001)


def _receive(end, block):
    # Without a parent to watch, the kernel waits.
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
            # The kernel reports this once if the other side closed without reading everything. Its messages are still
            # readable.
            continue
    if not control:
        return data, []
    descriptors = array.array("i")
    for _level, _kind, content in control:
        descriptors.frombytes(content[: len(content) // descriptors.itemsize * descriptors.itemsize])
    if about & _LOST:
        close(descriptors)
        raise OSError(
            errno.EMFILE, "a message was lost because its descriptors exceed the limit on open files (ulimit -n)"
        )
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
        # If another process could truncate it, reading could end this process with a signal.
        if not fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            raise OSError(errno.EBADMSG, "received data that is not a message of rushlight.multiprocessing")
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
        with _open_received_socket(descriptor) as inside:
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

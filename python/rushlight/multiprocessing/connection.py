"""``Pipe``: the connections of multiprocessing over this package's channels, with tensors sent as handles."""

import io
import os
import select
import time
from multiprocessing import connection, reduction
from typing import Any

from . import bundle, channel


class Message:
    """A pickled object and its descriptors, ready to be sent."""

    def __init__(self, obj):
        self._payload, self._bundle = bundle.pack(obj)

    def send(self, end, block=True):
        """Returns False if sending would block and ``block`` is false."""
        if not channel.send(end, self._payload, self._bundle.open(), block):
            return False
        self._bundle.close()
        return True


# The type stubs do not contain the names that the standard library has for its own subclasses.
_Standard: Any = connection.Connection


class Connection(_Standard):
    """One end of a pipe. Any number of processes can use it at the same time. Each message goes to one reader."""

    def __init__(self, handle, readable=True, writable=True):
        self._end = channel.open_socket(handle)
        super().__init__(handle, readable, writable)

    def _close(self):
        self._end.close()

    def _send_bytes(self, buf):
        channel.send(self._end, buf)

    def _recv_bytes(self, maxsize=None):
        payload, descriptors = channel.receive(self._end)
        channel.close(descriptors)
        if maxsize is not None and len(payload) > maxsize:
            return None
        # The caller writes to the returned buffer as a file that is positioned at its end.
        buffer = io.BytesIO()
        buffer.write(payload)
        return buffer

    def send(self, obj):
        self._check_closed()
        self._check_writable()
        Message(obj).send(self._end)

    def send_message(self, message, block=True):
        """Sends a pickled message. Returns False if that would block and must not."""
        self._check_closed()
        self._check_writable()
        return message.send(self._end, block)

    def recv(self):
        self._check_closed()
        self._check_readable()
        return bundle.unpack(*channel.receive(self._end))

    def recv_message(self, deadline=None, block=True):
        """The next message, for :func:`bundle.unpack`. None if there is none before the deadline, or none immediately."""
        self._check_closed()
        self._check_readable()
        if block and deadline is None:
            return channel.receive(self._end)
        while True:
            # After any wait, another reader may have taken the message.
            message = channel.receive(self._end, block=False)
            if message is not None or not block or time.monotonic() >= deadline:
                return message
            channel.wait(self._end, select.POLLIN, deadline)


def Pipe(duplex=True):
    """Two connected ends. Without ``duplex`` the first only receives and the second only sends."""
    first, second = channel.pair()
    return Connection(first.detach(), writable=duplex), Connection(second.detach(), readable=duplex)


def _reduce(end):
    return _rebuild, (bundle.send_descriptor(end.fileno()), end.readable, end.writable)


def _rebuild(place, readable, writable):
    descriptor = bundle.receive_descriptor(place)
    try:
        return Connection(descriptor, readable, writable)
    except OSError:
        os.close(descriptor)
        raise


reduction.register(Connection, _reduce)

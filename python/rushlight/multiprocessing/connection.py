"""``Pipe``: multiprocessing's connections over our channels, so that tensors travel by descriptor."""

import io
import os
import select
import time
from multiprocessing import connection, reduction
from typing import Any

from . import channel, parcel


class Message:
    """A pickled object with what travels beside it, ready to be sent."""

    def __init__(self, obj):
        self._payload, self._parcel = parcel.pack(obj)

    def send(self, end, block=True):
        """False if that would block and must not."""
        if not channel.send(end, self._payload, self._parcel.open(), block):
            return False
        self._parcel.close()
        return True


# What the standard library means for its own subclasses is not in the type stubs.
_Standard: Any = connection.Connection


class Connection(_Standard):
    """One end of a pipe. Any number of processes may use it at once: messages arrive whole, each at one reader."""

    def __init__(self, handle, readable=True, writable=True):
        self._end = channel.adopt(handle)
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
        # The caller writes into what it gets as if it were at its end.
        buffer = io.BytesIO()
        buffer.write(payload)
        return buffer

    def send(self, obj):
        self._check_closed()
        self._check_writable()
        Message(obj).send(self._end)

    def send_message(self, message, block=True):
        """Sends what was pickled before; False if that would block and must not."""
        self._check_closed()
        self._check_writable()
        return message.send(self._end, block)

    def recv(self):
        self._check_closed()
        self._check_readable()
        return parcel.unpack(*channel.receive(self._end))

    def recv_message(self, deadline=None, block=True):
        """The next message, for :func:`parcel.unpack`; None if there is none until the deadline, or none at once."""
        self._check_closed()
        self._check_readable()
        if block and deadline is None:
            return channel.receive(self._end)
        while True:
            # Another reader may be faster than this one, after any wait.
            message = channel.receive(self._end, block=False)
            if message is not None or not block or time.monotonic() >= deadline:
                return message
            channel.wait(self._end, select.POLLIN, deadline)


def Pipe(duplex=True):
    """Two connected ends; without ``duplex`` the first only receives and the second only sends."""
    first, second = channel.pair()
    return Connection(first.detach(), writable=duplex), Connection(second.detach(), readable=duplex)


def _reduce(end):
    return _rebuild, (parcel.send_descriptor(end.fileno()), end.readable, end.writable)


def _rebuild(place, readable, writable):
    descriptor = parcel.receive_descriptor(place)
    try:
        return Connection(descriptor, readable, writable)
    except OSError:
        os.close(descriptor)
        raise


reduction.register(Connection, _reduce)

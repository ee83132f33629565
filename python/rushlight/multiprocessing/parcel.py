"""What travels beside a pickle: descriptors of shared memory, sockets and the like.

While a message is pickled, a :class:`Parcel` collects what its bytes only refer to; while it is unpickled, a
:class:`Delivery` hands it out again. Both stand in a variable of the thread, since pickle gives reducers no other way to
learn which message they work for.

Outside a message there are two more ways, as in multiprocessing: a process that is being started inherits
descriptors, and for foreign queues a background thread of the sender keeps them until they are fetched.
"""

import os
import threading
from multiprocessing import context, reduction
from multiprocessing.reduction import ForkingPickler
from typing import Any

from rushlight import _C

from . import unnamed


class _Thread(threading.local):
    parcel: Any = None
    delivery: Any = None


_thread = _Thread()


class Parcel:
    """The storages and descriptors that one message refers to.

    Storages cost no descriptor before :meth:`open`, so that thousands of messages may wait to be sent.
    """

    def __init__(self):
        self._shared: Any = None
        self._copies: list[int] = []

    def add_storage(self, storage):
        """Moves a storage to shared memory if it is not there, and returns its number, offset and size."""
        if self._shared is None:
            self._shared = _C._SharedParcel()
        return self._shared.add(storage)

    def add_descriptor(self, descriptor):
        """Adds a copy of a descriptor. They are counted from the end: -1, -2..."""
        self._copies.append(os.dup(descriptor))
        return -len(self._copies)

    def open(self):
        """All descriptors, which stay the parcel's own."""
        shared = self._shared
        arenas = [shared.descriptor(number) for number in range(len(shared))] if shared is not None else []
        return arenas + self._copies[::-1]

    def arena(self, number):
        return self._shared.descriptor(number)

    def close(self):
        self._shared = None
        while self._copies:
            os.close(self._copies.pop())

    __del__ = close


class Delivery:
    """The descriptors that came with one message; what nobody takes is closed with it."""

    def __init__(self, descriptors):
        self._descriptors = descriptors

    def look(self, number):
        return self._descriptors[number]

    def take(self, number):
        descriptor, self._descriptors[number] = self._descriptors[number], None
        if descriptor is None:
            raise ValueError("a descriptor was taken out of a message twice")
        return descriptor

    def close(self):
        for number, descriptor in enumerate(self._descriptors):
            if descriptor is not None:
                self._descriptors[number] = None
                os.close(descriptor)


def pack(obj):
    """An object's pickle and its parcel."""
    outer = _thread.parcel
    _thread.parcel = parcel = Parcel()
    try:
        return ForkingPickler.dumps(obj), parcel
    finally:
        _thread.parcel = outer


def unpack(payload, descriptors):
    """The object that a pickle and its descriptors make; what it does not take of them is closed."""
    outer = _thread.delivery
    _thread.delivery = delivery = Delivery(descriptors)
    try:
        return ForkingPickler.loads(payload)
    finally:
        _thread.delivery = outer
        if descriptors:
            delivery.close()


class Forwarded:
    """A descriptor that takes another way than a message of ours, inherited or fetched; one for all who refer to it."""

    _descriptor: int | None = None

    def __init__(self, descriptor):
        inherited = context.get_spawning_popen() is not None
        self._way: Any = reduction.DupFd(descriptor) if inherited else unnamed.lent(descriptor)

    def __getstate__(self):
        return self._way

    def __setstate__(self, way):
        self._way = way

    def look(self):
        if self._descriptor is None:
            self._descriptor = self._way.detach()
        return self._descriptor

    def take(self):
        descriptor, self._descriptor = self.look(), None
        return descriptor

    def __del__(self):
        if self._descriptor is not None:
            os.close(self._descriptor)


def send_storage(storage):
    """A picklable reference to a storage of the CPU: where it is found, offset and size."""
    parcel = _thread.parcel
    if parcel is not None:
        return parcel.add_storage(storage)
    starting: Any = context.get_spawning_popen()
    if starting is None:
        parcel = Parcel()
        number, offset, size = parcel.add_storage(storage)
        return Forwarded(parcel.arena(number)), offset, size
    # All storages of one arena share a descriptor, which holds what is added to it later as well.
    if not hasattr(starting, "_rushlight"):
        starting._rushlight = (Parcel(), {})
    parcel, ways = starting._rushlight
    number, offset, size = parcel.add_storage(storage)
    if number not in ways:
        ways[number] = Forwarded(parcel.arena(number))
    return ways[number], offset, size


def receive_storage(place, offset, size):
    descriptor = place.look() if isinstance(place, Forwarded) else _thread.delivery.look(place)
    return _C._shared_storage(descriptor, offset, size)


def send_file(descriptor, name, offset, size):
    """A picklable reference to bytes of a file that is written through."""
    return send_descriptor(descriptor), name, offset, size


def receive_file(place, name, offset, size):
    """The same bytes of the same file, whatever has taken its name."""
    return _C._FileMap._of_descriptor(receive_descriptor(place), name, offset + size).storage(offset, size)


def send_descriptor(descriptor):
    """A picklable reference to a copy of a descriptor."""
    parcel = _thread.parcel
    return Forwarded(descriptor) if parcel is None else parcel.add_descriptor(descriptor)


def receive_descriptor(place):
    """The descriptor, which then belongs to the caller."""
    return place.take() if isinstance(place, Forwarded) else _thread.delivery.take(place)


def release(starting):
    """Lets go of what a process that has been started inherited."""
    starting.__dict__.pop("_rushlight", None)

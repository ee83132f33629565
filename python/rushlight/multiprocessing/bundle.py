"""The descriptors (of shared memory, sockets and files) that are sent with a pickle.

While a message is pickled, a :class:`Bundle` collects the descriptors to which it refers. While it is unpickled, a
:class:`Delivery` returns them. Both are stored in a thread-local variable, because pickle has no other way to tell
reducers which message they work for.

Without a message there are two more ways, as in multiprocessing: a process that is being started inherits descriptors,
and for queues of the standard library a background thread of the sender keeps them until they are fetched.
"""

import os
import threading
from multiprocessing import context, reduction
from multiprocessing.reduction import ForkingPickler
from typing import Any

from rushlight import _C

from . import anonymous_sockets


class _Thread(threading.local):
    bundle: Any = None
    delivery: Any = None


_thread = _Thread()


class Bundle:
    """The storages and descriptors to which one message refers.

    Storages need no descriptor before :meth:`open`, so that thousands of messages can wait to be sent.
    """

    def __init__(self):
        self._shared: Any = None
        self._copies: list[int] = []

    def add_storage(self, storage):
        """Moves a storage to shared memory if necessary. Returns the index of its arena, its offset, the size
        of its block, and its own, which is smaller if it has shrunk."""
        if self._shared is None:
            self._shared = _C._SharedBundle()
        return self._shared.add(storage)

    def add_descriptor(self, descriptor):
        """Adds a duplicate of a descriptor. Its index counts from the end: -1, -2..."""
        self._copies.append(os.dup(descriptor))
        return -len(self._copies)

    def open(self):
        """All descriptors. The bundle still owns them."""
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
    """The descriptors that came with one message. Those that are not taken are closed with it."""

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
    """Pickles an object. Returns the pickle and its bundle."""
    outer = _thread.bundle
    _thread.bundle = bundle = Bundle()
    try:
        return ForkingPickler.dumps(obj), bundle
    finally:
        _thread.bundle = outer


def unpack(payload, descriptors):
    """Unpickles an object with its descriptors. Descriptors that it does not take are closed."""
    outer = _thread.delivery
    _thread.delivery = delivery = Delivery(descriptors)
    try:
        return ForkingPickler.loads(payload)
    finally:
        _thread.delivery = outer
        if descriptors:
            delivery.close()


class Forwarded:
    """A descriptor that is inherited or fetched instead of sent in a message. All references share one object."""

    _descriptor: int | None = None

    def __init__(self, descriptor):
        inherited = context.get_spawning_popen() is not None
        self._duplicate: Any = reduction.DupFd(descriptor) if inherited else anonymous_sockets.lent(descriptor)

    def __getstate__(self):
        return self._duplicate

    def __setstate__(self, duplicate):
        self._duplicate = duplicate

    def look(self):
        if self._descriptor is None:
            self._descriptor = self._duplicate.detach()
        return self._descriptor

    def take(self):
        descriptor, self._descriptor = self.look(), None
        return descriptor

    def __del__(self):
        if self._descriptor is not None:
            os.close(self._descriptor)


def send_storage(storage):
    """A picklable reference to a CPU storage: its arena, offset and sizes."""
    bundle = _thread.bundle
    if bundle is not None:
        return bundle.add_storage(storage)
    starting: Any = context.get_spawning_popen()
    if starting is None:
        bundle = Bundle()
        number, *place = bundle.add_storage(storage)
        return Forwarded(bundle.arena(number)), *place
    # All storages of an arena share a descriptor. It also covers storages that are added to the arena later.
    if not hasattr(starting, "_rushlight"):
        starting._rushlight = (Bundle(), {})
    bundle, ways = starting._rushlight
    number, *place = bundle.add_storage(storage)
    if number not in ways:
        ways[number] = Forwarded(bundle.arena(number))
    return ways[number], *place


def receive_storage(place, offset, block, size):
    descriptor = place.look() if isinstance(place, Forwarded) else _thread.delivery.look(place)
    return _C._shared_storage(descriptor, offset, block, size)


def send_file(descriptor, name, offset, size):
    """A picklable reference to bytes of a file that is mapped for writing."""
    return send_descriptor(descriptor), name, offset, size


def receive_file(place, name, offset, size):
    """The same bytes of the same file, even if another file has its name now."""
    return _C._FileMap._of_descriptor(receive_descriptor(place), name, offset + size).storage(offset, size)


def send_descriptor(descriptor):
    """A picklable reference to a duplicate of a descriptor."""
    bundle, starting = _thread.bundle, context.get_spawning_popen()
    if bundle is not None:
        return bundle.add_descriptor(descriptor)
    if starting is None:
        return Forwarded(descriptor)
    # The process inherits the descriptor itself, which must be open until then.
    kept = os.dup(descriptor)
    starting.__dict__.setdefault("_rushlight_descriptors", []).append(kept)
    return Forwarded(kept)


def receive_descriptor(place):
    """The descriptor. The caller owns it."""
    return place.take() if isinstance(place, Forwarded) else _thread.delivery.take(place)


def release(starting):
    """Closes the descriptors that a started process has inherited."""
    starting.__dict__.pop("_rushlight", None)
    for descriptor in starting.__dict__.pop("_rushlight_descriptors", ()):
        os.close(descriptor)

"""How the launchers of several machines agree on who takes part.

They share the store to which the processes of the program connect, too. Each start of all processes is a rendezvous, a round.
"""

import contextlib
import errno
import os
import socket
import time
from datetime import timedelta

from rushlight.distributed.store import DistNetworkError, PrefixStore, TCPStore

from .api import (
    RendezvousClosedError,
    RendezvousGracefulExitError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)
from .utils import parse_rendezvous_endpoint

_PORT = 29400


def _is_here(host: str) -> bool:
    """Whether a name or address is one of this machine."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, _, _, address in found:
        with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
            probe.bind(address)
            return True
    return False


def _open_store(host: str, port: int, node: int | None, timeout: timedelta) -> tuple[TCPStore, bool]:
    """The store of all machines, and whether this one serves it: number 0, or without numbers the first one at the address."""
    if node == 0 or (node is None and _is_here(host)):
        try:
            return TCPStore(host, port, is_master=True, timeout=timeout), True
        except DistNetworkError as error:
            if node == 0 or os.strerror(errno.EADDRINUSE) not in str(error):
                raise
    return TCPStore(host, port, is_master=False, timeout=timeout), False


class Machines(RendezvousHandler):
    """This machine's view of the others, for `RendezvousParameters` of the kinds c10d and static.

    Options: ``rank``, the number of this machine, by default in order of coming; and seconds. ``join_timeout`` for machines to come,
    ``last_call_timeout`` for more of them than the least, ``keep_alive_interval`` times ``keep_alive_max_attempt`` for one that
    does not answer.
    """

    def __init__(self, params):
        self._params = params
        self._join = params._seconds("join_timeout", 600)
        self._last_call = params._seconds("last_call_timeout", 30)
        beat = params._seconds("keep_alive_interval", 5)
        self._beat, self._silence = beat / 5, beat * params._seconds("keep_alive_max_attempt", 3)
        self._node = 0 if params.max_nodes == 1 else params.get_as_int("rank")
        host, port = parse_rendezvous_endpoint(params.endpoint, _PORT)
        store, self._serves = _open_store(host, port, self._node, timedelta(seconds=self._join))
        self._address = RendezvousStoreInfo(host, store.port)
        self._all = PrefixStore(f"torchrun/{params.run_id}", store)
        self._current: RendezvousInfo | None = None
        self._number = 0
        self._beats: dict[int, tuple[int, float]] = {}
        self._beaten = 0.0

    def get_backend(self):
        return self._params.backend

    def get_run_id(self):
        return self._params.run_id

    @property
    def use_agent_store(self):
        return True

    def next_rendezvous(self):
        if self._current is not None:
            # The others begin the same round.
            self._number += 1
            if self._all.add(f"begins/{self._number}", 1) == 1:
                self._all.add("round", 1)
                self._all.set(f"begun/{self._number}", "")
            self._current = None
        deadline = time.monotonic() + self._join
        while not self.is_closed():
            self._number = max(self._number, self._all.add("round", 0))
            store = PrefixStore(f"round/{self._number}", self._all)
            node = store.add("nodes", 1) - 1 if self._node is None else self._node
            store.set(f"come/{node}", "")
            if node == 0:
                self._close_round(store, deadline)
            left = timedelta(seconds=max(1e-3, deadline - time.monotonic()))
            store.wait(["size"], left)
            size = int(store.get("size"))
            if node < size:
                self._beats = {}
                store.set("attempt", str(self._number))
                self._current = RendezvousInfo(store, node, size, self._address)
                return self._current
            self._wait_for_another_round(left)
        raise RendezvousClosedError(f"the job {self._params.run_id} has ended")

    def _wait_for_another_round(self, left):
        """This machine came too late, and takes part when the others begin again."""
        self._all.add("waiting", 1)
        try:
            self._all.wait([f"begun/{self._number + 1}"], left)
        finally:
            self._all.add("waiting", -1)
        if self.is_closed():
            raise RendezvousGracefulExitError(f"the job {self._params.run_id} has ended without this machine")

    def _close_round(self, store, deadline):
        """Machine 0 decides how many take part."""
        least, most = self._params.min_nodes, self._params.max_nodes
        last = None
        while True:
            if self._node is None:
                come = store.add("nodes", 0)
            else:
                come = sum(store.check([f"come/{other}"]) for other in range(most))
            now = time.monotonic()
            if come >= least and last is None:
                last = now + self._last_call
            if come >= most or (last is not None and now >= last):
                store.set("size", str(min(come, most)))
                return
            if now >= deadline:
                raise RendezvousTimeoutError(f"{come} of {least} machines came within {self._join:g} seconds")
            time.sleep(0.05)

    def num_nodes_waiting(self):
        full = self._current is not None and self._current.world_size >= self._params.max_nodes
        return 0 if full else self._all.add("waiting", 0)

    def _lost(self):
        now = time.monotonic()
        if self._current is None or self._params.max_nodes == 1 or now - self._beaten < self._beat:
            return []
        store = self._current.store
        self._beaten = now
        store.add(f"beat/{self._current.rank}", 1)
        for other in range(self._current.world_size):
            beat = store.add(f"beat/{other}", 0)
            before, since = self._beats.get(other, (-1, now))
            self._beats[other] = (beat, now if beat != before else since)
        return [other for other, (_, since) in self._beats.items() if now - since > self._silence]

    def is_closed(self):
        return self._all.check(["closed"])

    def set_closed(self):
        self._all.set("closed", "")
        # Those that wait for another round learn of it.
        self._all.set(f"begun/{self._number + 1}", "")

    def shutdown(self):
        """Keeps the store until the other machines have seen the end."""
        self.set_closed()
        if self._current is not None:
            ended = self._all.add("ended", 1)
            deadline = time.monotonic() + 5
            while self._serves and ended < self._current.world_size and time.monotonic() < deadline:
                time.sleep(0.02)
                ended = self._all.add("ended", 0)
        return True

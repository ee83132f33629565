"""How the launchers of several machines (nodes) agree on who takes part, and learn that processes of another one failed.

They share the store to which the processes of the program connect, too. Each start of all processes is a round.
"""

import contextlib
import errno
import os
import socket
import time
from datetime import timedelta
from typing import NamedTuple

from rushlight.distributed.store import DistNetworkError, DistStoreError, PrefixStore, TCPStore


class Patience(NamedTuple):
    """How many seconds to wait: for nodes to come, for more of them than the least, from one sign of life to the next, and for a
    node that gives none."""

    join: float
    last_call: float
    beat: float
    silence: float


def numbers(text: str) -> tuple[int, int]:
    """The least and the largest number of nodes in ``2`` or ``1:4``."""
    try:
        least, _, most = text.partition(":")
        bounds = int(least), int(most or least)
    except ValueError:
        raise ValueError(f"--nnodes {text}: write a number of machines, or the least and the largest: 1:4") from None
    if not 1 <= bounds[0] <= bounds[1]:
        raise ValueError(f"--nnodes {text}: the least number is at least 1, and the largest not below it")
    return bounds


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


def open_store(host: str, port: int, node: int | None, timeout: timedelta) -> tuple[TCPStore, bool]:
    """The store of all nodes, and whether this one serves it: node 0, or without numbers the first one at the address."""
    if node == 0 or (node is None and _is_here(host)):
        try:
            return TCPStore(host, port, is_master=True, timeout=timeout), True
        except DistNetworkError as error:
            if node == 0 or os.strerror(errno.EADDRINUSE) not in str(error):
                raise
    return TCPStore(host, port, is_master=False, timeout=timeout), False


class Round(NamedTuple):
    """One start of all processes."""

    number: int
    node: int
    counts: list[int]

    @property
    def first(self):
        """The rank of the first process on this node."""
        return sum(self.counts[: self.node])


class Nodes:
    """This node's view of the others."""

    def __init__(self, store, name, bounds, node, count, patience):
        self._all, self._bounds, self._node, self._count = PrefixStore(f"torchrun/{name}", store), bounds, node, count
        self._patience, self._number = patience, 0
        self._beats: dict[int, tuple[int, float]] = {}
        self._beaten = 0.0

    def _at(self, number):
        return PrefixStore(f"round/{number}", self._all)

    def join(self) -> Round:
        """Waits until enough nodes have come, and begins a round.

        Raises:
            DistStoreError: they did not come in time.
        """
        deadline = time.monotonic() + self._patience.join
        while True:
            self._number = max(self._number, self._all.add("round", 0))
            store = self._at(self._number)
            node = store.add("nodes", 1) - 1 if self._node is None else self._node
            store.set(f"count/{node}", str(self._count))
            if node == 0:
                self._close(store, deadline)
            left = timedelta(seconds=max(1e-3, deadline - time.monotonic()))
            store.wait(["size"], left)
            size = int(store.get("size"))
            if node < size:
                counts = [int(store.get(f"count/{other}")) for other in range(size)]
                self._beats = {}
                return Round(self._number, node, counts)
            # This node came too late, and takes part when the others begin again.
            self._all.add("waiting", 1)
            try:
                self._all.wait([f"begun/{self._number + 1}"], left)
            finally:
                self._all.add("waiting", -1)

    def _close(self, store, deadline):
        """Node 0 decides how many nodes take part."""
        least, most = self._bounds
        last = None
        while True:
            if self._node is None:
                come = store.add("nodes", 0)
            else:
                come = sum(store.check([f"count/{other}"]) for other in range(most))
            now = time.monotonic()
            if come >= least and last is None:
                last = now + self._patience.last_call
            if come >= most or (last is not None and now >= last):
                store.set("size", str(min(come, most)))
                return
            if now >= deadline:
                raise DistStoreError(f"{come} of {least} machines came within {self._patience.join:g} seconds")
            time.sleep(0.05)

    def fail(self, current, why):
        """Tells the other nodes that a process of this one failed.

        The first reason for an end stands, because the processes of a node that ends fail those of the others.
        """
        self._at(current.number).compare_set("news", "", f"failure {why}")

    def news(self, current) -> tuple[bool, str] | None:
        """Whether all processes end because of a failure, and why; None while they go on."""
        store = self._at(current.number)
        if store.check(["news"]):
            kind, _, why = store.get("news").decode().partition(" ")
            return kind == "failure", why
        if len(current.counts) == 1 and self._bounds[1] == 1:
            return None
        now = time.monotonic()
        if now - self._beaten >= self._patience.beat:
            self._beaten = now
            store.add(f"beat/{current.node}", 1)
            for other in range(len(current.counts)):
                beat = store.add(f"beat/{other}", 0)
                before, since = self._beats.get(other, (-1, now))
                self._beats[other] = (beat, now if beat != before else since)
                if now - self._beats[other][1] > self._patience.silence and not store.check([f"done/{other}"]):
                    self.fail(current, f"machine {other} does not answer")
        if len(current.counts) < self._bounds[1] and self._all.add("waiting", 0) > 0:
            store.compare_set("news", "", "change another machine came")
        return None

    def next(self, current):
        """Begins another round, once for all nodes."""
        self._number = current.number + 1
        if self._all.add(f"begins/{self._number}", 1) == 1:
            self._all.add("round", 1)
            self._all.set(f"begun/{self._number}", "")

    def finish(self, current):
        """Notes that the processes of this node ended well."""
        self._at(current.number).set(f"done/{current.node}", "")

    def all_done(self, current) -> bool:
        """Whether the processes of all nodes ended well."""
        return self._at(current.number).check([f"done/{other}" for other in range(len(current.counts))])

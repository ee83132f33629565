"""Sockets that leave no file behind, for what the standard library gives a name in the folder of temporary files.

A process that is killed does not tidy up, so a socket with a name would stay for good. Linux has names that end with
their socket; who may connect is for the key of multiprocessing to decide, as it is over a network. The fork server asks
nobody for a key: its socket loses its name, and is reached through a descriptor.
"""

import contextlib
import os
import secrets
import tempfile
import threading
from multiprocessing import forkserver, process, reduction, resource_sharer, util
from multiprocessing.connection import Listener
from typing import Any, NamedTuple


def address() -> str | None:
    """A name that nobody has and that ends with its socket; None where there are none."""
    return f"\0rushlight-{secrets.token_hex(8)}" if util.abstract_sockets_supported else None


# What the standard library means for itself.
_Sharer: Any = resource_sharer._ResourceSharer  # type: ignore[attr-defined]
_server: Any = forkserver._forkserver


class _Lender(_Sharer):
    """Hands descriptors to the processes that ask for them, in a thread."""

    def _start(self):
        self._listener = Listener(address(), backlog=128, authkey=process.current_process().authkey)
        self._address = self._listener.address
        self._thread = threading.Thread(target=self._serve, name="rushlight-lender", daemon=True)
        self._thread.start()


_lender = _Lender()


def lent(descriptor: int) -> "Loan":
    """A picklable promise of a copy of the descriptor, which this process keeps until another has fetched it."""
    copy = os.dup(descriptor)
    return Loan(_lender.register(lambda end, pid: reduction.send_handle(end, copy, pid), lambda: os.close(copy)))


class Loan(NamedTuple):
    place: Any

    def detach(self) -> int:
        """The descriptor, once."""
        with _lender.get_connection(self.place) as end:
            return reduction.recv_handle(end)


_door: int | None = None
"""The socket of the fork server, as a place to connect to."""


def ensure_fork_server() -> None:
    """Starts the fork server unless it runs, with a socket that has no name any more once this returns."""
    global _door
    if not os.path.isdir("/proc/self/fd"):
        return  # it starts by itself, and keeps its file
    with (
        tempfile.TemporaryDirectory(prefix="rushlight-") as folder,
        _short(folder) as place,
        _temporary_files_in(place),
    ):
        forkserver.ensure_running()
        if os.path.dirname(_server._forkserver_address) != place:
            return  # it has been running
        opened = os.open(_server._forkserver_address, os.O_PATH | os.O_CLOEXEC)
        _server._forkserver_address = f"/proc/self/fd/{opened}"
    if _door is not None:
        os.close(_door)  # of a server that has died
    _door = opened


@contextlib.contextmanager
def _short(folder):
    """Another path of the folder: those of sockets have 107 bytes."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _temporary_files_in(folder):
    config: Any = process.current_process()._config
    before = config.get("tempdir")
    config["tempdir"] = folder
    try:
        yield
    finally:
        config["tempdir"] = before

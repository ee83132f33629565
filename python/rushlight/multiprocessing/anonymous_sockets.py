"""Sockets without a file, in place of the standard library's named sockets in the temporary directory.

A killed process does not remove its files, so that a named socket would remain. Linux has abstract socket names, which
disappear with the socket. Access is controlled by multiprocessing's key, as over a network. The fork server does not
use a key: its socket is unlinked and reached through a descriptor.
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
    """An unused abstract name; None if the system does not have them."""
    return f"\0rushlight-{secrets.token_hex(8)}" if util.abstract_sockets_supported else None


# Internal names of the standard library.
_Sharer: Any = resource_sharer._ResourceSharer  # type: ignore[attr-defined]
_server: Any = forkserver._forkserver


class _DescriptorServer(_Sharer):
    """A thread that sends descriptors to processes that request them."""

    def _start(self):
        self._listener = Listener(address(), backlog=128, authkey=process.current_process().authkey)
        self._address = self._listener.address
        self._thread = threading.Thread(target=self._serve, name="rushlight-lender", daemon=True)
        self._thread.start()


_descriptor_server = _DescriptorServer()


def lent(descriptor: int) -> "Loan":
    """A picklable reference to a duplicate of the descriptor. This process keeps it until another has fetched it."""
    copy = os.dup(descriptor)
    return Loan(
        _descriptor_server.register(lambda end, pid: reduction.send_handle(end, copy, pid), lambda: os.close(copy))
    )


class Loan(NamedTuple):
    place: Any

    def detach(self) -> int:
        """The descriptor. It can be fetched once."""
        with _descriptor_server.get_connection(self.place) as end:
            return reduction.recv_handle(end)


_socket_descriptor: int | None = None
"""The descriptor of the fork server's socket, to connect to."""


def ensure_fork_server() -> None:
    """Starts the fork server unless it is running. Its socket has no name after this call."""
    global _socket_descriptor
    if not os.path.isdir("/proc/self/fd"):
        return  # the standard library starts it, with a file
    with (
        tempfile.TemporaryDirectory(prefix="rushlight-") as folder,
        _short(folder) as place,
        _temporary_files_in(place),
    ):
        forkserver.ensure_running()
        if os.path.dirname(_server._forkserver_address) != place:
            return  # it is already running
        opened = os.open(_server._forkserver_address, os.O_PATH | os.O_CLOEXEC)
        _server._forkserver_address = f"/proc/self/fd/{opened}"
    if _socket_descriptor is not None:
        os.close(_socket_descriptor)  # of a server that has ended
    _socket_descriptor = opened


@contextlib.contextmanager
def _short(folder):
    """A shorter path to the folder, because paths of sockets are limited to 107 bytes."""
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

"""The engine's group of some ranks: they find each other through the store and share memory through a socket."""

import errno
import hmac
import os
import secrets
import socket
import struct
import time

from rushlight import _C, uint8, zeros
from rushlight._set_module import set_module
from rushlight.distributed.store import DistError, DistNetworkError, DistStoreError

_CREDENTIALS = struct.Struct("iII")


class DistBackendError(DistError):
    """A process group cannot be made, or has failed.

    >>> issubclass(torch.distributed.DistBackendError, torch.distributed.DistError)
    True
    """


def _machine():
    """A text that is equal for processes that can share memory: of one machine, user, and group of namespaces."""

    def read(path):
        try:
            with open(path) as file:
                return file.read().strip()
        except OSError:
            return socket.gethostname()

    def link(name):
        try:
            return os.readlink(f"/proc/self/ns/{name}")
        except OSError:
            return ""

    return f"{read('/proc/sys/kernel/random/boot_id')} {link('net')} {link('pid')} {os.getuid()}"


def join(store, rank, size, timeout):
    """This process's part of the engine's group. Every one of the `size` ranks calls this with the same store.

    Raises:
        DistStoreError: a rank did not come before the timeout.
        DistBackendError: the ranks are not on one machine.
    """
    deadline = time.monotonic() + timeout.total_seconds()
    store.set(f"machine/{rank}", _machine())
    machines = store.multi_get([f"machine/{other}" for other in range(size)])
    apart = [other for other in range(size) if machines[other] != machines[0]]
    if apart:
        raise DistBackendError(
            f"rank 0 and rank {apart[0]} are on different machines (or in different containers)\n"
            "  Process groups of several machines are not available yet."
        )
    if rank == 0:
        memory = zeros(_C._group_bytes(size), dtype=uint8).share_memory_()
        _hand_out(store, size, memory, deadline)
    else:
        memory = _fetch(store, rank, deadline)
    group = _C._ProcessGroup(memory.untyped_storage(), rank, size)
    _meet(store, rank, size, timeout)
    return group


def _meet(store, rank, size, timeout):
    """Returns once every rank has joined."""
    if store.add("joined", 1) == size:
        store.set("complete", "")
    try:
        store.wait(["complete"], timeout)
    except DistStoreError as error:
        joined = store.add("joined", 0)
        raise DistStoreError(
            "Timed out initializing process group in store based barrier on "
            f"rank {rank}, for key: joined (world_size={size}, num_workers_joined={joined}, timeout={timeout} "
            f"error={error})"
        ) from None


def _hand_out(store, size, memory, deadline):
    """Gives the memory to every other rank that knows the store's secret and belongs to this user."""
    from rushlight.multiprocessing import anonymous_sockets, channel, connection

    address, secret = anonymous_sockets.address(), secrets.token_bytes(16)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(max(size, 1))
        store.set("memory", address.encode()[1:] + b" " + secret.hex().encode())
        left = set(range(1, size))
        while left:
            listener.settimeout(max(0.0, deadline - time.monotonic()) or 1e-3)
            try:
                end, _ = listener.accept()
            except TimeoutError:
                raise DistStoreError(
                    f"Timed out waiting for ranks {', '.join(map(str, sorted(left)))} to join the process group"
                ) from None
            with end:
                end.settimeout(min(5.0, max(1e-3, deadline - time.monotonic())))
                _, user, _ = _CREDENTIALS.unpack(
                    end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                )
                try:
                    hello = end.recv(64)
                except OSError:
                    continue
                if user != os.getuid() or not hmac.compare_digest(hello[:16], secret) or len(hello) != 20:
                    continue
                end.settimeout(None)
                message = connection.Message(memory)
                try:
                    message.send(channel.open_socket(os.dup(end.fileno())))
                    left.discard(int.from_bytes(hello[16:], "little"))
                except OSError:
                    continue


def _fetch(store, rank, deadline):
    """The memory of the group, from rank 0."""
    from rushlight.multiprocessing import bundle, channel

    name, secret = store.get("memory").split(b" ")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
        end.settimeout(max(1e-3, deadline - time.monotonic()))
        try:
            end.connect(b"\0" + name)
            end.send(bytes.fromhex(secret.decode()) + rank.to_bytes(4, "little"))
            end.settimeout(None)
            if not channel.wait(end, 1, deadline):
                raise TimeoutError(errno.ETIMEDOUT, "no answer")
            return bundle.unpack(*channel.receive(end))
        except (OSError, EOFError) as error:
            raise DistNetworkError(f"Connection closed by peer: rank 0 does not share its memory: {error}") from None


set_module("rushlight.distributed", DistBackendError)

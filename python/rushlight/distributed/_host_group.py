"""The group of some ranks for tensors on the CPU: they find each other through the store and share memory through a socket."""

import contextlib
import errno
import hmac
import os
import secrets
import socket
import struct
import time
from datetime import timedelta

from rushlight import _C, uint8, zeros
from rushlight._set_module import set_module
from rushlight.distributed import _companion
from rushlight.distributed.store import DistError, DistNetworkError, DistStoreError

_CREDENTIALS = struct.Struct("iII")


class DistBackendError(DistError):
    """A process group cannot be made, or has failed.

    >>> issubclass(torch.distributed.DistBackendError, torch.distributed.DistError)
    True
    """


def _machine():
    """A text that is equal for processes that can share memory: of one machine, user, and group of namespaces.

    RUSHLIGHT_MACHINE divides a machine further.
    """

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

    chosen = os.environ.get("RUSHLIGHT_MACHINE", "")
    namespaces = f"{link('net')} {link('ipc')} {link('pid')}"
    boot = read("/proc/sys/kernel/random/boot_id")
    return f"{chosen} {socket.gethostname()} {boot} {namespaces} {os.getuid()}"


class HostGroup:
    """This process's part of the engine's group, and the companion that it has started."""

    #: How errors call it, and their class if an argument is wrong.
    process_group, argument_error = "ProcessGroupGloo", RuntimeError

    def __init__(self, group, process):
        self._group, self._process = group, process
        self.call, self.send, self.receive = group.call, group.send, group.receive

    def leave(self):
        """Leaves the group; calls that are under way fail."""
        self._group.leave()
        process, self._process = self._process, None
        if process is not None:
            _companion.end(process)

    abort = leave


def join(store, rank, size, timeout):
    """This process's part of the engine's group. Every one of the `size` ranks calls this with the same store.

    Ranks of one machine share memory. If there are several machines, companions connect them.

    Raises:
        DistStoreError: a rank did not come before the timeout.
        DistBackendError: the ranks are on several machines and one of them lacks MPI.
    """
    deadline = time.monotonic() + timeout.total_seconds()
    store.set(f"machine/{rank}", _machine())
    names = _of_all(store, "machine", size, deadline)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    machines = [numbers[name] for name in names]
    own = machines[rank]
    local = [other for other in range(size) if machines[other] == own]
    if len(numbers) > 1:
        _check_library(store, rank, machines, deadline)
    if rank == local[0]:
        memory = zeros(_C._group_bytes(machines, own), dtype=uint8).share_memory_()
        _hand_out(store, own, local, memory, deadline)
    else:
        memory = _fetch(store, own, local, rank, deadline)
    group = _C._ProcessGroup(memory.untyped_storage(), rank, machines)
    process = None
    if len(numbers) > 1 and rank == local[0]:
        process = _companion.start(store, memory, machines, own, timeout.total_seconds())
    made = HostGroup(group, process)
    try:
        meet(store, rank, size, timeout)
        if len(numbers) > 1:
            made.call("barrier", [], [], 0, None, max(1e-3, deadline - time.monotonic()), False)
    except BaseException:
        made.leave()
        raise
    return made


def _of_all(store, name, size, deadline):
    """What each rank has set under a name."""
    keys = [f"{name}/{other}" for other in range(size)]
    try:
        store.wait(keys, timedelta(seconds=max(1e-3, deadline - time.monotonic())))
    except DistStoreError as error:
        missing = [str(other) for other, key in enumerate(keys) if not store.check([key])]
        raise DistStoreError(
            f"{error}\n  {len(missing)} of {size} ranks did not come: {', '.join(missing[:20])}"
        ) from None
    return store.multi_get(keys)


def _check_library(store, rank, machines, deadline):
    """Raises an error on all ranks if the machine of one of them lacks MPI."""
    store.set(f"library/{rank}", "" if _companion.library() is None else "1")
    found = _of_all(store, "library", len(machines), deadline)
    without = [other for other in range(len(machines)) if not found[other]]
    if without:
        raise DistBackendError(
            f"the ranks of this group are on {len(set(machines))} machines, and rank {without[0]} finds no MPI\n"
            "  Install it on every machine: pip install rushlight[distributed]."
        )


def meet(store, rank, size, timeout):
    """Returns once every rank has joined.

    The first rank returns last. Its process may serve the store, which would end under the others with a program that is short.
    """
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
    # The store may end as soon as the last one has said that it knows.
    with contextlib.suppress(DistNetworkError):
        if store.add("informed", 1) == size:
            store.set("known", "")
    if rank == 0:
        # A rank that died in between is found by the first call.
        with contextlib.suppress(DistStoreError):
            store.wait(["known"], min(timeout, timedelta(seconds=5)))


def _hand_out(store, machine, local, memory, deadline):
    """Gives the memory to every other rank of this machine that knows the store's secret and belongs to this user."""
    if len(local) == 1:
        return
    from rushlight.multiprocessing import anonymous_sockets, channel, connection

    address, secret = anonymous_sockets.address(), secrets.token_bytes(16)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(len(local))
        store.set(f"memory/{machine}", address.encode()[1:] + b" " + secret.hex().encode())
        left = set(local[1:])
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


def _fetch(store, machine, local, rank, deadline):
    """The memory of the group, from the first rank of this machine."""
    from rushlight.multiprocessing import bundle, channel

    name, secret = store.get(f"memory/{machine}").split(b" ")
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
            raise DistNetworkError(
                f"Connection closed by peer: rank {local[0]} does not share its memory: {error}"
            ) from None


set_module("rushlight.distributed", DistBackendError)

"""The companion of a group that spans several machines: two processes of each machine, the control, which this module starts,
and the one that calls MPI, which exchanges with the other machines.

The first rank of each machine starts it. It ends with the ranks of its machine.
"""

import contextlib
import os
import secrets
import socket
import sys
import time

from rushlight import _C

_SIOCGIFADDR = 0x8915
#: The program of a companion, which imports as little as possible and reads its settings on its standard input.
_PROGRAM = """
import json, sys
from rushlight import _C
memory, addresses, rest = json.load(sys.stdin)
machines, own, *others = rest
_C._serve_companion(_C._shared_storage(*memory), machines, own, [tuple(one) for one in addresses], *others)
"""


def library():
    """The path of the library for MPI, or None if there is none. RUSHLIGHT_MPI_LIBRARY names another one."""
    import importlib.metadata

    chosen = os.environ.get("RUSHLIGHT_MPI_LIBRARY")
    if chosen:
        return chosen
    try:
        files = importlib.metadata.files("mpich") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [str(file.locate()) for file in files if file.name == "libmpi_abi.so.1"]
    return next((path for path in found if os.path.exists(path)), None)


def _environment(address):
    """The environment of a companion that reaches the others through the interface with this address. A program may set
    these variables otherwise."""
    own = {
        # There is one companion on each machine, so that shared memory between them would only leave files behind.
        "MPIR_CVAR_NOLOCAL": "1",
        # Faster than MPICH's first choice, UCX, where the network is TCP.
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "FI_PROVIDER": "tcp",
    }
    interface = _interface(address)
    if interface is not None:
        own["FI_TCP_IFACE"] = interface
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    return {**own, **os.environ, "PYTHONPATH": path}


def _interface(address):
    """The name of the network interface with an address, or None if it is not found."""
    import fcntl
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):
                found = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
                if socket.inet_ntoa(found[20:24]) == address:
                    return name
    return None


def _address_towards(host, port):
    """The address of the interface that leads to another machine, or None if there is no way."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        return probe.getsockname()[0]
    return None


def _addresses(store, port):
    """Where the companion of this machine listens, as other machines may reach it."""
    base = store
    while hasattr(base, "underlying_store"):
        base = base.underlying_store
    host, hosts = getattr(base, "host", None), []
    if host is not None:
        hosts.append(_address_towards(host, base.port))
        # The name of the store, if that is here.
        hosts.append(host if getattr(base, "_server", None) is not None else None)
    hosts.append(socket.gethostname())
    return [(host, port) for host in dict.fromkeys(filter(None, hosts))]


def start(store, memory, machines, own, timeout):
    """Starts the companion of this machine. Returns its process.

    The companion of the first machine listens; the store tells the others where.
    """
    import json
    import subprocess

    listener = None
    if own == 0:
        listener = socket.create_server(("", 0), backlog=512)
        port = listener.getsockname()[1]
        addresses = _addresses(store, port)
        secret, name = secrets.token_hex(16), secrets.token_hex(8)
        store.set("hub", f"{secret} {name} " + " ".join(f"{host},{port}" for host, port in addresses))
    else:
        secret, name, *listed = store.get("hub").decode().split(" ")
        addresses = [(host, int(port)) for host, _, port in (one.rpartition(",") for one in listed)]
    shared = _C._SharedBundle()
    index, *where = shared.add(memory.untyped_storage())
    descriptor = shared.descriptor(index)
    inherited = [descriptor] if listener is None else [descriptor, listener.fileno()]
    rest = [machines, own, secret, name, library(), timeout, None if listener is None else listener.fileno()]
    with listener or contextlib.nullcontext():
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=None if "RUSHLIGHT_COMPANION_OUTPUT" in os.environ else subprocess.DEVNULL,
            env=_environment(_address_towards(*addresses[0])),
            pass_fds=inherited,
            start_new_session=True,
        )
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps([[descriptor, *where], addresses, rest]).encode())
    return process


def end(process):
    """Waits a moment for a companion whose ranks have left."""
    deadline = time.monotonic() + 1.0
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)

"""Hosts for tests: network namespaces, whose packets a process carries from one to another. It may delay, lose and withhold them.

The kernel's own means (`tc netem`) are not in every kernel.
"""

import contextlib
import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest

_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
#: Without addresses of IPv6, which cannot be used in the first seconds. Long packets are fewer.
_COMMANDS = "link set t0 addrgenmode none mtu 32000, addr add {}/24 dev t0, link set t0 up, link set lo up"


def why_not():
    """Why there can be no hosts, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need ip, of iproute2"
    if not os.path.exists("/dev/net/tun"):
        return "the network between namespaces needs /dev/net/tun"
    return None


class Network:
    """So many hosts, each with an address."""

    def __init__(self, hosts):
        self._names = [f"rushlight{os.getpid()}-{host}" for host in range(hosts)]
        self.addresses = [f"10.213.77.{host + 1}" for host in range(hosts)]
        self._orders, self._carrier = None, None

    def lay(self):
        """Makes the hosts. Returns why there are none, or None."""
        for name in self._names:
            done = _ip("netns", "add", name)
            if done.returncode:
                return f"network namespaces are not available: {done.stderr.strip()}"
        theirs, self._orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._carrier = os.fork()
        if self._carrier == 0:
            with contextlib.suppress(BaseException):
                self._orders.close()
                _carry(self._names, self.addresses, theirs)
            os._exit(0)
        theirs.close()
        answer = self._orders.recv(1000).decode() or "the network did not begin"
        return None if answer == "ready" else answer

    def enter(self, host):
        """Moves this process to a host."""
        _enter(self._names[host])

    def change(self, delay=0.0, loss=0.0, apart=()):
        """From now on packets are so many seconds late, are lost with a probability, and do not reach the hosts that are apart
        from the others."""
        self._orders.send(json.dumps([delay, loss, list(apart)]).encode())

    def remove(self):
        """Removes the hosts."""
        if self._carrier is not None:
            os.kill(self._carrier, signal.SIGKILL)
            os.waitpid(self._carrier, 0)
            self._orders.close()
        for name in self._names:
            _ip("netns", "del", name)


def _ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True)


def _enter(name):
    with open(f"/run/netns/{name}") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def _carry(names, addresses, orders):
    """Carries packets until the network is removed."""
    ends = []
    try:
        for name, address in zip(names, addresses):
            _enter(name)
            ends.append(os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK))
            fcntl.ioctl(ends[-1], _TUNSETIFF, struct.pack("16sH", b"t0", _IFF_TUN | _IFF_NO_PI))
            for command in _COMMANDS.format(address).split(", "):
                subprocess.run(["ip", *command.split()], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        orders.send(f"no network between namespaces: {error}".encode())
        return
    orders.send(b"ready")
    host_of = {socket.inet_aton(address): host for host, address in enumerate(addresses)}
    delay, loss, apart, draw = 0.0, 0.0, set(), random.Random(0)
    waiting: list = []  # when they arrive, a number that keeps the order, where, packets
    count = 0
    while True:
        patience = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for end in select.select([orders, *ends], [], [], patience)[0]:
            if end is orders:
                order = orders.recv(1000)
                if not order:
                    return
                delay, loss, far = json.loads(order)
                apart = set(far)
                continue
            with contextlib.suppress(OSError):
                packet = os.read(end, 65536)
                source, target = ends.index(end), host_of.get(packet[16:20])
                if target is None or (source in apart) != (target in apart) or draw.random() < loss:
                    continue
                heapq.heappush(waiting, (time.monotonic() + delay, count, ends[target], packet))
                count += 1
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(waiting)
            with contextlib.suppress(OSError):
                os.write(end, packet)


@pytest.fixture
def network(request):
    """Hosts, as many as the test's parameter says."""
    if why_not() is not None:
        pytest.skip(why_not())
    made = Network(request.param)
    try:
        reason = made.lay()
        if reason is not None:
            pytest.skip(reason)
        yield made
    finally:
        made.remove()

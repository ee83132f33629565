"""Key-value stores that several processes share, for example to exchange addresses."""

import errno
import operator
import os
import re
import socket
import time
from collections.abc import Sequence
from datetime import timedelta
from math import isfinite
from weakref import WeakValueDictionary

from rushlight import _C

_INIT = b"init/"


class DistError(RuntimeError):
    """The base class of errors in communication between processes.

    >>> issubclass(torch.distributed.DistError, RuntimeError)
    True
    """


class DistStoreError(DistError):
    """A store did not have a key before the timeout.

    >>> from datetime import timedelta
    >>> try:
    ...     torch.distributed.HashStore().wait(["missing"], timedelta(seconds=0.01))
    ... except torch.distributed.DistStoreError:
    ...     print("too late")
    too late
    """


class QueueEmptyError(DistStoreError):
    """A queue of a store is empty.

    >>> try:
    ...     torch.distributed.HashStore().queue_pop("jobs", block=False)
    ... except torch.distributed.QueueEmptyError as error:
    ...     print(error)
    queue is empty
    """


class DistNetworkError(DistError):
    """A store cannot be reached.

    >>> issubclass(torch.distributed.DistNetworkError, torch.distributed.DistError)
    True
    """


#: Part of the keys of queues, which are not among those of the program.
_QUEUE = "\0queue/"


def _bytes(value):
    return value.encode() if isinstance(value, str) else bytes(value)


def _unfit(name, expected, got):
    """The TypeError of a method's arguments."""
    kind = "constructor" if name == "__init__" else "function"
    return TypeError(
        f"{name}(): incompatible {kind} arguments. The following argument types are supported:\n"
        f"  {expected}, but got {got}"
    )


def _checked(name, *values):
    """Raises an error unless keys and values are text or bytes, the first of them text."""
    if not isinstance(values[0], str) or not all(isinstance(one, (str, bytes, bytearray)) for one in values):
        raise _unfit(name, "text for keys, text or bytes for values", ", ".join(type(one).__name__ for one in values))


def _checked_list(name, values):
    """Raises an error unless there are several keys or values. A text is one, not a list of its letters."""
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes, bytearray)):
        raise _unfit(name, "a list", type(values).__name__)


def _duration(name, timeout):
    """A timeout as a timedelta. A float counts seconds."""
    if isinstance(timeout, float) and isfinite(timeout):
        return timedelta(seconds=timeout)
    if not isinstance(timeout, timedelta):
        raise _unfit(name, "a timedelta for the timeout", repr(timeout))
    return timeout


class Store:
    """The base class of stores. Keys are text. Values are text or bytes and are returned as bytes.

    `get` and `wait` wait for keys that do not exist yet. After the store's `timeout` they raise `DistStoreError`.

    >>> store = torch.distributed.HashStore()
    >>> store.set("key", "value")
    >>> store.get("key"), store.add("count", 2), store.num_keys()
    (b'value', 2, 2)
    """

    _timeout = timedelta(seconds=300)

    def _ask(self, name, *fields):
        raise NotImplementedError

    def _key(self, key):
        return key.encode()

    @property
    def timeout(self):
        """The timeout of `get` and `wait`, a timedelta."""
        return self._timeout

    def set_timeout(self, timeout):
        """Sets the timeout of `get` and `wait`, a timedelta."""
        self._timeout = _duration("set_timeout", timeout)

    @property
    def _patience(self):
        """The seconds in which a server must answer. It always has one, for however short a time a key is waited for."""
        return max(self._timeout.total_seconds(), 1)

    def set(self, key, value):
        """Sets the value of a key."""
        _checked("set", key, value)
        self._ask("set", self._key(key), _bytes(value))

    def get(self, key):
        """Waits for the value of a key and returns it.

        >>> store = torch.distributed.HashStore()
        >>> store.set("port", "29500")
        >>> store.get("port")
        b'29500'
        """
        _checked("get", key)
        return self.multi_get([key])[0]

    def add(self, key, amount):
        """Atomically adds to the number of a key (zero if it is missing) and returns the sum.

        >>> store = torch.distributed.HashStore()
        >>> store.add("ranks", 1), store.add("ranks", 1)
        (1, 2)
        """
        _checked("add", key)
        if not hasattr(amount, "__index__") or not -(2**63) <= operator.index(amount) < 2**63:
            raise _unfit("add", "an int of 64 bits for the amount", f"{amount!r}")
        return self._ask("add", self._key(key), operator.index(amount))

    def append(self, key, value):
        """Appends bytes to the value of a key."""
        _checked("append", key, value)
        self._ask("append", self._key(key), _bytes(value))

    def compare_set(self, key, expected_value, desired_value):
        """Sets the value if the current one is the expected one, or if the key is missing and "" is expected. Returns
        the value of the key afterwards, or the expected value if the key is missing."""
        _checked("compare_set", key, expected_value, desired_value)
        return self._ask("compare_set", self._key(key), _bytes(expected_value), _bytes(desired_value))[0]

    def check(self, keys):
        """Whether all keys exist."""
        _checked_list("check", keys)
        for key in keys:
            _checked("check", key)
        return self._ask("check", *map(self._key, keys))

    def wait(self, keys, timeout=None):
        """Waits until all keys exist. Raises DistStoreError after `timeout` (a timedelta, by default that of the store)."""
        timeout = self.timeout if timeout is None else _duration("wait", timeout)
        _checked_list("wait", keys)
        for key in keys:
            _checked("wait", key)
        names = [self._key(key) for key in keys]
        deadline = time.monotonic() + timeout.total_seconds()
        while not self._ask("wait", *names):
            if time.monotonic() >= deadline:
                listed = ", ".join(f"/{key}" for key in keys)
                milliseconds = round(timeout.total_seconds() * 1000)
                raise DistStoreError(f"wait timeout after {milliseconds}ms, keys: {listed}")

    def multi_set(self, keys, values):
        """Sets several keys."""
        _checked_list("multi_set", keys)
        _checked_list("multi_set", values)
        if len(keys) != len(values):
            raise DistStoreError(
                f"multiSet keys and values vectors must be of same size\n  {len(keys)} keys and {len(values)} values"
            )
        for pair in zip(keys, values):
            _checked("multi_set", *pair)
        for key, value in zip(keys, values):
            self.set(key, value)

    def multi_get(self, keys):
        """Waits for several keys and returns their values."""
        _checked_list("multi_get", keys)
        for key in keys:
            _checked("multi_get", key)
        names = [self._key(key) for key in keys]
        while not (found := self._ask("get", *names)) and names:
            self.wait(keys)
        return found or []

    def queue_push(self, key, value):
        """Appends a value to a queue.

        >>> store = torch.distributed.HashStore()
        >>> store.queue_push("jobs", "first")
        >>> store.queue_len("jobs"), store.queue_pop("jobs")
        (1, b'first')
        """
        _checked("queue_push", key, value)
        key += _QUEUE
        number = self.add(f"{key}pushed", 1)
        self.set(f"{key}{number}", value)

    def queue_pop(self, key, block=True):
        """Removes the first value of a queue and returns it. It goes to one process.

        Args:
            key: the queue.
            block: wait for a value if there is none.

        Raises:
            QueueEmptyError: there is none.
            DistStoreError: none came before the store's timeout.
        """
        _checked("queue_pop", key)
        shown, key = key, key + _QUEUE
        deadline = time.monotonic() + self.timeout.total_seconds()
        while True:
            number = self.add(f"{key}taken", 0) + 1
            if number <= self.add(f"{key}pushed", 0):
                # The process that counts first has the value, unless another one has taken it and forgotten the count.
                claim = f"{key}{number}/claims"
                if self.add(claim, 1) == 1:
                    mine = self.add(f"{key}taken", 0) < number
                    value = None
                    if mine:
                        self.add(f"{key}taken", 1)
                        value = self.get(f"{key}{number}")
                        self.delete_key(f"{key}{number}")
                    self.delete_key(claim)
                    if mine:
                        return value
                continue
            if not block:
                raise QueueEmptyError("queue is empty")
            if time.monotonic() >= deadline:
                milliseconds = round(self.timeout.total_seconds() * 1000)
                raise DistStoreError(f"wait timeout after {milliseconds}ms, keys: /{shown}")
            time.sleep(0.01)

    def queue_len(self, key):
        """The number of values in a queue."""
        _checked("queue_len", key)
        key += _QUEUE
        return self.add(f"{key}pushed", 0) - self.add(f"{key}taken", 0)

    def barrier(self, key, world_size, timeout=None):
        """Waits until so many processes have come here.

        Raises:
            DistStoreError: they did not come before `timeout`, a timedelta, by default that of the store.
        """
        _checked("barrier", key)
        timeout = self.timeout if timeout is None else _duration("barrier", timeout)
        if self.add(f"{key}/num_members", 1) >= world_size:
            self.set(f"{key}/last_member", "1")
        try:
            self.wait([f"{key}/last_member"], timeout)
        except DistStoreError:
            milliseconds = round(timeout.total_seconds() * 1000)
            raise DistStoreError(f"barrier timeout after {milliseconds}ms, key: {key}") from None

    def has_extended_api(self):
        """Whether there are `append`, `multi_get` and `multi_set`: True."""
        return True

    def clone(self):
        """A store of the same keys and values. That of a `TCPStore` has a connection of its own."""
        return self

    def delete_key(self, key):
        """Deletes a key. Returns whether it existed."""
        _checked("delete_key", key)
        return self._ask("delete", self._key(key))

    def list_keys(self):
        """All keys, sorted. Those of a `PrefixStore` have its prefix, which is left out."""
        start = self._key("")
        keys = [key for key in self._ask("keys") if key.startswith(start) and key != _INIT]
        return [key[len(start) :].decode() for key in keys if _QUEUE.encode() not in key]

    def num_keys(self):
        """The number of keys."""
        return sum(_QUEUE.encode() not in key for key in self._ask("keys"))


class HashStore(Store):
    """A store for the threads of one process.

    >>> store = torch.distributed.HashStore()
    >>> store.add("count", 1), store.add("count", 2)
    (1, 3)
    """

    def __init__(self):
        self._table = _C._StoreTable()

    def _ask(self, name, *fields):
        try:
            return self._table.request(name, fields, self._patience)
        except OSError:
            raise DistNetworkError(
                "the store belongs to the process that forked this one\n  Use a TCPStore for several processes."
            ) from None


def _refused(store, why):
    """The TypeError of a store's arguments."""
    from inspect import signature

    arguments = str(signature(type(store))).partition(" ->")[0]
    return TypeError(
        "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
        f"    1. {type(store).__name__}{arguments}\n"
        f"  {why[0].upper()}{why[1:]}."
    )


#: The servers that stores of a process share, by process and port.
_tenants: WeakValueDictionary[tuple[int, int], _C._StoreServer] = WeakValueDictionary()


def _bound_to(descriptor, port):
    """The descriptor of a socket, if it is bound to this port, or to any one and 0 is given."""
    try:
        with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as end:
            found = end.getsockname()[1]
    except OSError as error:
        raise DistNetworkError(
            f"Failed to open existing socket. socket: {descriptor}, code: -{error.errno}, "
            f"name: {errno.errorcode[error.errno]}, message: {os.strerror(error.errno).lower()}"
        ) from None
    if port not in (0, found):
        raise DistStoreError(
            f"listen fd {descriptor} is bound to port {found}, expected to be bound to port {port}\n"
            "  Give the port of the socket, or 0."
        )
    return descriptor


class TCPStore(Store):
    """A store in one process, the server, to which other processes connect, also from other machines.

    The process with `is_master=True` listens at `host_name:port` (port 0 chooses a free one, see `.port`) while the
    store exists there. The others connect, and retry until `timeout`. With `world_size` the server waits until that
    many processes, including itself, have joined. With a `token` only processes that know it can join; it is sent
    unencrypted. `use_libuv` is accepted; there is one implementation.

    With `multi_tenant=True` masters of one process at one port are users of one server, which ends with the last of them.
    `master_listen_fd` is the descriptor of a TCP socket on which the master listens. The socket is bound to `port`, or that is 0.
    The store closes it in the end, so that the program must not (``sock.detach()``).

    Raises DistNetworkError if the server cannot be reached, DistStoreError if processes are missing, and TypeError if an
    argument is of a wrong kind, such as a port that is no integer from 0 to 65535 or a timeout that is no timedelta.

    >>> store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True)
    >>> store.set("greeting", "hello")
    >>> torch.distributed.TCPStore("127.0.0.1", store.port).get("greeting")
    b'hello'
    """

    def __init__(
        self,
        host_name,
        port,
        world_size=None,
        is_master=False,
        timeout=timedelta(seconds=300),
        wait_for_workers=True,
        multi_tenant=False,
        master_listen_fd=None,
        use_libuv=True,
        *,
        token="",
    ):
        switches = {"is_master": is_master, "wait_for_workers": wait_for_workers, "multi_tenant": multi_tenant}
        for name, value in {**switches, "use_libuv": use_libuv}.items():
            if not isinstance(value, bool):
                raise _refused(self, f"{name} must be a bool, not {value!r}")
        if not isinstance(host_name, str):
            raise _refused(self, f"the host name {host_name!r} is no text")
        if not (hasattr(port, "__index__") and 0 <= port < 2**16):
            raise _refused(self, f"the port {port!r} is no integer from 0 to 65535")
        if world_size is not None and not hasattr(world_size, "__index__"):
            raise _refused(self, f"the size of the world {world_size!r} is no integer")
        if master_listen_fd is not None and not hasattr(master_listen_fd, "__index__"):
            raise _refused(self, f"the descriptor {master_listen_fd!r} is no integer")
        if not isinstance(token, (str, bytes, bytearray)):
            raise _refused(self, f"the token must be text or bytes, not {type(token).__name__}")
        timeout = _duration("__init__", timeout)
        self._timeout, self._token, self._use_libuv = timeout, _bytes(token), use_libuv
        self._host, self._port, self._server = host_name, port, None
        deadline = time.monotonic() + timeout.total_seconds()
        try:
            if is_master:
                self._server = self._serve(multi_tenant, master_listen_fd)
                self._port = self._server.port
            joined = self._join(deadline)
        except OSError as error:
            what = self._no_server(error) if is_master and self._server is None else self._no_client(error)
            raise DistNetworkError(f"{what}\n  {host_name}:{port}: {error}") from None
        if is_master and world_size and wait_for_workers:
            while joined < world_size:
                if time.monotonic() >= deadline:
                    # The error may live for long, and this object with it. The port is free for another store at once.
                    self._server = None
                    raise DistStoreError(
                        f"Timed out after {max(round(timeout.total_seconds()), 1)} seconds waiting for clients. "
                        f"{joined}/{world_size} clients joined."
                    )
                time.sleep(0.01)
                joined = self.add(_INIT.decode(), 0)

    def _serve(self, multi_tenant, descriptor):
        """The server: a new one, or that of another store of this process, if both allow it."""
        key = os.getpid(), self._port
        server = _tenants.get(key) if multi_tenant else None
        if server is None:
            if descriptor is not None:
                descriptor = _bound_to(operator.index(descriptor), self._port)
            server = _C._StoreServer(self._host, self._port, self._token, descriptor)
            if multi_tenant:
                _tenants[key[0], server.port] = server
        return server

    def _no_server(self, error):
        sentence = f"The server socket has failed to listen on any local network address. port: {self._port}"
        found = re.search(r"\(os error (\d+)\)", str(error))
        if found is None:
            return sentence
        code = int(found[1])
        name, message = errno.errorcode.get(code, "?"), os.strerror(code).lower()
        return f"{sentence}, useIpv6: false, code: -{code}, name: {name}, message: {message}"

    def _no_client(self, error):
        if isinstance(error, PermissionError):
            return "The store did not accept the token"
        milliseconds = round(self._timeout.total_seconds() * 1000)
        where = f"({self._host}, {self._port})"
        return f"The client socket has timed out after {milliseconds}ms while trying to connect to {where}."

    def _join(self, deadline):
        """Connects, and returns how many processes have."""
        while True:
            left = max(deadline - time.monotonic(), 0)
            self._client = _C._StoreClient(self._host, self._port, self._token, left)
            try:
                return self.add(_INIT.decode(), 1)
            except DistNetworkError:
                # The server ended after its greeting. Another one may follow at the same port.
                if self._server is not None or time.monotonic() >= deadline:
                    raise

    def clone(self):
        return TCPStore(self._host, self._port, timeout=self._timeout, use_libuv=self._use_libuv, token=self._token)

    @property
    def libuvBackend(self):
        """The argument `use_libuv`."""
        return self._use_libuv

    @property
    def host(self):
        """The host name that was given."""
        return self._host

    @property
    def port(self):
        """The port of the server."""
        return self._port

    def _ask(self, name, *fields):
        try:
            return self._client.request(name, fields, self._patience)
        except OSError as error:
            sentence = (
                "The store has not answered in time"
                if isinstance(error, TimeoutError)
                else "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"
            )
            raise DistNetworkError(f"{sentence}\n  {self._host}:{self._port}: {error}") from None

    def __repr__(self):
        return f"TCPStore({self._host}:{self._port})"


class PrefixStore(Store):
    """A store that adds a prefix to the keys of another store.

    >>> store = torch.distributed.HashStore()
    >>> torch.distributed.PrefixStore("job", store).set("rank", "0")
    >>> store.get("job/rank")
    b'0'
    """

    def __init__(self, prefix, store):
        if not isinstance(prefix, str):
            raise _refused(self, f"the prefix {prefix!r} is no text")
        if not isinstance(store, Store):
            raise _refused(self, f"{store!r} is no store, such as TCPStore, FileStore or HashStore")
        self._prefix, self._store = prefix, store

    def _key(self, key):
        return self._store._key(f"{self._prefix}/{key}")

    def _ask(self, name, *fields):
        return self._store._ask(name, *fields)

    def clone(self):
        return PrefixStore(self._prefix, self._store.clone())

    @property
    def timeout(self):
        """The timeout of the underlying store."""
        return self._store.timeout

    def set_timeout(self, timeout):
        """Sets the timeout of the underlying store."""
        self._store.set_timeout(timeout)

    @property
    def underlying_store(self):
        """The underlying store."""
        return self._store

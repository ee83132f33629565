"""How processes find each other: a URL or the environment gives a store, a rank and the number of processes."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlparse, urlunparse

from rushlight.distributed import _mpiexec
from rushlight.distributed._file_store import FileStore
from rushlight.distributed.constants import default_pg_timeout
from rushlight.distributed.store import DistError, DistNetworkError, DistStoreError, PrefixStore, Store, TCPStore

_GIVEN_UP = "given_up"
_handlers: dict[str, Callable[..., Iterator[Any]]] = {}


def register_rendezvous_handler(scheme, handler):
    """Registers a function for URLs of a scheme. It is an iterator of stores, ranks and world sizes.

    Raises:
        RuntimeError: the scheme has a handler.
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url, rank=-1, world_size=-1, **kwargs):
    """An iterator of the store, the rank and the number of processes that a URL describes.

    Args:
        url: ``env://``, ``tcp://HOST:PORT`` or ``file:///PATH``, optionally with ``?rank=0&world_size=2``.
        rank, world_size: added to the URL if they are not -1.

    >>> next(torch.distributed.rendezvous("tcp://127.0.0.1:0?rank=0&world_size=1"))[1:]
    (0, 1)
    """
    if not isinstance(url, str):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    for name, value in (("rank", rank), ("world_size", world_size)):
        if not hasattr(value, "__index__"):
            raise RuntimeError(f"`{name}` must be an integer. {value}")
    parts = urlparse(url)
    if rank != -1 or world_size != -1:
        query = dict(parse_qsl(parts.query))
        if "rank" in query or "world_size" in query:
            raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
        given = {"rank": rank, "world_size": world_size}
        query.update((name, str(value)) for name, value in given.items() if value != -1)
        url = urlunparse(parts._replace(query=urlencode(query)))
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    return _handlers[parts.scheme](url, **kwargs)


def _error(scheme: str, text: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {text}")


def _place_in_world(scheme: str, query: dict[str, str]) -> tuple[int, int]:
    if "rank" not in query:
        raise _error(scheme, "rank parameter missing")
    if "world_size" not in query:
        raise _error(scheme, "world size parameter missing")
    return int(query["rank"]), int(query["world_size"])


def _once(scheme, store, rank, world_size):
    yield store, rank, world_size
    raise RuntimeError(f"Unable to perform re-rendezvous using {scheme}:// method")


def _tcp_store(host: str, port: int, rank: int, world_size: int, timeout: timedelta, token: str):
    if not 0 <= port <= 65535:
        raise ValueError(f"port must have value from 0 to 65535 but was {port}.")
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if agent or rank == 0:
        store = TCPStore(host, port, world_size, not agent, timeout, token=token)
        if not agent:
            store.set("world_size", str(world_size))
        return store
    deadline = time.monotonic() + timeout.total_seconds()
    left = timeout
    while True:
        store = TCPStore(host, port, world_size, False, left, token=token)
        if _takes_place(store, rank, world_size):
            store.set_timeout(timeout)
            return store
        if time.monotonic() >= deadline:
            raise DistStoreError(f"Another process is rank {rank} of the store at {host}:{port}.")
        time.sleep(0.01)
        left = timedelta(seconds=max(0.0, deadline - time.monotonic()))


def give_up(store: Store) -> None:
    """Marks the store of a group that has not begun. Ranks that come later wait for another one at the same port."""
    with contextlib.suppress(DistError):
        store.set(_GIVEN_UP, "")


def _takes_place(store: TCPStore, rank: int, world_size: int) -> bool:
    """Whether the store expects this rank. The store of a group that is about to end, at the same port, does not."""
    try:
        if store.check([_GIVEN_UP]):
            return False
        # A larger group has ranks that are new to the store of a smaller one.
        if store.check(["world_size"]) and int(store.get("world_size")) != world_size:
            return False
        return store.add(f"rank/{rank}", 1) == 1
    except DistNetworkError:
        return False


def _from_tcp(url, timeout=default_pg_timeout, token="", **_):
    parts = urlparse(url)
    host = parts.hostname or ""
    if parts.port is None:
        raise _error("tcp", "port number missing")
    if host.lower().startswith("ff"):
        text = "multicast addresses are not supported\n  Use the address of the machine of rank 0: tcp://HOST:PORT."
        raise _error("tcp", text)
    rank, world_size = _place_in_world("tcp", dict(parse_qsl(parts.query)))
    yield from _once("tcp", _tcp_store(host, parts.port, rank, world_size, timeout, token), rank, world_size)


def _from_file(url, timeout=default_pg_timeout, **_):
    parts = urlparse(url)
    path = parts.netloc + parts.path
    if not path:
        raise _error("file", "path missing")
    rank, world_size = _place_in_world("file", dict(parse_qsl(parts.query)))
    store = FileStore(path, world_size)
    store.set_timeout(timeout)
    yield from _once("file", store, rank, world_size)


def _from_environment(url, timeout=default_pg_timeout, token="", **_):
    query = dict(parse_qsl(urlparse(url).query))

    def get(name: str, url: dict[str, str] | None = None) -> str:
        value = (url or {}).get(name.lower()) or os.environ.get(name)
        if not value:
            raise _error("env", f"environment variable {name} expected, but not set")
        return value

    rank, world_size = int(get("RANK", query)), int(get("WORLD_SIZE", query))
    token = token or os.environ.get("RUSHLIGHT_STORE_TOKEN", "")
    store = _tcp_store(get("MASTER_ADDR"), int(get("MASTER_PORT")), rank, world_size, timeout, token)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT")
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and attempt is not None:
        store = PrefixStore(f"/worker/attempt_{attempt}", store)
    yield from _once("env", store, rank, world_size)


def _from_launcher(url, timeout=default_pg_timeout, token="", **_):
    rank, world_size = _mpiexec.place()
    token = token or os.environ.get("RUSHLIGHT_STORE_TOKEN", "")
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    # The launcher's own address counts first: programs for one machine set MASTER_ADDR to it.
    if host and port and not _mpiexec.keeps_texts():
        store = _tcp_store(host, int(port), rank, world_size, timeout, token)
    else:
        store = _mpiexec.meet(rank, world_size, timeout, token)
    yield from _once("mpi", store, rank, world_size)


register_rendezvous_handler("tcp", _from_tcp)
register_rendezvous_handler("file", _from_file)
register_rendezvous_handler("env", _from_environment)
register_rendezvous_handler("mpi", _from_launcher)

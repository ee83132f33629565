"""What a rendezvous of machines is: its parameters, its result, and the names under which kinds of it are registered."""

import abc
import socket
from collections.abc import Callable
from dataclasses import dataclass

from rushlight.distributed.constants import default_pg_timeout

__all__ = [
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousGracefulExitError",
    "RendezvousHandler",
    "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry",
    "RendezvousInfo",
    "RendezvousParameters",
    "RendezvousStateError",
    "RendezvousStoreInfo",
    "RendezvousTimeoutError",
    "rendezvous_handler_registry",
]


def __dir__() -> list[str]:
    return __all__


class RendezvousError(Exception):
    """A rendezvous failed."""


class RendezvousClosedError(RendezvousError):
    """The rendezvous is closed."""


class RendezvousTimeoutError(RendezvousError):
    """Machines did not come in time."""


class RendezvousConnectionError(RendezvousError):
    """The store cannot be reached."""


class RendezvousStateError(RendezvousError):
    """The state of the rendezvous is broken."""


class RendezvousGracefulExitError(RendezvousError):
    """This machine was not needed, and ends well."""


@dataclass
class RendezvousStoreInfo:
    """Where the processes of a program find their store.

    Args:
        master_addr, master_port: the host and the port.
    """

    master_addr: str
    master_port: int

    @staticmethod
    def build(rank, store, local_addr, server_port=None):
        """The address that machine 0 chooses, and tells the others through a store.

        Args:
            rank: the number of this machine.
            store: a store of the machines.
            local_addr: the host name of this machine, by default found.
            server_port: the port, by default a free one.

        >>> build = torch.distributed.elastic.rendezvous.RendezvousStoreInfo.build
        >>> build(0, torch.distributed.HashStore(), "node0", 29500)
        RendezvousStoreInfo(master_addr='node0', master_port=29500)
        """
        if rank == 0:
            if server_port is None:
                with socket.create_server(("", 0)) as free:
                    server_port = free.getsockname()[1]
            store.set("MASTER_ADDR", local_addr or socket.getfqdn())
            store.set("MASTER_PORT", str(server_port))
        store.wait(["MASTER_ADDR", "MASTER_PORT"], default_pg_timeout)
        return RendezvousStoreInfo(store.get("MASTER_ADDR").decode(), int(store.get("MASTER_PORT")))


class RendezvousInfo:
    """What a rendezvous gives a machine.

    Args:
        store: a store of the machines that met, for this rendezvous alone.
        rank: the number of this machine.
        world_size: how many machines met.
        bootstrap_store_info: a `RendezvousStoreInfo`, or None.
    """

    def __init__(self, store, rank, world_size, bootstrap_store_info):
        self.store, self.rank, self.world_size = store, rank, world_size
        self.bootstrap_store_info = bootstrap_store_info


class RendezvousHandler(abc.ABC):
    """How machines meet. A program registers its own kind in `rendezvous_handler_registry`, for ``--rdzv-backend``."""

    @abc.abstractmethod
    def get_backend(self):
        """The name of this kind."""

    @property
    def use_agent_store(self):
        """Whether the processes of the program use the store at the address that the rendezvous gives, and serve none themselves."""
        return False

    @abc.abstractmethod
    def next_rendezvous(self):
        """Waits until enough machines have come.

        Returns:
            a `RendezvousInfo`.

        Raises:
            RendezvousClosedError: there are no more.
            RendezvousTimeoutError: machines did not come in time.
        """

    @abc.abstractmethod
    def is_closed(self):
        """Whether machines will meet no more."""

    @abc.abstractmethod
    def set_closed(self):
        """Lets machines meet no more."""

    @abc.abstractmethod
    def num_nodes_waiting(self):
        """How many machines came too late, and could take part if all began again."""

    @abc.abstractmethod
    def get_run_id(self):
        """The name of the job."""

    @abc.abstractmethod
    def shutdown(self):
        """Ends the rendezvous when the job has ended. Returns whether that went well."""

    def _lost(self):
        """The numbers of machines that give no sign of life."""
        return []


_TRUTHS = dict.fromkeys(("1", "true", "t", "yes", "y"), True) | dict.fromkeys(("0", "false", "f", "no", "n"), False)


class RendezvousParameters:
    """What a rendezvous is asked for.

    Args:
        backend: its kind.
        endpoint: ``HOST:PORT`` of the store.
        run_id: the name of the job.
        min_nodes, max_nodes: the least and the largest number of machines.
        local_addr: the host name of this machine, by default found.
        kwargs: options of this kind.

    Raises:
        ValueError: the kind has no name, or the numbers are not those of machines.

    >>> parameters = torch.distributed.elastic.rendezvous.RendezvousParameters("c10d", "node0:29400", "job", 1, 2, join_timeout="60")
    >>> parameters.get_as_int("join_timeout"), parameters.get_as_bool("is_host", False)
    (60, False)
    """

    def __init__(self, backend, endpoint, run_id, min_nodes, max_nodes, local_addr=None, **kwargs):
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if min_nodes < 1:
            raise ValueError(f"The minimum number of rendezvous nodes ({min_nodes}) must be greater than zero.")
        if max_nodes < min_nodes:
            raise ValueError(
                f"The maximum number of rendezvous nodes ({max_nodes}) must be greater than or equal to the minimum number of "
                f"rendezvous nodes ({min_nodes})."
            )
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes, self.config, self.local_addr = min_nodes, max_nodes, kwargs, local_addr

    def get(self, key, default=None):
        """An option."""
        return self.config.get(key, default)

    def get_as_bool(self, key, default=None):
        """An option that is a truth value: True, 1, ``"yes"``, ``"t"`` and so on.

        Raises:
            ValueError: it is none.
        """
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        if str(value).lower() not in _TRUTHS:
            raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid boolean value.")
        return _TRUTHS[str(value).lower()]

    def get_as_int(self, key, default=None):
        """An option that is a whole number.

        Raises:
            ValueError: it is none.
        """
        value = self.get(key, default)
        try:
            return value if value is None else int(value)
        except ValueError:
            raise ValueError(
                f"The rendezvous configuration option '{key}' does not represent a valid integer value."
            ) from None

    def _seconds(self, key, default):
        value = self.get(key, default)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"The rendezvous configuration option {key} is a number of seconds, not {value!r}."
            ) from None


#: A function that makes a handler.
RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """Kinds of rendezvous by name."""

    def __init__(self):
        self._creators = {}

    def register(self, backend, creator):
        """Registers a function that makes a `RendezvousHandler` of `RendezvousParameters`.

        Raises:
            ValueError: the name is empty, or belongs to another function.
        """
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        current = self._creators.setdefault(backend, creator)
        if current != creator:
            raise ValueError(
                f"The rendezvous backend '{backend}' cannot be registered with '{creator}' as it is already registered with "
                f"'{current}'."
            )

    def create_handler(self, params):
        """The handler for `RendezvousParameters`.

        Raises:
            ValueError: nobody has registered this kind.
            RuntimeError: the function has made a handler of another kind.
        """
        creator = self._creators.get(params.backend)
        if creator is None:
            raise ValueError(
                f"The rendezvous backend '{params.backend}' is not registered. Did you forget to call `register`?\n"
                f"  Choose {' or '.join(sorted(self._creators))}."
            )
        handler = creator(params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(
                f"The rendezvous backend '{handler.get_backend()}' does not match the requested backend '{params.backend}'."
            )
        return handler


rendezvous_handler_registry = RendezvousHandlerRegistry()

"""Processes on one machine or several: the stores through which they find each other."""

from rushlight._homes import at_home
from rushlight.distributed.store import (
    DistError,
    DistNetworkError,
    DistStoreError,
    HashStore,
    PrefixStore,
    Store,
    TCPStore,
)

__all__ = [
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "HashStore",
    "PrefixStore",
    "Store",
    "TCPStore",
    "get_rank",
    "get_world_size",
    "is_available",
    "is_initialized",
]

at_home(__name__, DistError, DistNetworkError, DistStoreError)


def is_available():
    """Whether this package has process groups: not yet. The stores are there.

    >>> torch.distributed.is_available()
    False
    """
    return False


def is_initialized():
    """Whether a process group was made: none can be yet.

    >>> torch.distributed.is_initialized()
    False
    """
    return False


def _group():
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def get_rank(group=None):
    """This process's number in its group.

    Raises:
        ValueError: there is no group.

    >>> try:
    ...     torch.distributed.get_rank()
    ... except ValueError:
    ...     print("no group")
    no group
    """
    return _group()


def get_world_size(group=None):
    """How many processes the group has.

    Raises:
        ValueError: there is no group.

    >>> try:
    ...     torch.distributed.get_world_size()
    ... except ValueError:
    ...     print("no group")
    no group
    """
    return _group()


def __dir__() -> list[str]:
    return __all__

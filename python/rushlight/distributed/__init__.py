"""`torch.distributed`: the stores through which processes on one or several machines find each other."""

from rushlight._loading import load as _load
from rushlight._names import missing_from
from rushlight._set_module import set_module
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

set_module(__name__, DistError, DistNetworkError, DistStoreError)


def is_available():
    """Whether there are process groups: always False, because only the stores exist yet.

    >>> torch.distributed.is_available()
    False
    """
    return False


def is_initialized():
    """Whether the default process group is initialised: always False.

    >>> torch.distributed.is_initialized()
    False
    """
    return False


def _group():
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def get_rank(group=None):
    """The rank of this process in its group.

    Raises:
        ValueError: there is no process group.

    >>> try:
    ...     torch.distributed.get_rank()
    ... except ValueError:
    ...     print("no group")
    no group
    """
    return _group()


def get_world_size(group=None):
    """The number of processes in the group.

    Raises:
        ValueError: there is no process group.

    >>> try:
    ...     torch.distributed.get_world_size()
    ... except ValueError:
    ...     print("no group")
    no group
    """
    return _group()


_SUBMODULES = ("algorithms", "checkpoint", "device_mesh", "fsdp", "nn", "optim", "rpc", "tensor")


def __getattr__(name):
    if name in _SUBMODULES:
        return _load(f"{__name__}.{name}")
    raise missing_from("torch.distributed", name, __dir__)


def __dir__() -> list[str]:
    return [*__all__, *_SUBMODULES]

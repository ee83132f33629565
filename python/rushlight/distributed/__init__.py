"""`torch.distributed`: processes that train together.

`init_process_group` begins a group of processes of one machine, which exchange tensors through shared memory. The stores
through which they find each other also work between machines.
"""

from rushlight._loading import load as _load
from rushlight._names import missing_from
from rushlight._set_module import set_module
from rushlight.distributed import distributed_c10d
from rushlight.distributed._debug import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from rushlight.distributed._engine_group import DistBackendError
from rushlight.distributed._file_store import FileStore
from rushlight.distributed.distributed_c10d import *
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
    *distributed_c10d.__all__,
    "DebugLevel",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "HashStore",
    "TCPStore",
    "get_debug_level",
    "is_available",
    "set_debug_level",
    "set_debug_level_from_env",
]

set_module(__name__, DistError, DistNetworkError, DistStoreError)


def is_available():
    """Whether there are process groups: True.

    >>> torch.distributed.is_available()
    True
    """
    return True


_SUBMODULES = ("algorithms", "checkpoint", "device_mesh", "fsdp", "nn", "optim", "rpc", "tensor")


def __getattr__(name):
    if name in _SUBMODULES:
        return _load(f"{__name__}.{name}")
    raise missing_from("torch.distributed", name, __dir__)


def __dir__() -> list[str]:
    return [*__all__, *_SUBMODULES]

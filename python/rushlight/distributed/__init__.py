"""`torch.distributed`: processes that train together.

`init_process_group` begins a group of processes, which exchange tensors through shared memory, and between machines through MPI. The stores
through which they find each other also work between machines.
"""

from sys import _getframe

from rushlight._loading import load as _load
from rushlight._missing_names import missing_from
from rushlight._set_module import set_module, set_public_module
from rushlight.distributed import distributed_c10d
from rushlight.distributed._coalescing import _coalescing_manager as _coalescing_manager
from rushlight.distributed._coalescing import _CoalescingManager as _CoalescingManager
from rushlight.distributed._collectives import _all_gather_base as _all_gather_base
from rushlight.distributed._collectives import _reduce_scatter_base as _reduce_scatter_base
from rushlight.distributed._debug import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from rushlight.distributed._file_store import FileStore
from rushlight.distributed._host_group import DistBackendError
from rushlight.distributed._options import (
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    BuiltinCommHookType,
    GatherOptions,
    ProcessGroupNCCL,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from rushlight.distributed._reducer import GradBucket, Reducer
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.distributed_c10d import (
    Backend,
    BackendConfig,
    GroupMember,
    GroupName,
    P2POp,
    ProcessGroup,
    ReduceOp,
    Work,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_object,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    broadcast_object_list,
    default_pg_nccl_timeout,
    default_pg_timeout,
    destroy_process_group,
    gather,
    gather_object,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    irecv,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    isend,
    monitored_barrier,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    record_comm,
    recv,
    recv_object_list,
    reduce,
    reduce_op,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    register_rendezvous_handler,
    rendezvous,
    scatter,
    scatter_object_list,
    send,
    send_object_list,
    shrink_group,
    split_group,
    supports_complex,
)
from rushlight.distributed.store import (
    DistError,
    DistNetworkError,
    DistStoreError,
    HashStore,
    PrefixStore,
    QueueEmptyError,
    Store,
    TCPStore,
)
from rushlight.distributed.utils import _broadcast_coalesced as _broadcast_coalesced

__all__ = [
    *distributed_c10d.__all__,
    "AllToAllOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "BarrierOptions",
    "BroadcastOptions",
    "BuiltinCommHookType",
    "DebugLevel",
    "DeviceMesh",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "GatherOptions",
    "GradBucket",
    "HashStore",
    "ProcessGroupNCCL",
    "QueueEmptyError",
    "ReduceOptions",
    "ReduceScatterOptions",
    "Reducer",
    "ScatterOptions",
    "TCPStore",
    "breakpoint",
    "get_debug_level",
    "init_device_mesh",
    "is_available",
    "set_debug_level",
    "set_debug_level_from_env",
]

set_module(__name__, DistError, DistNetworkError, DistStoreError, QueueEmptyError)
set_public_module(globals())


def is_available():
    """Whether there are process groups: True.

    >>> torch.distributed.is_available()
    True
    """
    return True


def breakpoint(rank=0, skip=0, timeout_s=3600):
    """Stops in the debugger on one rank, while the others wait.

    Args:
        rank: the rank that stops.
        skip: how many calls pass before it does.
        timeout_s: how long the others wait, in seconds.
    """
    global _skipped
    if skip > _skipped:
        _skipped += 1
        return
    from datetime import timedelta
    from pdb import Pdb

    if get_rank() == rank:
        Pdb().set_trace(_getframe(1))
    monitored_barrier(timeout=timedelta(seconds=timeout_s))


_skipped = 0

_SUBMODULES = (
    "algorithms",
    "autograd",
    "checkpoint",
    "device_mesh",
    "elastic",
    "fsdp",
    "launcher",
    "nn",
    "optim",
    "pipelining",
    "rpc",
    "run",
    "tensor",
)


def __getattr__(name):
    if name in _SUBMODULES:
        return _load(f"{__name__}.{name}")
    raise missing_from("torch.distributed", name, __dir__)


def __dir__() -> list[str]:
    return [*__all__, *_SUBMODULES]

"""`torch.distributed.distributed_c10d`: the names of process groups and collective calls where torch has them."""

from typing import NewType

from rushlight._set_module import set_public_module
from rushlight.distributed._backends import (
    Backend,
    BackendConfig,
    is_backend_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_ucc_available,
    is_xccl_available,
)
from rushlight.distributed._coalescing import _coalescing_manager as _coalescing_manager
from rushlight.distributed._coalescing import _CoalescingManager as _CoalescingManager
from rushlight.distributed._coalescing import _IllegalWork as _IllegalWork
from rushlight.distributed._collectives import _all_gather_base as _all_gather_base
from rushlight.distributed._collectives import _reduce_scatter_base as _reduce_scatter_base
from rushlight.distributed._collectives import (
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from rushlight.distributed._debug import DebugLevel as DebugLevel
from rushlight.distributed._debug import get_debug_level as get_debug_level
from rushlight.distributed._groups import (
    GroupMember,
    ProcessGroup,
    destroy_process_group,
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
    is_initialized,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    split_group,
)
from rushlight.distributed._groups import get_default_group as _get_default_group
from rushlight.distributed._messages import (
    P2POp,
    batch_isend_irecv,
    irecv,
    isend,
    monitored_barrier,
    recv,
    send,
)
from rushlight.distributed._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from rushlight.distributed._options import AllreduceCoalescedOptions as AllreduceCoalescedOptions
from rushlight.distributed._options import AllreduceOptions as AllreduceOptions
from rushlight.distributed._options import AllToAllOptions as AllToAllOptions
from rushlight.distributed._options import BarrierOptions as BarrierOptions
from rushlight.distributed._options import BroadcastOptions as BroadcastOptions
from rushlight.distributed._options import GatherOptions as GatherOptions
from rushlight.distributed._options import ProcessGroupNCCL as ProcessGroupNCCL
from rushlight.distributed._options import ReduceOptions as ReduceOptions
from rushlight.distributed._options import ReduceScatterOptions as ReduceScatterOptions
from rushlight.distributed._options import ScatterOptions as ScatterOptions
from rushlight.distributed._reduce_op import ReduceOp, reduce_op, supports_complex
from rushlight.distributed._shrink import SHRINK_ABORT as SHRINK_ABORT
from rushlight.distributed._shrink import SHRINK_DEFAULT as SHRINK_DEFAULT
from rushlight.distributed._shrink import shrink_group
from rushlight.distributed._titles import record_comm
from rushlight.distributed._work import Work
from rushlight.distributed.constants import default_pg_nccl_timeout, default_pg_timeout
from rushlight.distributed.rendezvous import register_rendezvous_handler, rendezvous
from rushlight.distributed.store import PrefixStore, Store

#: The name of a group, for annotations of programs.
GroupName = NewType("GroupName", str)


def _get_default_store():
    return _get_default_group()._root_store


def _rank_not_in_group(group):
    return group is GroupMember.NON_GROUP_MEMBER


def is_torchelastic_launched():
    """Whether `torchrun` started this process.

    >>> torch.distributed.is_torchelastic_launched()
    False
    """
    import os

    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


__all__ = [
    "Backend",
    "BackendConfig",
    "GroupMember",
    "GroupName",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "ReduceOp",
    "Store",
    "Work",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_nccl_timeout",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "record_comm",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "register_rendezvous_handler",
    "rendezvous",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "shrink_group",
    "split_group",
    "supports_complex",
]

set_public_module(globals())

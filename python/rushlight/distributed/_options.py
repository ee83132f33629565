"""The options of the methods of `ProcessGroup`."""

import enum
from datetime import timedelta

from rushlight._set_module import set_module
from rushlight.distributed._reduce_op import ReduceOp


class _Options:
    """Options as attributes."""

    def __init__(self):
        self.timeout = timedelta(milliseconds=-1)
        self.asyncOp = True


class AllreduceOptions(_Options):
    """The options of `ProcessGroup.allreduce`: `reduceOp`.

    >>> torch.distributed.AllreduceOptions().reduceOp
    <RedOpType.SUM: 0>
    """

    def __init__(self):
        super().__init__()
        self.reduceOp = ReduceOp.SUM


class AllreduceCoalescedOptions(AllreduceOptions):
    """The options of a reduction of several tensors: `reduceOp`."""


class ReduceOptions(AllreduceOptions):
    """The options of a reduction to one rank: `reduceOp`, `rootRank`, `rootTensor`."""

    def __init__(self):
        super().__init__()
        self.rootRank = self.rootTensor = 0


class ReduceScatterOptions(AllreduceOptions):
    """The options of a reduction in parts: `reduceOp`."""


class BroadcastOptions(_Options):
    """The options of `ProcessGroup.broadcast`: `rootRank`, `rootTensor`."""

    def __init__(self):
        super().__init__()
        self.rootRank = self.rootTensor = 0


class GatherOptions(_Options):
    """The options of a collection on one rank: `rootRank`."""

    def __init__(self):
        super().__init__()
        self.rootRank = 0


class ScatterOptions(GatherOptions):
    """The options of a distribution from one rank: `rootRank`."""


class AllToAllOptions(_Options):
    """The options of an exchange between all ranks."""


class BarrierOptions(_Options):
    """The options of `ProcessGroup.barrier`: `device_ids`."""

    def __init__(self):
        super().__init__()
        self.device_ids = []


class _NcclConfig:
    """What NCCL chooses for a communicator, unless a program does: ``cga_cluster_size``, ``min_ctas``, ``max_ctas``, ``net_name``.

    ``blocking`` and ``split_share`` are accepted: no call blocks, and each group has communicators of its own.
    """

    def __init__(self):
        self.blocking = self.split_share = self.cga_cluster_size = self.min_ctas = self.max_ctas = None
        self.net_name = None


class _NcclOptions:
    """The options of a group of the backend `nccl`, for `pg_options`.

    Args:
        is_high_priority_stream: whether calls go before other work of the GPU.

    >>> options = torch.distributed.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    >>> options.config.max_ctas = 16
    >>> options.is_high_priority_stream
    True
    """

    def __init__(self, is_high_priority_stream=False):
        self.is_high_priority_stream, self.config = is_high_priority_stream, _NcclConfig()
        self.backend = "nccl"

    def _settings(self):
        config = self.config
        priority = -1 if self.is_high_priority_stream else 0
        return priority, config.cga_cluster_size, config.min_ctas, config.max_ctas, config.net_name


class ProcessGroupNCCL:
    """Groups of the backend `nccl` have no class of their own; `Options` is that of their options.

    >>> torch.distributed.ProcessGroupNCCL.Options().is_high_priority_stream
    False
    """

    Options = _NcclOptions

    def __init__(self, *args, **kwargs):
        raise TypeError("ProcessGroupNCCL: use init_process_group or new_group with the backend nccl")


class BuiltinCommHookType(enum.IntEnum):
    """Hooks of `DistributedDataParallel` by name."""

    ALLREDUCE = 1
    FP16_COMPRESS = 2


set_module(
    "rushlight.distributed",
    AllreduceOptions,
    AllreduceCoalescedOptions,
    ReduceOptions,
    ReduceScatterOptions,
    BroadcastOptions,
    GatherOptions,
    ScatterOptions,
    AllToAllOptions,
    BarrierOptions,
    BuiltinCommHookType,
    ProcessGroupNCCL,
)

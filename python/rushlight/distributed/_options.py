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
)

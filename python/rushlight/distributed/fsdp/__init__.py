"""Modules whose parameters are spread over ranks (`torch.distributed.fsdp`): `fully_shard`.

`FullyShardedDataParallel`, its predecessor, does not exist.
"""

from __future__ import annotations

from rushlight._absent import declare

from ._fully_shard import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    UnshardHandle,
    fully_shard,
    register_fsdp_forward_method,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    *declare(
        globals(),
        "fully_shard takes its place",
        """
        share_comm_ctx
        class BackwardPrefetch CPUOffload DataParallelMeshDims
        class FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel LocalOptimStateDictConfig
        class LocalStateDictConfig MixedPrecision OptimStateDictConfig
        class OptimStateKeyType ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy
        class StateDictConfig StateDictSettings StateDictType
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

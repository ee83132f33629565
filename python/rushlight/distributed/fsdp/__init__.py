"""Modules whose parameters are spread over processes (`torch.distributed.fsdp`), which rushlight does not have."""

from __future__ import annotations

from rushlight._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "this part of distributed training does not exist yet",
        """
        fully_shard register_fsdp_forward_method share_comm_ctx
        class BackwardPrefetch CPUOffload CPUOffloadPolicy DataParallelMeshDims FSDPModule
        class FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel LocalOptimStateDictConfig
        class LocalStateDictConfig MixedPrecision MixedPrecisionPolicy OffloadPolicy OptimStateDictConfig
        class OptimStateKeyType ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy
        class StateDictConfig StateDictSettings StateDictType UnshardHandle
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

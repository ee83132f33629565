"""Checkpoints of several processes (`torch.distributed.checkpoint`), which rushlight does not have."""

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
        async_save load load_sharded_optimizer_state_dict load_state_dict save save_state_dict
        class BytesStorageMetadata ChunkStorageMetadata DefaultLoadPlanner DefaultSavePlanner FileSystemReader
        class FileSystemWriter HuggingFaceStorageReader HuggingFaceStorageWriter LoadPlan LoadPlanner Metadata
        class QuantizedHuggingFaceStorageReader ReadItem SavePlan SavePlanner StorageReader StorageWriter
        class TensorStorageMetadata WriteItem
        error CheckpointException(BaseException)
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

"""Checkpoints that several ranks write and read together (`torch.distributed.checkpoint`)."""

from __future__ import annotations

from rushlight._absent import declare

from . import default_planner, filesystem, metadata, planner, staging, state_dict, stateful, storage
from .api import CheckpointException
from .default_planner import DefaultLoadPlanner, DefaultSavePlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorStorageMetadata
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from .state_dict_loader import load, load_state_dict
from .state_dict_saver import async_save, save, save_state_dict
from .storage import StorageReader, StorageWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "BytesStorageMetadata",
    "CheckpointException",
    "ChunkStorageMetadata",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "LoadPlan",
    "LoadPlanner",
    "Metadata",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "StorageReader",
    "StorageWriter",
    "TensorStorageMetadata",
    "WriteItem",
    "async_save",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
    "default_planner",
    "filesystem",
    "metadata",
    "planner",
    "staging",
    "state_dict",
    "stateful",
    "storage",
    *declare(
        globals(),
        "checkpoints are written into folders in one format",
        """
        load_sharded_optimizer_state_dict
        class HuggingFaceStorageReader HuggingFaceStorageWriter QuantizedHuggingFaceStorageReader
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

"""Plans: which parts of a state each rank writes or reads."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import rushlight as torch

from .metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties

__all__ = [
    "WriteItemType",
    "LoadItemType",
    "BytesIOWriteData",
    "TensorWriteData",
    "WriteItem",
    "ReadItem",
    "SavePlan",
    "LoadPlan",
    "SavePlanner",
    "LoadPlanner",
]


def __dir__() -> list[str]:
    return __all__


class WriteItemType(Enum):
    """What is written: a whole tensor, a part of one, or an object."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """What is read: a tensor or a part of one, or an object."""

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """The size of an object."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """A part of a tensor, and the whole."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: torch.Size


@dataclass(frozen=True)
class WriteItem:
    """Something to write."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self):
        """The bytes of the tensor, or None."""
        if self.tensor_data is None:
            return None
        return self.tensor_data.chunk.sizes.numel() * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """Something to read: a box of a stored part, and where it goes."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: torch.Size
    storage_index: MetadataIndex
    storage_offsets: torch.Size
    lengths: torch.Size


@dataclass(frozen=True)
class SavePlan:
    """What a rank writes."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What a rank reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = field(default=None)


class SavePlanner(ABC):
    """Decides what each rank writes. The methods are called in this order; `create_global_plan` on one rank."""

    @abstractmethod
    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        """Gets the state of this rank."""

    @abstractmethod
    def create_local_plan(self):
        """The plan of this rank."""

    @abstractmethod
    def create_global_plan(self, all_plans):
        """The final plans of all ranks, and the metadata of the checkpoint."""

    @abstractmethod
    def finish_plan(self, new_plan):
        """Gets the final plan of this rank, and returns it."""

    @abstractmethod
    def resolve_data(self, write_item):
        """The tensor to write, or the bytes of an object (a `BytesIO`)."""


class LoadPlanner(ABC):
    """Decides what each rank reads. The methods are called in this order; `create_global_plan` on one rank."""

    @abstractmethod
    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        """Gets the state of this rank, which is overwritten."""

    @abstractmethod
    def create_local_plan(self):
        """The plan of this rank."""

    @abstractmethod
    def create_global_plan(self, global_plan):
        """The final plans of all ranks."""

    @abstractmethod
    def finish_plan(self, central_plan):
        """Gets the final plan of this rank, and returns it."""

    @abstractmethod
    def load_bytes(self, read_item, value):
        """Gets the bytes of an object (a `BytesIO`)."""

    def resolve_bytes(self, read_item):
        """Where the bytes of an object go."""
        import io

        return io.BytesIO()

    @abstractmethod
    def resolve_tensor(self, read_item):
        """The tensor that is written, of the size of the box."""

    @abstractmethod
    def commit_tensor(self, read_item, tensor):
        """Is called once the tensor is written."""

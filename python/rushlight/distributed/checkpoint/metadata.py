"""What a checkpoint holds, and where."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import rushlight as torch

__all__ = [
    "ChunkStorageMetadata",
    "TensorStorageMetadata",
    "BytesStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "TensorProperties",
    "StorageMeta",
]


def __dir__() -> list[str]:
    return __all__


@dataclass
class ChunkStorageMetadata:
    """A part of a tensor: where it begins, and its size."""

    offsets: torch.Size
    sizes: torch.Size


class _MEM_FORMAT_ENCODING(Enum):
    """Memory formats in files."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


@dataclass
class TensorProperties:
    """What belongs to a tensor besides its elements."""

    dtype: torch.dtype = torch.float32
    layout: torch.layout = torch.strided
    requires_grad: bool = False
    memory_format: Any = torch.contiguous_format
    pin_memory: bool = False

    def __getstate__(self):
        encoded = _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT
        return self.dtype, self.layout, self.requires_grad, encoded, self.pin_memory

    def __setstate__(self, state):
        self.dtype, self.layout, self.requires_grad, encoded, self.pin_memory = state
        formats = (torch.contiguous_format, torch.channels_last, torch.preserve_format)
        self.memory_format = formats[encoded.value]

    @staticmethod
    def create_from_tensor(tensor):
        """The properties of a tensor."""
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad)


@dataclass
class TensorStorageMetadata:
    """A tensor: its properties, its size, and its parts."""

    properties: TensorProperties
    size: torch.Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """An object that is no tensor."""


@dataclass(frozen=True)
class MetadataIndex:
    """The name of a tensor or object, and where its part begins."""

    fqn: str
    offset: torch.Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)


@dataclass
class StorageMeta:
    """The names of a checkpoint and of its saving."""

    checkpoint_id: Any = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """The whole checkpoint: tensors and objects by name, the planner's and the storage's own data."""

    state_dict_metadata: dict[str, Any]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None

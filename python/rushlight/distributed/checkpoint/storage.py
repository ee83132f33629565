"""Where a checkpoint is written to and read from."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from .metadata import MetadataIndex

__all__ = ["WriteResult", "StorageWriter", "StorageReader"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class WriteResult:
    """Where something was written."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(ABC):
    """Writes a checkpoint. The methods are called in this order; `prepare_global_plan` and `finish` on one rank."""

    @abstractmethod
    def reset(self, checkpoint_id=None):
        """Begins a new checkpoint, at another place if one is given."""

    @abstractmethod
    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        """Prepares this rank."""

    @abstractmethod
    def prepare_local_plan(self, plan):
        """May change the plan of this rank."""

    @abstractmethod
    def prepare_global_plan(self, plans):
        """May change the plans of all ranks."""

    @abstractmethod
    def write_data(self, plan, planner):
        """Writes the items of a plan. Returns a future of a list of `WriteResult`."""

    @abstractmethod
    def finish(self, metadata, results):
        """Completes the checkpoint. `results` are lists of `WriteResult` of all ranks."""

    def storage_meta(self):
        """The names of the checkpoint, a `StorageMeta`, or None."""
        return None

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Whether this class can write there."""
        return True


class StorageReader(ABC):
    """Reads a checkpoint. The methods are called in this order; `prepare_global_plan` on one rank."""

    @abstractmethod
    def reset(self, checkpoint_id=None):
        """Begins, at another place if one is given."""

    @abstractmethod
    def read_metadata(self, *args, **kwargs):
        """The metadata."""

    @abstractmethod
    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        """Prepares this rank."""

    @abstractmethod
    def prepare_local_plan(self, plan):
        """May change the plan of this rank."""

    @abstractmethod
    def prepare_global_plan(self, plans):
        """May change the plans of all ranks."""

    @abstractmethod
    def read_data(self, plan, planner):
        """Reads the items of a plan. Returns a future."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Whether this class can read there."""
        return True

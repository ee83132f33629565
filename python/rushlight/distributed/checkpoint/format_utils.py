"""A checkpoint of several ranks as one file of `torch.save`, and back."""

import argparse
import os

import rushlight as torch
from rushlight.distributed import _groups, _objects
from rushlight.distributed._collectives import broadcast
from rushlight.futures import Future

from ._steps import Steps
from .default_planner import DefaultLoadPlanner, EverythingPlanner, boxed, flatten
from .filesystem import FileSystemReader
from .metadata import ChunkStorageMetadata, Metadata, TensorProperties, TensorStorageMetadata
from .state_dict_loader import _load, _load_state_dict  # noqa: F401 # libraries import the second one from here
from .state_dict_saver import save
from .storage import StorageReader

__all__ = ["BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp"]


def __dir__() -> list[str]:
    return __all__


class _EmptyStateDictLoadPlanner(EverythingPlanner):
    """Reads a checkpoint into an empty state.

    Args:
        keys: the names of what is read, or of what it is in; None for all.
    """

    def __init__(self, keys=None, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.keys = keys

    def _wants(self, name, path):
        if self.keys is None or name in self.keys:
            return True
        parts = [str(part) for part in path]
        return any(".".join(parts[:end]) in self.keys for end in range(1, len(parts) + 1))


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Takes the sizes of tensors from the state that is loaded, for files that do not tell them.

    Raises:
        RuntimeError: the state has something else than tensors.
    """

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        """Gets the state of this rank."""
        super().set_up_planner(state_dict, metadata, is_coordinator)
        entries = {}
        for name, value in self.state_dict.items():
            if not isinstance(value, torch.Tensor):
                raise RuntimeError(
                    f"Non-tensor value identified at {name}. At this time {type(self).__name__} only supports loading Tensors."
                )
            size = torch.Size(value.shape)
            whole = ChunkStorageMetadata(torch.Size([0] * len(size)), size)
            entries[name] = TensorStorageMetadata(TensorProperties.create_from_tensor(value), size, [whole])
        self.metadata = Metadata(entries)


class BroadcastingTorchSaveReader(StorageReader):
    """Reads tensors from a file of `torch.save` on one rank, which gives them to the others. Each keeps its parts.

    One tensor at a time is whole on the other ranks. The planner is a `DynamicMetaLoadPlanner`.

    Args:
        checkpoint_id: the file.
        coordinator_rank: the rank that reads it.

    >>> import tempfile
    >>> dcp = torch.distributed.checkpoint
    >>> from rushlight.distributed.checkpoint.format_utils import BroadcastingTorchSaveReader, DynamicMetaLoadPlanner
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"weight": torch.ones(2)}, folder + "/one.pt")
    ...     state = {"weight": torch.zeros(2)}
    ...     reader = BroadcastingTorchSaveReader(folder + "/one.pt")
    ...     dcp.load(state, storage_reader=reader, planner=DynamicMetaLoadPlanner())
    >>> state
    {'weight': tensor([1., 1.])}
    """

    def __init__(self, checkpoint_id=None, coordinator_rank=0):
        self.checkpoint_id, self.coordinator_rank = checkpoint_id, coordinator_rank

    def reset(self, checkpoint_id=None):
        """Begins, with another file if one is given."""
        if checkpoint_id is not None:
            self.checkpoint_id = checkpoint_id

    def read_metadata(self, *args, **kwargs):
        """Nothing: the file does not tell what it has before it is read."""
        return Metadata({})

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        """Prepares this rank.

        Raises:
            AssertionError: there is no file.
        """
        if self.checkpoint_id is None:
            raise AssertionError("the reader has no file\n  Give checkpoint_id.")

    def prepare_local_plan(self, plan):
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans):
        """The plans as they are."""
        return plans

    def read_data(self, plan, planner):
        """Reads the tensors of a plan. Returns a complete future."""
        group = _groups.get_default_group() if _groups.is_initialized() else None
        stored = self._stored(planner, group)
        wanted: dict = {}
        for item in plan.items:
            wanted.setdefault(item.storage_index.fqn, []).append(item)
        # A rank without a part of a tensor takes part in its broadcast.
        for name, entry in planner.metadata.state_dict_metadata.items():
            if stored is not None:
                whole = stored[name].detach()
            else:
                whole = torch.empty(entry.size, dtype=entry.properties.dtype)
            if group is not None:
                whole = whole.to(group._object_device(), entry.properties.dtype).contiguous()
                broadcast(whole, self.coordinator_rank, group)
            for item in wanted.get(name, ()):
                target = planner.resolve_tensor(item).detach()
                target.copy_(boxed(whole, item.storage_offsets, item.lengths))
                planner.commit_tensor(item, target)
        future: Future = Future()
        future.set_result(None)
        return future

    def _stored(self, planner, group):
        """The tensors of the file by name, on the rank that reads it. What is wrong is an error on all ranks."""
        stored, failure = None, [None]
        if group is None or group.rank() == self.coordinator_rank:
            try:
                stored, _ = flatten(torch.load(self.checkpoint_id, map_location="cpu"))
                for name, entry in planner.metadata.state_dict_metadata.items():
                    found = stored.get(name)
                    if not isinstance(found, torch.Tensor):
                        raise KeyError(f"{self.checkpoint_id} has no tensor {name}")
                    if found.shape != entry.size:
                        raise ValueError(
                            f"{name} has shape {tuple(found.shape)} in the file, and {tuple(entry.size)} in the state"
                        )
            except Exception as error:
                failure = [f"{type(error).__name__}: {error}"]
        if group is not None:
            _objects.broadcast_object_list(failure, self.coordinator_rank, group)
        if failure[0] is not None:
            raise RuntimeError(failure[0])
        return stored

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Whether there is such a file."""
        return os.path.isfile(checkpoint_id)


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path):
    """Writes a checkpoint of several ranks as one file.

    Args:
        dcp_checkpoint_dir: the folder of the checkpoint.
        torch_save_path: the file.
    """
    state: dict = {}
    _load(state, FileSystemReader(dcp_checkpoint_dir), EverythingPlanner(), Steps(alone=True))
    torch.save(state, torch_save_path)


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir):
    """Writes a file of `torch.save` as a checkpoint that any number of ranks can load.

    Args:
        torch_save_path: the file.
        dcp_checkpoint_dir: the folder of the checkpoint.
    """
    save(torch.load(torch_save_path, map_location="cpu"), checkpoint_id=dcp_checkpoint_dir, no_dist=True)


def _main():
    """``python -m rushlight.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE``, or ``torch_to_dcp FILE FOLDER``."""
    parser = argparse.ArgumentParser(description="Converts a checkpoint.")
    parser.add_argument("mode", choices=["torch_to_dcp", "dcp_to_torch"], help="from which format to which one")
    parser.add_argument("src", help="the file or folder that there is")
    parser.add_argument("dst", help="the folder or file to make")
    given = parser.parse_args()
    to_parts = given.mode == "torch_to_dcp"
    if not (os.path.isfile if to_parts else os.path.isdir)(given.src):
        # torch says so and ends well, which a script does not notice.
        parser.error(f"No checkpoint found at {given.src}. Skipping conversion.")
    print(f"Converting checkpoint from {given.src} to {given.dst} using method: '{given.mode}'")
    (torch_save_to_dcp if to_parts else dcp_to_torch_save)(given.src, given.dst)


if __name__ == "__main__":
    _main()

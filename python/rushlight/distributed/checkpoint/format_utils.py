"""A checkpoint of several ranks as one file of `torch.save`, and back."""

import argparse
import os

import rushlight as torch

from ._steps import Steps
from .default_planner import EverythingPlanner
from .filesystem import FileSystemReader
from .state_dict_loader import _load, _load_state_dict  # noqa: F401 # libraries import the second one from here
from .state_dict_saver import save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


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

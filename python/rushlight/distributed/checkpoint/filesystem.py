"""Checkpoints in a folder: a file of each rank, and ``.metadata`` for the whole."""

import collections
import contextlib
import io
import os
import pickle
import uuid
from dataclasses import dataclass
from pathlib import Path

import rushlight as torch
from rushlight.futures import Future

from . import metadata as _metadata
from .default_planner import boxed
from .metadata import Metadata, StorageMeta
from .planner import LoadItemType, WriteItemType
from .staging import BlockingAsyncStager
from .storage import StorageReader, StorageWriter, WriteResult

__all__ = ["FileSystemWriter", "FileSystemReader"]

_NAME = ".metadata"


def __dir__() -> list[str]:
    return __all__


@dataclass
class _StorageInfo:
    """Where something lies: a file, and its bytes in it."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: list[str] | None = None


@dataclass
class _StoragePrefix:
    prefix: str


#: The only classes and functions that a ``.metadata`` may name.
_ALLOWED = {
    **{
        ("torch.distributed.checkpoint.metadata", name): getattr(_metadata, name)
        for name in (*_metadata.__all__, "_MEM_FORMAT_ENCODING")
    },
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"): _StorageInfo,
    ("torch", "Size"): torch.Size,
    ("torch.serialization", "_get_layout"): torch.serialization._get_layout,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("builtins", "set"): set,
    ("pathlib", "PosixPath"): lambda *parts: str(Path(*parts)),
}


class _Pickler(pickle._Pickler):
    """Writes names as torch has them."""

    def save_global(self, obj, name=None):
        module = getattr(obj, "__module__", "") or ""
        if not module.startswith("rushlight"):
            return super().save_global(obj, name)
        public = module.replace("rushlight", "torch", 1)
        self.write(b"c" + public.encode() + b"\n" + (name or obj.__qualname__).encode() + b"\n")
        self.memoize(obj)
        return None

    dispatch = pickle._Pickler.dispatch.copy()
    dispatch[type] = save_global  # type: ignore[assignment]


class _Unpickler(pickle.Unpickler):
    """Reads metadata, and calls nothing that is not in the list."""

    def find_class(self, module, name):
        if module == "torch" and isinstance(getattr(torch, name, None), (torch.dtype, torch.layout)):
            return getattr(torch, name)
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"the metadata of a checkpoint names {module}.{name}, which is not allowed")
        return _ALLOWED[module, name]


class FileSystemWriter(BlockingAsyncStager, StorageWriter):
    """Writes a checkpoint into a folder.

    The metadata are written last and in one step, so that a checkpoint whose saving was interrupted is not taken for one.

    Args:
        path: the folder, which is made if it is missing.
        single_file_per_rank, thread_count, per_thread_copy_ahead: accepted.
        cache_staged_state_dict: `async_save` keeps the memory of its copy for the next one.
        sync_files: whether files are on the disk when it returns.
        overwrite: whether a checkpoint in the folder may be replaced.
    """

    def __init__(
        self,
        path,
        single_file_per_rank=True,
        sync_files=True,
        thread_count=1,
        per_thread_copy_ahead=10_000_000,
        cache_staged_state_dict=False,
        overwrite=True,
    ):
        super().__init__(cache_staged_state_dict)
        self.path, self.sync_files, self.overwrite = Path(path), sync_files, overwrite
        self.save_id = str(uuid.uuid4())

    checkpoint_id = property(lambda self: self.path)

    def reset(self, checkpoint_id=None):
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        self.is_coordinator = is_coordinator

    def prepare_local_plan(self, plan):
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / _NAME).exists() and not self.overwrite:
            raise RuntimeError(f"Checkpoint already exists and overwrite={self.overwrite} for {self.path}.")
        return plan

    def prepare_global_plan(self, plans):
        from dataclasses import replace

        return [replace(plan, storage_data=_StoragePrefix(f"__{rank}_")) for rank, plan in enumerate(plans)]

    def write_data(self, plan, planner):
        """Writes this rank's file. Returns a complete future."""
        # A checkpoint that is there stays whole until the new files are complete.
        name = f"{plan.storage_data.prefix}0.distcp"
        part, results = self.path / f"{name}.{self.save_id}.tmp", []
        try:
            with open(part, "wb") as file:
                for item in plan.items:
                    data = planner.resolve_data(item)
                    begin = file.tell()
                    if item.type == WriteItemType.BYTE_IO:
                        file.write(data.getbuffer())
                    else:
                        torch.save(data.detach().clone(), file)
                    info = _StorageInfo(name, begin, file.tell() - begin)
                    results.append(WriteResult(item.index, info.length, info))
                file.flush()
                if self.sync_files:
                    os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise
        os.replace(part, self.path / name)
        future = Future()
        future.set_result(results)
        return future

    def finish(self, metadata, results):
        """Writes the metadata."""
        metadata.storage_data = {result.index: result.storage_data for written in results for result in written}
        metadata.storage_meta = self.storage_meta()
        file = io.BytesIO()
        _Pickler(file, 2).dump(metadata)
        part = self.path / f"{_NAME}.{self.save_id}.tmp"
        with open(part, "wb") as out:
            out.write(file.getbuffer())
            out.flush()
            if self.sync_files:
                os.fsync(out.fileno())
        os.replace(part, self.path / _NAME)

    def storage_meta(self):
        """The names of the checkpoint."""
        return StorageMeta(checkpoint_id=str(self.path), save_id=self.save_id)


class FileSystemReader(StorageReader):
    """Reads a checkpoint from a folder. Nothing in it is executed.

    Args:
        path: the folder.
    """

    def __init__(self, path):
        self.path = Path(path)

    checkpoint_id = property(lambda self: self.path)

    def reset(self, checkpoint_id=None):
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)

    def read_metadata(self, *args, **kwargs):
        """The metadata.

        Raises:
            FileNotFoundError: the folder has no complete checkpoint.
            pickle.UnpicklingError: the file is damaged, or names something that is not allowed.
        """
        with open(self.path / _NAME, "rb") as file:
            found = _Unpickler(file).load()
        if not isinstance(found, Metadata):
            raise pickle.UnpicklingError(f"{self.path / _NAME} holds no metadata of a checkpoint")
        return found

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def read_data(self, plan, planner):
        """Reads the items of a plan. Returns a complete future."""
        by_file = {}
        for item in plan.items:
            by_file.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        for name, items in by_file.items():
            if os.path.isabs(name) or ".." in Path(name).parts:
                raise ValueError(f"{self.path / _NAME} names a file outside of its folder: {name}")
            with open(self.path / name, "rb") as file:
                for item in items:
                    self._read(item, file, planner)
        future = Future()
        future.set_result(None)
        return future

    def _read(self, item, file, planner):
        info = self.storage_data[item.storage_index]
        file.seek(info.offset)
        data = io.BytesIO(file.read(info.length))
        if len(data.getbuffer()) != info.length:
            raise ValueError(f"{self.path / info.relative_path} is shorter than the metadata say")
        if item.type == LoadItemType.BYTE_IO:
            planner.load_bytes(item, data)
            return
        stored = boxed(torch.load(data, map_location="cpu"), item.storage_offsets, item.lengths)
        target = planner.resolve_tensor(item).detach()
        if target.shape != stored.shape:
            raise AssertionError(f"req {item.storage_index} mismatch sizes {target.shape} vs {stored.shape}")
        target.copy_(stored)
        planner.commit_tensor(item, target)

"""Checkpoints in files of the safetensors format, with the names that Hugging Face gives them."""

import dataclasses
import json
import uuid
from pathlib import Path

import rushlight as torch
from rushlight import safetensors
from rushlight._atomic_write import atomic_write
from rushlight.futures import Future

from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadItemType, WriteItemType
from .storage import WriteResult

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

_INDEX = "model.safetensors.index.json"
_SHARDED = "sharded"
#: Where the parts in a file begin, in its header. Files of other programs have whole tensors, and lack it.
_OFFSETS = "DCP_SHARDING_INFO"


def __dir__() -> list[str]:
    return __all__


@dataclasses.dataclass
class _HFStorageInfo:
    """The file of a part of a tensor."""

    relative_path: str
    shape: torch.Size
    dtype: torch.dtype


def _file_name(number, count, rank=None):
    name = f"model-{number:05}-of-{count:05}.safetensors"
    return name if rank is None else f"shard-{rank + 1:05}-{name}"


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors into files of the safetensors format, and an index of them.

    Args:
        path: the folder, which is made if it is missing.
        fqn_to_index_mapping: the number of the file of each tensor, from 1. Without it there is one file.
        thread_count, thread_count_consolidation: accepted.
        save_distributed: every rank writes files of its own, with its parts of tensors, and no index.
        enable_consolidation: the files of the ranks lie in a folder `sharded`, and the first rank makes files of whole tensors of them.

    Raises:
        CheckpointException: the state has something else than tensors, the mapping lacks a tensor, or several ranks have parts and
            `save_distributed` is false.

    >>> import os, tempfile
    >>> dcp = torch.distributed.checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dcp.save({"weight": torch.ones(2)}, storage_writer=dcp.HuggingFaceStorageWriter(folder))
    ...     sorted(os.listdir(folder))
    ['model-00001-of-00001.safetensors', 'model.safetensors.index.json']
    """

    def __init__(
        self,
        path,
        fqn_to_index_mapping=None,
        thread_count=1,
        save_distributed=False,
        enable_consolidation=False,
        thread_count_consolidation=1,
    ):
        super().__init__(path)
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed, self.enable_consolidation = save_distributed, enable_consolidation

    @property
    def _folder(self):
        return self.path / _SHARDED if self.save_distributed and self.enable_consolidation else self.path

    def prepare_local_plan(self, plan):
        self._folder.mkdir(parents=True, exist_ok=True)
        for item in plan.items:
            if item.type == WriteItemType.BYTE_IO:
                raise ValueError(
                    f"{item.index.fqn} is no tensor, and files of safetensors have nothing else\n"
                    "  Leave it out, or use a FileSystemWriter."
                )
        return plan

    def prepare_global_plan(self, plans):
        """Tells each rank its number, and the files of the tensors."""
        if not self.save_distributed and sum(bool(plan.items) for plan in plans) > 1:
            raise ValueError(
                "several ranks have tensors to write\n  With HuggingFaceStorageWriter(save_distributed=True) each writes its own files."
            )
        return [
            dataclasses.replace(plan, storage_data=(rank if self.save_distributed else None, self.fqn_to_index_mapping))
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan, planner):
        """Writes this rank's files. Returns a complete future."""
        rank, mapping = plan.storage_data
        by_file = {}
        for item in plan.items:
            by_file.setdefault(1 if mapping is None else mapping[item.index.fqn], []).append(item)
        count = 1 if mapping is None else max(mapping.values())
        results = []
        for number, items in sorted(by_file.items()):
            name = _file_name(number, count, rank)
            # A rank's part may be a view of a larger tensor, or of that of another name.
            tensors = {item.index.fqn: planner.resolve_data(item).detach().clone() for item in items}
            offsets = {item.index.fqn: {"saved_offsets": list(item.tensor_data.chunk.offsets)} for item in items}
            header = {_OFFSETS: json.dumps(offsets), "DCP_VERSION": "1.0", "format": "pt"}
            safetensors.save_file(tensors, self._folder / name, header)
            for item in items:
                tensor = tensors[item.index.fqn]
                info = _HFStorageInfo(name, tensor.shape, tensor.dtype)
                results.append(WriteResult(item.index, tensor.numel() * tensor.element_size(), info))
        future = Future()
        future.set_result(results)
        return future

    def finish(self, metadata, results):
        """Writes the index, and the files of whole tensors."""
        files = {result.index.fqn: result.storage_data.relative_path for written in results for result in written}
        total = sum(result.size_in_bytes for written in results for result in written)
        if self.save_distributed:
            if not self.enable_consolidation:
                return
            files = self._consolidate()
        index = {"metadata": {"total_size": total}, "weight_map": files}
        with atomic_write(str(self.path / _INDEX)) as part:
            Path(part).write_text(json.dumps(index, indent=2))

    def _consolidate(self):
        """Writes whole tensors. Returns the names of their files."""
        reader = HuggingFaceStorageReader(self._folder)
        entries = reader.read_metadata().state_dict_metadata
        mapping = self.fqn_to_index_mapping or dict.fromkeys(entries, 1)
        files = {name: _file_name(number, max(mapping.values())) for name, number in mapping.items()}
        for file in dict.fromkeys(files.values()):
            # One file's tensors at a time are in memory.
            whole = {}
            for name in (name for name in entries if files[name] == file):
                whole[name] = torch.empty(entries[name].size, dtype=entries[name].properties.dtype)
            reader.read_whole(whole)
            safetensors.save_file(whole, self.path / file, {"format": "pt"})
        return {name: files[name] for name in entries}

    @property
    def metadata_path(self):
        """The path of the index."""
        return self.path / _INDEX


class HuggingFaceStorageReader(FileSystemReader):
    """Reads the files of the safetensors format in a folder, of this library and of others. Nothing in them is executed.

    Args:
        path: the folder.
        thread_count: accepted.

    >>> import tempfile
    >>> dcp = torch.distributed.checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.safetensors.save_file({"weight": torch.ones(2)}, folder + "/model.safetensors")
    ...     state = {"weight": torch.zeros(2)}
    ...     dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(folder))
    >>> state
    {'weight': tensor([1., 1.])}
    """

    def __init__(self, path, thread_count=1):
        super().__init__(path)

    def read_metadata(self, *args, **kwargs):
        """The metadata, from the headers of the files.

        Raises:
            FileNotFoundError: there is no such folder.
            SafetensorError: a file is damaged.
        """
        entries, self.storage_data = {}, {}
        for path in sorted(self.path.iterdir()):
            if path.suffix == ".safetensors":
                with safetensors.safe_open(path) as file:
                    self._read_header(path.name, file, entries)
        return Metadata(entries, storage_data=self.storage_data, storage_meta=StorageMeta(load_id=str(uuid.uuid4())))

    def _read_header(self, name, file, entries):
        begins = json.loads((file.metadata() or {}).get(_OFFSETS, "{}"))
        for key in file.keys():
            part = file.get_slice(key).described()
            offsets = torch.Size(begins[key]["saved_offsets"] if key in begins else [0] * part.dim())
            entry = entries.get(key)
            if entry is None:
                entry = entries[key] = TensorStorageMetadata(TensorProperties(part.dtype), torch.Size(part.shape), [])
            elif entry.properties.dtype != part.dtype or len(entry.size) != part.dim():
                raise ValueError(f"the parts of {key} differ in dtype or number of dimensions")
            entry.size = torch.Size(max(s, o + n) for s, o, n in zip(entry.size, offsets, part.shape))
            entry.chunks.append(ChunkStorageMetadata(offsets, part.shape))
            self.storage_data[MetadataIndex(key, offsets)] = _HFStorageInfo(name, part.shape, part.dtype)

    def read_data(self, plan, planner):
        """Reads the items of a plan. Returns a complete future."""
        by_file = {}
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                raise ValueError(f"{item.storage_index.fqn} is no tensor, and files of safetensors have nothing else")
            by_file.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        for name, items in by_file.items():
            with safetensors.safe_open(self.path / name) as file:
                for item in items:
                    target = planner.resolve_tensor(item).detach()
                    target.copy_(self._stored(file, item))
                    planner.commit_tensor(item, target)
        future = Future()
        future.set_result(None)
        return future

    def _stored(self, file, item):
        """The wanted box of a tensor."""
        box = tuple(slice(begin, begin + size) for begin, size in zip(item.storage_offsets, item.lengths))
        part = file.get_slice(item.storage_index.fqn)
        return part[box] if box else file.get_tensor(item.storage_index.fqn)

    def read_whole(self, tensors):
        """Fills tensors by name, after `read_metadata`."""
        for index, info in self.storage_data.items():
            if index.fqn in tensors:
                with safetensors.safe_open(self.path / info.relative_path) as file:
                    box = tuple(slice(begin, begin + size) for begin, size in zip(index.offset, info.shape))
                    tensors[index.fqn][box] = file.get_tensor(index.fqn)

"""The usual plans: every part of a tensor is written once, and each rank reads what its parts overlap."""

import dataclasses
import io
import itertools

import rushlight as torch
from rushlight.distributed.tensor import DTensor
from rushlight.distributed.tensor._layout import extent, is_cut

from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import (
    BytesIOWriteData,
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]


def __dir__() -> list[str]:
    return __all__


def flatten(state):
    """A nested state as one dictionary of names, and the path of each name.

    Lists without tensors are one object.
    """
    flat, paths = {}, {}

    def visit(value, path):
        nested = isinstance(value, dict) or (isinstance(value, (list, tuple)) and _has_tensors(value))
        if nested and len(value) > 0:
            for key, part in value.items() if isinstance(value, dict) else enumerate(value):
                visit(part, (*path, key))
            return
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"two entries of the state have the name {name}")
        flat[name], paths[name] = value, path

    for key, value in state.items():
        visit(value, (key,))
    return flat, paths


def _has_tensors(value):
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return isinstance(value, torch.Tensor)
    return any(map(_has_tensors, value))


def place(state, path, value):
    """Puts a value into a nested state; lists and dictionaries that are missing are made."""
    for key, following in itertools.pairwise(path):
        if isinstance(state, list):
            state.extend([None] * (key + 1 - len(state)))
            if state[key] is None:
                state[key] = [] if isinstance(following, int) else {}
        elif key not in state:
            state[key] = [] if isinstance(following, int) else {}
        state = state[key]
    key = path[-1]
    if isinstance(state, list):
        state.extend([None] * (key + 1 - len(state)))
    if not isinstance(state, tuple):
        state[key] = value


def box(tensor):
    """Where this rank's part of a tensor begins, and its size. None for a copy that another rank has too."""
    if not isinstance(tensor, DTensor):
        return [0] * tensor.dim(), list(tensor.shape), True
    spec = tensor._spec
    if spec.partial:
        raise ValueError("a DTensor whose values are parts of a sum cannot be saved\n  Call redistribute() first.")
    sizes, offsets = extent(spec)
    place = spec.mesh.get_coordinate()
    first = all(place[dim] == 0 for dim, placement in enumerate(spec.placements) if not is_cut(placement))
    return list(offsets), list(sizes), first


def part_of(tensor):
    """This rank's part, a plain tensor."""
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()


class DefaultSavePlanner(SavePlanner):
    """Writes each tensor's parts once, and other objects from the first rank that has them.

    Args:
        flatten_state_dict: accepted; names of nested entries are joined by dots.
        flatten_sharded_tensors, dedup_replicated_tensors, dedup_save_to_lowest_rank, enable_plan_caching: accepted.
    """

    def __init__(
        self,
        flatten_state_dict=True,
        flatten_sharded_tensors=True,
        dedup_replicated_tensors=None,
        dedup_save_to_lowest_rank=False,
        enable_plan_caching=False,
    ):
        self.state_dict, self.mappings = {}, {}

    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        self.state_dict, self.mappings = flatten(state_dict)
        self.is_coordinator = is_coordinator

    def create_local_plan(self):
        items = []
        for name, value in self.state_dict.items():
            if not isinstance(value, torch.Tensor):
                items.append(WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO, BytesIOWriteData(0)))
                continue
            offsets, sizes, first = box(value)
            if not first or (0 in sizes and 0 not in value.shape):
                continue
            chunk = ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes))
            data = TensorWriteData(chunk, TensorProperties.create_from_tensor(value), torch.Size(value.shape))
            kind = WriteItemType.SHARD if isinstance(value, DTensor) else WriteItemType.TENSOR
            items.append(WriteItem(MetadataIndex(name, chunk.offsets), kind, tensor_data=data))
        self.plan = SavePlan(items, planner_data=self.mappings)
        return self.plan

    def create_global_plan(self, all_plans):
        owners, loads, found = {}, [0] * len(all_plans), {}
        for rank, plan in enumerate(all_plans):
            for item in plan.items:
                owners.setdefault(item.index, []).append(rank)
                found.setdefault(item.index, item)
        # What several ranks have is written by the one that has least to write.
        chosen = [[] for _ in all_plans]
        entries, mappings = {}, {}
        for index, ranks in owners.items():
            item = found[index]
            rank = min(ranks, key=lambda one: (loads[one], one))
            loads[rank] += item.tensor_storage_size() or 0
            if item.tensor_data is None:
                entries[index.fqn] = BytesStorageMetadata()
            else:
                data = item.tensor_data
                entry = entries.setdefault(index.fqn, TensorStorageMetadata(data.properties, data.size, []))
                if not isinstance(entry, TensorStorageMetadata) or entry.size != data.size:
                    raise ValueError(f"{index.fqn} differs between ranks")
                item = dataclasses.replace(item, index=MetadataIndex(index.fqn, index.offset, len(entry.chunks)))
                entry.chunks.append(data.chunk)
            chosen[rank].append(item)
        for plan in reversed(all_plans):
            mappings.update(plan.planner_data)
        for name, entry in entries.items():
            if isinstance(entry, TensorStorageMetadata):
                _check_cover(name, entry)
        plans = [dataclasses.replace(plan, items=items) for plan, items in zip(all_plans, chosen)]
        return plans, Metadata(entries, planner_data=mappings)

    def finish_plan(self, new_plan):
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item):
        value = self.state_dict[write_item.index.fqn]
        if write_item.type != WriteItemType.BYTE_IO:
            return part_of(value)
        file = io.BytesIO()
        torch.save(value, file)
        return file


def _check_cover(name, entry):
    total = sum(chunk.sizes.numel() for chunk in entry.chunks)
    if total != entry.size.numel():
        raise ValueError(f"the parts of {name} have {total} elements, and the whole has {entry.size.numel()}")


class DefaultLoadPlanner(LoadPlanner):
    """Reads every tensor of the state in place, in whatever parts it was written, and replaces other objects.

    Args:
        flatten_state_dict, flatten_sharded_tensors: accepted.
        allow_partial_load: leave entries as they are that the checkpoint does not have.
    """

    def __init__(self, flatten_state_dict=True, flatten_sharded_tensors=True, allow_partial_load=False):
        self.allow_partial_load = allow_partial_load

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        self.original_state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator
        self.state_dict, self.mappings = flatten(state_dict)

    def create_local_plan(self):
        items = []
        for name, value in self.state_dict.items():
            entry = self.metadata.state_dict_metadata.get(name)
            if entry is None:
                if self.allow_partial_load:
                    continue
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            if not isinstance(value, torch.Tensor):
                if isinstance(entry, TensorStorageMetadata):
                    raise ValueError(f"{name} is a tensor in the checkpoint, and {type(value).__name__} in the state")
                none, index = torch.Size([0]), MetadataIndex(name)
                items.append(ReadItem(LoadItemType.BYTE_IO, index, none, index, none, none))
                continue
            if not isinstance(entry, TensorStorageMetadata):
                raise ValueError(f"{name} is an object in the checkpoint, and a tensor in the state")
            if entry.size != value.shape:
                raise ValueError(
                    f"Size mismatch between saved {entry.size} and current: {torch.Size(value.shape)} for {name}"
                )
            items += _overlaps(name, value, entry)
        return LoadPlan(items)

    def create_global_plan(self, global_plan):
        return global_plan

    def finish_plan(self, central_plan):
        return central_plan

    def load_bytes(self, read_item, value):
        name = read_item.dest_index.fqn
        found = torch.load(value)
        self.state_dict[name] = found
        place(self.original_state_dict, self.mappings[name], found)

    def resolve_tensor(self, read_item):
        return boxed(part_of(self.state_dict[read_item.dest_index.fqn]), read_item.dest_offsets, read_item.lengths)

    def commit_tensor(self, read_item, tensor):
        """Nothing is left to do: the tensor is a view."""


def boxed(tensor, offsets, sizes):
    """A box of a tensor, as a view."""
    for dim, (begin, size) in enumerate(zip(offsets, sizes)):
        tensor = tensor.narrow(dim, begin, size)
    return tensor


def _overlaps(name, value, entry):
    """What to read of each stored part of a tensor."""
    offsets, sizes, _ = box(value)
    index = MetadataIndex(name, torch.Size(offsets))
    for number, chunk in enumerate(entry.chunks):
        begins = [max(a, b) for a, b in zip(offsets, chunk.offsets)]
        ends = [min(a + s, b + t) for a, s, b, t in zip(offsets, sizes, chunk.offsets, chunk.sizes)]
        if all(begin < end for begin, end in zip(begins, ends)):
            yield ReadItem(
                LoadItemType.TENSOR,
                index,
                torch.Size(b - o for b, o in zip(begins, offsets)),
                MetadataIndex(name, chunk.offsets, number),
                torch.Size(b - o for b, o in zip(begins, chunk.offsets)),
                torch.Size(e - b for b, e in zip(begins, ends)),
            )


class EverythingPlanner(DefaultLoadPlanner):
    """Reads a whole checkpoint into an empty state, with the nesting that it was saved from."""

    def _wants(self, name, path):
        return True

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        for name, entry in metadata.state_dict_metadata.items():
            path = (metadata.planner_data or {}).get(name, (name,))
            if not self._wants(name, path):
                continue
            value = None
            if isinstance(entry, TensorStorageMetadata):
                value = torch.empty(entry.size, dtype=entry.properties.dtype)
            place(state_dict, path, value)
        super().set_up_planner(state_dict, metadata, is_coordinator)

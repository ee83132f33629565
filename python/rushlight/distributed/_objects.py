"""Collective calls of any picklable objects.

Unpickling executes what the sender wrote, so that all ranks of a group must trust each other.
"""

import pickle

import rushlight as torch
from rushlight.distributed import _collectives, _messages
from rushlight.distributed._collectives import check_root, group_rank, root_rank, warn_not_in_group
from rushlight.distributed._groups import get_global_rank, is_member, resolve


def _pickled(obj):
    data = bytearray(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL))
    return torch.frombuffer(data, dtype=torch.uint8)


def _unpickled(tensor):
    return pickle.loads(memoryview(tensor.numpy()))


def _sizes(group, count):
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(group.size())]
    _collectives.all_gather(sizes, torch.tensor([count]), group)
    return [int(size) for size in sizes]


def all_gather_object(object_list, obj, group=None):
    """Collects an object of every rank in a list, which has as many entries as the group has ranks."""
    if not is_member(group):
        return warn_not_in_group("all_gather_object")
    group = resolve(group)
    own = _pickled(obj)
    parts = [torch.empty(size, dtype=torch.uint8) for size in _sizes(group, own.numel())]
    _collectives.call(group, "all_to_all", [own] * group.size(), parts)
    for rank, part in enumerate(parts):
        object_list[rank] = _unpickled(part)


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """Collects an object of every rank in a list of rank `dst` (by default 0)."""
    if not is_member(group):
        return warn_not_in_group("gather_object")
    group = resolve(group)
    root = root_rank(group, dst, group_dst, 0)
    mine = root == group._rank
    if mine and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if not mine and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    check_root(group, "gather", root)
    own, nothing = _pickled(obj), torch.empty(0, dtype=torch.uint8)
    sizes = _sizes(group, own.numel())
    parts = [torch.empty(size if mine else 0, dtype=torch.uint8) for size in sizes]
    given = [own if rank == root else nothing for rank in range(group.size())]
    _collectives.call(group, "all_to_all", given, parts)
    if mine:
        for rank, part in enumerate(parts):
            object_gather_list[rank] = _unpickled(part)


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """Copies the objects of a list of rank `src` to the lists of all others, which have the same length."""
    if not is_member(group):
        return warn_not_in_group("broadcast_object_list")
    group = resolve(group)
    root = root_rank(group, src, group_src)
    check_root(group, "broadcast", root)
    mine = root == group._rank
    packed = [_pickled(obj) for obj in object_list] if mine else []
    sizes = torch.tensor([one.numel() for one in packed]) if mine else torch.zeros(len(object_list), dtype=torch.int64)
    _collectives.broadcast(sizes, group=group, group_src=root)
    data = torch.cat(packed) if packed else torch.empty(int(sizes.sum()), dtype=torch.uint8)
    _collectives.broadcast(data, group=group, group_src=root)
    if not mine:
        for index, part in enumerate(data.split(sizes.tolist())):
            object_list[index] = _unpickled(part)


def scatter_object_list(
    scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None
):
    """Gives every rank an object of a list of rank `src` (by default 0), as the first entry of its output list."""
    if not is_member(group):
        return warn_not_in_group("scatter_object_list")
    group = resolve(group)
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = root_rank(group, src, group_src, 0)
    check_root(group, "broadcast", root)
    mine, nothing = root == group._rank, torch.empty(0, dtype=torch.uint8)
    if mine:
        if not isinstance(scatter_object_input_list, list) or len(scatter_object_input_list) != group.size():
            raise ValueError(f"scatter_object_input_list must be a list of {group.size()} objects on the source rank")
        given = [_pickled(obj) for obj in scatter_object_input_list]
    else:
        given = [nothing] * group.size()
    size = torch.zeros(1, dtype=torch.int64)
    _collectives.scatter(
        size, [torch.tensor([one.numel()]) for one in given] if mine else None, group=group, group_src=root
    )
    parts = [torch.empty(int(size) if rank == root else 0, dtype=torch.uint8) for rank in range(group.size())]
    _collectives.call(group, "all_to_all", given, parts)
    scatter_object_output_list[0] = _unpickled(parts[root])


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
    """Sends the objects of a list to rank `dst`, which receives them with `recv_object_list`."""
    if not is_member(group):
        return warn_not_in_group("send_object_list")
    group = resolve(group)
    to = group_rank(group, dst, group_dst)
    _messages._not_self(group, to, "destination")
    packed = [_pickled(obj) for obj in object_list]
    sizes = torch.tensor([one.numel() for one in packed], dtype=torch.int64)
    data = torch.cat(packed) if packed else torch.empty(0, dtype=torch.uint8)
    for tensor in (sizes, data):
        _messages.begin_send(tensor, to, group, _messages.OBJECTS, False).wait()


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
    """Receives as many objects as the list has entries from rank `src`, or from any. Returns the sender's rank."""
    if not is_member(group):
        warn_not_in_group("recv_object_list")
        return -1
    group = resolve(group)
    source = None if src is None and group_src is None else group_rank(group, src, group_src)
    sizes = torch.zeros(len(object_list), dtype=torch.int64)
    work = _messages.begin_receive(sizes, source, group, _messages.OBJECTS, False)
    work.wait()
    sender = work._sender
    data = torch.empty(int(sizes.sum()), dtype=torch.uint8)
    _messages.begin_receive(data, sender, group, _messages.OBJECTS, False).wait()
    for index, part in enumerate(data.split(sizes.tolist())):
        object_list[index] = _unpickled(part)
    return get_global_rank(group, sender)

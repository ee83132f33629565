"""Collective calls of any picklable objects.

Unpickling executes what the sender wrote, so that all ranks of a group must trust each other.
"""

import pickle

import rushlight as torch
from rushlight.distributed import _collectives, _messages
from rushlight.distributed._collectives import check_root, group_rank, root_rank, warn_not_in_group
from rushlight.distributed._groups import get_global_rank, is_member, resolve


def _pickled(obj, device):
    data = bytearray(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL))
    return torch.frombuffer(data, dtype=torch.uint8).to(device)


def _unpickled(tensor):
    return pickle.loads(memoryview(tensor.cpu().numpy()))


def _sizes(group, count, device):
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(group.size())]
    _collectives.all_gather(sizes, torch.tensor([count], device=device), group)
    return [int(size) for size in sizes]


def _empty(count, device):
    return torch.empty(count, dtype=torch.uint8, device=device)


def _device(group, given):
    """The device on which objects are exchanged: the caller's, or that of the group."""
    if given is None:
        return group._object_device()
    device = torch.device(given)
    return torch.device("cuda", torch.cuda.current_device()) if device == torch.device("cuda") else device


def all_gather_object(object_list, obj, group=None):
    """Collects an object of every rank in a list, which has as many entries as the group has ranks."""
    if not is_member(group):
        return warn_not_in_group("all_gather_object")
    group = resolve(group)
    device = group._object_device()
    own = _pickled(obj, device)
    parts = [_empty(size, device) for size in _sizes(group, own.numel(), device)]
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
    device = group._object_device()
    check_root(group, "gather", root, device)
    own, nothing = _pickled(obj, device), _empty(0, device)
    sizes = _sizes(group, own.numel(), device)
    parts = [_empty(size if mine else 0, device) for size in sizes]
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
    mine, device = root == group._rank, _device(group, device)
    check_root(group, "broadcast", root, device)
    packed = [_pickled(obj, device) for obj in object_list] if mine else []
    sizes = torch.tensor([one.numel() for one in packed] if mine else [0] * len(object_list), device=device)
    _collectives.broadcast(sizes, group=group, group_src=root)
    data = torch.cat(packed) if packed else _empty(int(sizes.sum()), device)
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
    mine, device = root == group._rank, group._object_device()
    check_root(group, "broadcast", root, device)
    nothing = _empty(0, device)
    if mine:
        if not isinstance(scatter_object_input_list, list) or len(scatter_object_input_list) != group.size():
            raise ValueError(f"scatter_object_input_list must be a list of {group.size()} objects on the source rank")
        given = [_pickled(obj, device) for obj in scatter_object_input_list]
    else:
        given = [nothing] * group.size()
    size = torch.zeros(1, dtype=torch.int64, device=device)
    sizes = [torch.tensor([one.numel()], device=device) for one in given] if mine else None
    _collectives.scatter(size, sizes, group=group, group_src=root)
    parts = [_empty(int(size) if rank == root else 0, device) for rank in range(group.size())]
    _collectives.call(group, "all_to_all", given, parts)
    scatter_object_output_list[0] = _unpickled(parts[root])


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
    """Sends the objects of a list to rank `dst`, which receives them with `recv_object_list`."""
    if not is_member(group):
        return warn_not_in_group("send_object_list")
    group = resolve(group)
    to = group_rank(group, dst, group_dst)
    _messages._not_self(group, to, "destination")
    device = _device(group, device)
    packed = [_pickled(obj, device) for obj in object_list]
    sizes = torch.tensor([one.numel() for one in packed], dtype=torch.int64, device=device)
    data = torch.cat(packed) if packed else _empty(0, device)
    for tensor in (sizes, data):
        _messages.begin_send(tensor, to, group, _messages.OBJECTS, False).wait()


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
    """Receives as many objects as the list has entries from rank `src`, or from any. Returns the sender's rank."""
    if not is_member(group):
        warn_not_in_group("recv_object_list")
        return -1
    group = resolve(group)
    source = None if src is None and group_src is None else group_rank(group, src, group_src)
    device = _device(group, device)
    sizes = torch.zeros(len(object_list), dtype=torch.int64, device=device)
    work = _messages.begin_receive(sizes, source, group, _messages.OBJECTS, False)
    work.wait()
    sender = work._sender
    data = _empty(int(sizes.sum()), device)
    _messages.begin_receive(data, sender, group, _messages.OBJECTS, False).wait()
    for index, part in enumerate(data.split(sizes.tolist())):
        object_list[index] = _unpickled(part)
    return get_global_rank(group, sender)

"""The calls of all ranks of a group together.

Tensors may have any strides. Backends work on contiguous bytes, so that others are copied there and back. So are tensors on GPUs in
a group whose backend for them is not NCCL.
"""

import warnings

import rushlight as torch
from rushlight.autograd.graph import increment_version
from rushlight.distributed import _groups
from rushlight.distributed._coalescing import hold
from rushlight.distributed._groups import is_member, resolve
from rushlight.distributed._reduce_op import RedOpType, ReduceOp, kind_of, supports_complex
from rushlight.distributed._titles import recorded
from rushlight.distributed._work import Work


def check_tensor(param, name):
    """Raises torch's error for an argument that is no tensor."""
    if not isinstance(param, torch.Tensor):
        raise TypeError(
            f"""Invalid function argument. Expected parameter `{name}` of type torch.Tensor
             but got {type(param)} instead."""
        )


def check_tensors(param, name):
    """Raises torch's error for an argument that is no list of tensors."""
    if not isinstance(param, list):
        raise TypeError(
            f"""Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]
             but got {type(param)} instead."""
        )
    if not all(isinstance(one, torch.Tensor) for one in param):
        raise TypeError(
            f"""Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]
             but got {type(param)} with elements of type {[type(one) for one in param]}."""
        )


def _check_dtypes(*tensors):
    dtypes = [tensor.dtype for tensor in tensors]
    for dtype in dtypes:
        if dtype != dtypes[0]:
            raise ValueError(f"Invalid usage of tensors with different dtypesFound {dtypes[0]} and  {dtype}")


def group_rank(group, global_rank, group_rank, default=None):
    """The rank in the group, which is given as such or as the rank in the default group."""
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        if not 0 <= group_rank < group.size():
            raise ValueError(f"Group rank {group_rank} is not part of group {group}")
        return group_rank
    if global_rank is None:
        global_rank = default
    if global_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    return _groups.get_group_rank(group, global_rank)


def root_rank(group, global_rank, given, default=None):
    """The rank of the root in the group. Of a rank that does not exist, `check_root` complains when the call is made."""
    if global_rank is None:
        rank = default if given is None else given
        return group_rank(group, None, None) if rank is None else rank
    # The ranks of the default group are those of the processes.
    is_rank = given is None and group is _groups.get_default_group()
    return global_rank if is_rank else group_rank(group, global_rank, given)


def _refused(group, kind, name, problem):
    """torch's error for the arguments of a call with tensors on a type of device."""
    backend = group._backend_of(kind)
    return backend.argument_error(f"{backend.process_group}::{name}: {problem}")


def check_root(group, name, root, device):
    """Raises torch's error for a root that is not in the group."""
    if not 0 <= root < group.size():
        raise _refused(group, device.type, name, f"invalid root rank: {root}")


def warn_not_in_group(name):
    """Warns about a call of a process that does not belong to the group."""
    rank = _groups.get_rank()
    warnings.warn(f"Running {name} on global rank {rank} which does not belong to the given group.", stacklevel=3)


def _packed(tensor, on_host=False):
    """The tensor itself if its elements lie in contiguous memory, or else a copy of them; in memory of the host with ``on_host``."""
    packed = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return packed.cpu() if on_host else packed


def kind_of_device(group, tensors):
    """The type of the tensors' device, and whether they are exchanged in memory of the host."""
    kind = tensors[0].device.type
    group._backend_of(kind)
    return kind, group._exchanges_on_host(kind)


class Outputs:
    """Contiguous memory for results, which are copied to tensors that lie otherwise."""

    def __init__(self, tensors, on_host=False):
        self._tensors = tensors
        self.packed = [_packed(tensor, on_host) for tensor in tensors]

    def finish(self):
        """Copies results to where they belong."""
        for tensor, packed in zip(self._tensors, self.packed):
            if packed.data_ptr() != tensor.data_ptr() or not tensor.is_contiguous():
                with torch.no_grad():
                    tensor.detach().copy_(packed)
            if not tensor.is_inference():
                increment_version(tensor)


def call(group, name, inputs, outputs, root=0, reduction=None, async_op=False, timeout=None, finish=None):
    """Makes a collective call. `finish` runs after it, before the results are seen."""
    kind, on_host = kind_of_device(group, [*inputs, *outputs])
    given = [_packed(tensor, on_host) for tensor in inputs]
    got = Outputs(outputs, on_host)
    seconds = group._seconds if timeout is None else timeout.total_seconds()
    with recorded(group, kind, name):
        work = group._backend_of(kind).call(name, given, got.packed, root, reduction, seconds, bool(async_op))

    def end():
        got.finish()
        if finish is not None:
            finish()

    if work is None:
        end()
        return None
    return Work([work], end, result=outputs)


def _reduce(group, name, tensor, op, root=0, async_op=False):
    kind, factor = kind_of(op)
    if tensor.is_complex() and not supports_complex(op):
        # As in torch, whose engine refuses what its Python function lets pass.
        refusal = RuntimeError if name == "reduce" else ValueError
        raise refusal(f"{name} does not support {kind} on complex tensors")
    if kind == RedOpType.PREMUL_SUM:
        if factor is None:
            raise ValueError(
                "a multiplied sum needs a factor\n  Make it by torch.distributed._make_nccl_premul_sum(factor)."
            )
        with torch.no_grad():
            tensor.detach().mul_(factor)
        kind = RedOpType.SUM
    return call(group, name, [], [tensor], root, int(kind), async_op)


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces a tensor over all ranks, in place. Every rank gets the same bits.

    Args:
        tensor: of the same shape and dtype on every rank.
        op: a `ReduceOp`.
        group: the ranks that take part, by default all.
        async_op: return a `Work` at once; the tensor is in use until its `wait()` returns.

    Raises:
        RuntimeError: a rank has died, left, called something else, or not called in time.
    """
    check_tensor(tensor, "tensor")
    if not is_member(group):
        return warn_not_in_group("all_reduce")
    group = resolve(group)
    if group._held is not None:
        return hold(group, async_op, all_reduce, tensor, op)
    if tensor.is_sparse:
        return _all_reduce_sparse(group, tensor, op, async_op)
    return _reduce(group, "all_reduce", tensor, op, async_op=async_op)


def _all_reduce_sparse(group, tensor, op, async_op):
    if kind_of(op)[0] != RedOpType.SUM:
        raise ValueError("Unsupported reduction operation")
    from rushlight.distributed._objects import all_gather_object

    own = tensor.detach().coalesce()
    parts = [None] * group.size()
    all_gather_object(parts, (own.indices().cpu(), own.values().cpu()), group)
    total = None
    for indices, values in parts:
        part = torch.sparse_coo_tensor(indices, values, tensor.shape, device=tensor.device)
        total = part if total is None else total + part
    with torch.no_grad():
        tensor.detach().copy_(total.coalesce())
    return Work([], result=[tensor]) if async_op else None


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces several tensors over all ranks, in place."""
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
    check_tensors(tensors, "tensors")
    _check_dtypes(*tensors)
    if not is_member(group):
        return warn_not_in_group("all_reduce_coalesced")
    works = [all_reduce(tensor, op, group, async_op) for tensor in tensors]
    return join(works, tensors) if async_op else None


def join(works, result=()):
    """One work of several."""
    return Work([_Part(work) for work in works], result=result)


class _Part:
    """A work as the part of another one."""

    def __init__(self, work):
        self._work = work

    def wait(self, seconds):
        from datetime import timedelta

        self._work.wait(None if seconds is None else timedelta(seconds=seconds))

    def is_completed(self):
        return self._work.is_completed()

    def is_success(self):
        return self._work.is_success()

    def exception(self):
        return self._work.exception()


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """Reduces a tensor over all ranks. Rank `dst` gets the result in place; the others' tensors stay.

    Args:
        dst: the rank in the default group, or `group_dst` the one in the group.
        op: a `ReduceOp`.
        group: the ranks that take part, by default all.
        async_op: return a `Work` at once.
    """
    check_tensor(tensor, "tensor")
    if not is_member(group):
        return warn_not_in_group("reduce")
    group = resolve(group)
    root = root_rank(group, dst, group_dst)
    check_root(group, "reduce", root, tensor.device)
    return _reduce(group, "reduce", tensor, op, root, async_op)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Copies the tensor of rank `src` to all others, in place."""
    check_tensor(tensor, "tensor")
    if not is_member(group):
        return warn_not_in_group("broadcast")
    group = resolve(group)
    root = root_rank(group, src, group_src)
    check_root(group, "broadcast", root, tensor.device)
    return call(group, "broadcast", [], [tensor], root, async_op=async_op)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Collects a tensor of every rank in a list. Shapes may differ between ranks, if the list has them.

    Args:
        tensor_list: as many tensors as ranks, which are written.
        tensor: this rank's part.
        group: the ranks that take part, by default all.
        async_op: return a `Work` at once.
    """
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    _check_dtypes(*tensor_list, tensor)
    if not is_member(group):
        return warn_not_in_group("all_gather")
    group = resolve(group)
    _check_count(group, tensor_list, "all_gather", "output")
    _check_own_size(group, "allgather", tensor_list, tensor)
    if any(one.numel() != tensor.numel() for one in tensor_list):
        # Each rank sends its part to every other one, so that parts may have different sizes.
        return call(group, "all_to_all", [tensor] * group.size(), tensor_list, async_op=async_op)
    return call(group, "all_gather", [tensor], tensor_list, async_op=async_op)


def _check_exchange(group, inputs, outputs):
    """What this rank sends to itself has the size of what it receives from itself."""
    if inputs[group.rank()].numel() != outputs[group.rank()].numel():
        raise _refused(group, inputs[0].device.type, "alltoall", "input and output tensors must have the same size")


#: torch's sentences about lists that have not one tensor for each rank.
_COUNTED = {
    "all_gather": "invalid output tensor list at index 0 (expected length {1}, got {0})",
    "gather": "Incorrect output list size {0}. Output list size should be {1}, same as size of the process group.",
    "scatter": "Incorrect input list size {0}. Input list size should be {1}, same as size of the process group.",
    "all_to_all": "{2} tensor list size {0} does not match world size {1}",
}


def _check_count(group, tensors, name, what):
    if len(tensors) == group.size():
        return
    sizes = f"\n{name}: {what} list of {len(tensors)} tensors for {group.size()} ranks"
    if name == "reduce_scatter":
        raise RuntimeError("invalid input tensor list size, must be world size" + sizes)
    kind = tensors[0].device.type if tensors else group._object_device().type
    problem = _COUNTED[name].format(len(tensors), group.size(), what)
    raise _refused(group, kind, name.replace("_", "") if name.startswith("all") else name, problem + sizes)


def _check_own_size(group, name, tensors, tensor):
    """This rank's tensor of a list has as many elements as its part: an error here leaves the group as it was."""
    own = tensors[group.rank()]
    if own.numel() != tensor.numel():
        wanted, got = (", ".join(map(str, shape)) for shape in (tensor.shape, own.shape))
        problem = f"invalid tensor size at index {group.rank()} (expected ({wanted}), got ({got}))"
        raise _refused(group, tensor.device.type, name, problem)


def _chunks(tensor, count, name):
    """A contiguous tensor as so many equal parts."""
    if tensor.numel() % count:
        raise ValueError(f"{name}: {tensor.numel()} elements cannot be divided among {count} ranks")
    return list(tensor.view(-1).chunk(count)) if tensor.numel() else [tensor.view(-1)] * count


def all_gather_single(output_tensor, input_tensor, group=None, async_op=False):
    """Collects a tensor of every rank in one, along the first dimension or a new one.

    Args:
        output_tensor: with as many elements as all parts together.
        input_tensor: this rank's part.
        group: the ranks that take part, by default all.
        async_op: return a `Work` at once.
    """
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    if not is_member(group):
        return warn_not_in_group("all_gather_into_tensor")
    group = resolve(group)
    if output_tensor.dtype != input_tensor.dtype:
        raise TypeError("output tensor must have the same type as input tensor")
    if output_tensor.numel() != input_tensor.numel() * group.size():
        raise ValueError("output tensor size must be equal to world_size times input tensor size")
    if group._held is not None:
        return hold(group, async_op, all_gather_single, output_tensor, input_tensor)
    into = Outputs([output_tensor])
    outputs = _chunks(into.packed[0], group.size(), "all_gather_into_tensor")
    return call(group, "all_gather", [input_tensor], outputs, async_op=async_op, finish=into.finish)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """The same as `all_gather_single`."""
    return all_gather_single(output_tensor, input_tensor, group, async_op)


def _all_gather_base(output_tensor, input_tensor, group=None, async_op=False):
    """The older name of `all_gather_single`."""
    warnings.warn(
        "`torch.distributed._all_gather_base` is a private function and will be deprecated. Please use "
        "`torch.distributed.all_gather_single` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return all_gather_single(output_tensor, input_tensor, group, async_op)


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    """Collects several tensors of every rank."""
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for outputs in output_tensor_lists:
        check_tensors(outputs, "output_tensor_lists")
    check_tensors(input_tensor_list, "input_tensor_list")
    if not is_member(group):
        return warn_not_in_group("all_gather_coalesced")
    works = [
        all_gather([outputs[index] for outputs in output_tensor_lists], tensor, group, async_op)
        for index, tensor in enumerate(input_tensor_list)
    ]
    return join(works) if async_op else None


def _check_list_of_root(group, root, tensors, name, what, side):
    """Checks that the root, and only it, gives a list with a tensor for each rank."""
    if root == group._rank:
        if not tensors:
            raise ValueError(f"Argument ``{name}_list`` must be specified on {side} rank.")
        _check_count(group, tensors, name, what)
    elif tensors:
        raise ValueError(f"Argument ``{name}_list`` must NOT be specified on non-{side} ranks.")


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Collects a tensor of every rank in a list of rank `dst` (by default 0).

    Args:
        gather_list: as many tensors as ranks on rank `dst`, None on the others.
        dst: the rank in the default group, or `group_dst` the one in the group.
        group: the ranks that take part, by default all.
        async_op: return a `Work` at once.
    """
    check_tensor(tensor, "tensor")
    if gather_list:
        check_tensors(gather_list, "gather_list")
    gather_list = gather_list or []
    _check_dtypes(tensor, *gather_list)
    if not is_member(group):
        return warn_not_in_group("gather")
    group = resolve(group)
    root = root_rank(group, dst, group_dst, 0)
    _check_list_of_root(group, root, gather_list, "gather", "output", "destination")
    check_root(group, "gather", root, tensor.device)
    if gather_list:
        _check_own_size(group, "gather", gather_list, tensor)
    return call(group, "gather", [tensor], gather_list, root, async_op=async_op)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Gives every rank a tensor of a list of rank `src` (by default 0).

    Args:
        tensor: written on every rank.
        scatter_list: as many tensors as ranks on rank `src`, None on the others.
        src: the rank in the default group, or `group_src` the one in the group.
        group: the ranks that take part, by default all.
        async_op: return a `Work` at once.
    """
    check_tensor(tensor, "tensor")
    if scatter_list:
        check_tensors(scatter_list, "scatter_list")
    scatter_list = scatter_list or []
    _check_dtypes(tensor, *scatter_list)
    if not is_member(group):
        return warn_not_in_group("scatter")
    group = resolve(group)
    root = root_rank(group, src, group_src, 0)
    _check_list_of_root(group, root, scatter_list, "scatter", "input", "source")
    check_root(group, "scatter", root, tensor.device)
    if scatter_list:
        _check_own_size(group, "scatter", scatter_list, tensor)
    return call(group, "scatter", scatter_list, [tensor], root, async_op=async_op)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces a list of tensors over all ranks; each rank gets the one at its place."""
    check_tensor(output, "output")
    check_tensors(input_list, "input_list")
    _check_dtypes(output, *input_list)
    if not is_member(group):
        return warn_not_in_group("reduce_scatter")
    group = resolve(group)
    _check_count(group, input_list, "reduce_scatter", "input")
    _check_own_size(group, "reduce_scatter", input_list, output)
    return _reduce_scatter(group, output, input_list, op, async_op)


def _reduce_scatter(group, output, inputs, op, async_op):
    kind, factor = kind_of(op)
    if kind == RedOpType.PREMUL_SUM:
        inputs, kind = [tensor.detach() * factor for tensor in inputs], RedOpType.SUM
    return call(group, "reduce_scatter", inputs, [output], 0, int(kind), async_op)


def reduce_scatter_single(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces a tensor over all ranks; each rank gets the part at its place along the first dimension."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    if not is_member(group):
        return warn_not_in_group("reduce_scatter_tensor")
    group = resolve(group)
    if output.dtype != input.dtype:
        raise TypeError("input tensor must be the same type as the output tensor.")
    if output.numel() * group.size() != input.numel():
        raise ValueError("input tensor must be the same size as output size times world size")
    if group._held is not None:
        return hold(group, async_op, reduce_scatter_single, output, input, op)
    return _reduce_scatter(group, output, _chunks(_packed(input), group.size(), "reduce_scatter_tensor"), op, async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """The same as `reduce_scatter_single`."""
    return reduce_scatter_single(output, input, op, group, async_op)


def _reduce_scatter_base(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """The older name of `reduce_scatter_single`."""
    warnings.warn(
        "`torch.distributed._reduce_scatter_base` is a private function and will be deprecated. Please use "
        "`torch.distributed.reduce_scatter_single` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return reduce_scatter_single(output, input, op, group, async_op)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Sends a tensor to every rank and receives one from each. Sizes may differ."""
    check_tensors(output_tensor_list, "output_tensor_list")
    check_tensors(input_tensor_list, "input_tensor_list")
    _check_dtypes(*output_tensor_list, *input_tensor_list)
    if not is_member(group):
        return warn_not_in_group("all_to_all")
    group = resolve(group)
    _check_count(group, input_tensor_list, "all_to_all", "input")
    _check_count(group, output_tensor_list, "all_to_all", "output")
    _check_exchange(group, input_tensor_list, output_tensor_list)
    return call(group, "all_to_all", input_tensor_list, output_tensor_list, async_op=async_op)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Sends a part of a tensor along the first dimension to every rank and receives one from each.

    Args:
        output, input: what is written, and what is sent.
        output_split_sizes, input_split_sizes: the sizes of the parts; None or empty for equal ones.
        group: the ranks that take part, by default all.
        async_op: return a `Work` at once.
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    _check_dtypes(output, input)
    if not is_member(group):
        return warn_not_in_group("all_to_all_single")
    group = resolve(group)
    packed = _packed(input)
    into = Outputs([output])
    inputs = _parts(packed, input_split_sizes, group.size())
    outputs = _parts(into.packed[0], output_split_sizes, group.size())
    _check_exchange(group, inputs, outputs)
    return call(group, "all_to_all", inputs, outputs, async_op=async_op, finish=into.finish)


def _parts(tensor, sizes, count):
    if not sizes:
        if tensor.dim() == 0 or tensor.size(0) % count:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        sizes = [tensor.size(0) // count] * count
    if len(sizes) != count:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != tensor.size(0):
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return list(tensor.split(list(sizes)))


def _check_barrier_options(device_ids, timeout):
    from datetime import timedelta

    is_known = not isinstance(device_ids, list) or all(isinstance(number, int) for number in device_ids)
    if not is_known or not (timeout is None or isinstance(timeout, timedelta)):
        raise TypeError(
            "(): incompatible function arguments. The following argument types are supported:\n"
            f"    device_ids: List[int], timeout: datetime.timedelta\nInvoked with: {device_ids!r}, {timeout!r}"
        )


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Waits until every rank has come here."""
    if not is_member(group):
        return warn_not_in_group("barrier")
    group = resolve(group)
    _check_barrier_options(device_ids, timeout)
    seconds = group._seconds if timeout is None else timeout.total_seconds()
    kind = group._object_device().type
    if kind == "cuda" or ((device_ids or group.bound_device_id) and not group._exchanges_on_host("cuda")):
        device = torch.device("cuda", device_ids[0]) if device_ids else group.bound_device_id
        with recorded(group, "cuda", "barrier"):
            work = group._backend_of("cuda").barrier(device, seconds, bool(async_op))
    else:
        with recorded(group, kind, "barrier"):
            work = group._backend_of(kind).call("barrier", [], [], 0, None, seconds, bool(async_op))
    return None if work is None else Work([work])

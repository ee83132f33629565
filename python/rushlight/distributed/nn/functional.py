"""Collective calls that return new tensors, through which gradients pass to the ranks that gave the values.

Every rank makes the call, and every rank runs the backward pass through its result.
"""

import rushlight as torch
from rushlight.autograd import Function
from rushlight.distributed import _collectives
from rushlight.distributed._groups import get_global_rank, resolve
from rushlight.distributed._reduce_op import ReduceOp

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def __dir__() -> list[str]:
    return __all__


def broadcast(tensor, src, group=None):
    """The tensor of rank `src`. Its gradient is the sum of those of all ranks.

    Args:
        tensor: of the same shape and dtype on every rank.
        src: the rank in the default group.
        group: the ranks that take part, by default all.
    """
    return _Broadcast.apply(src, resolve(group), tensor)


def gather(tensor, dst=0, group=None):
    """A tuple of the tensors of all ranks on rank `dst`, and of zeros on the others."""
    return _Gather.apply(dst, resolve(group), tensor)


def scatter(tensors, src=0, group=None):
    """The tensor at this rank's place in the list of rank `src`. The lists of the others give the shape."""
    return _Scatter.apply(src, resolve(group), *tensors)


def reduce(tensor, dst, op=ReduceOp.SUM, group=None):
    """The reduction over all ranks on rank `dst`; the others get their own values back.

    Every rank gets the gradient of rank `dst`, which is that of a sum.
    """
    return _Reduce.apply(dst, op, resolve(group), tensor)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None):
    """The reduction of the tensors at this rank's place in all lists.

    Args:
        output: a tensor of the result's shape, which is written too.
        input_list: as many tensors as ranks.
        op: a `ReduceOp`. Gradients are those of a sum.
        group: the ranks that take part, by default all.
    """
    return _Reduce_Scatter.apply(op, resolve(group), output, *input_list)


def all_gather(tensor, group=None):
    """A tuple of the tensors of all ranks. The gradient is the sum of what all ranks have for this rank's tensor."""
    return _AllGather.apply(resolve(group), tensor)


def _all_gather_base(output_tensor, input_tensor, group=None):
    """The tensors of all ranks, one after the other along the first dimension."""
    return _AllGatherBase.apply(output_tensor, input_tensor, resolve(group))


def all_to_all(output_tensor_list, input_tensor_list, group=None):
    """A tuple of the tensors at this rank's place in the lists of all ranks.

    Args:
        output_tensor_list: tensors of the results' shapes, which are written too.
        input_tensor_list: a tensor for each rank.
        group: the ranks that take part, by default all.
    """
    return _AlltoAll.apply(resolve(group), output_tensor_list, *input_tensor_list)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    """Cuts a tensor along the first dimension and gives each rank a part; the result joins the parts of all ranks.

    Args:
        output: a tensor of the result's shape, which is written too.
        input: the tensor that is cut.
        output_split_sizes, input_split_sizes: the sizes of parts, by default equal ones.
        group: the ranks that take part, by default all.
    """
    return _AlltoAllSingle.apply(resolve(group), output, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor, op=ReduceOp.SUM, group=None):
    """The reduction over all ranks. Gradients are reduced in the same way, which is right for sums and averages."""
    return _AllReduce.apply(op, resolve(group), tensor)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, src, group, tensor):
        ctx.src, ctx.group = src, group
        result = tensor.clone()
        _collectives.broadcast(result, src, group)
        return result

    @staticmethod
    def backward(ctx, grad):
        total = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        mine = get_global_rank(ctx.group, ctx.group.rank()) == ctx.src
        return None, None, total if mine else torch.zeros_like(total)


class _Gather(Function):
    @staticmethod
    def forward(ctx, dst, group, tensor):
        ctx.dst, ctx.group = dst, group
        mine = get_global_rank(group, group.rank()) == dst
        parts = [torch.zeros_like(tensor) for _ in range(group.size())]
        _collectives.gather(tensor, parts if mine else None, dst, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads):
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx, src, group, *tensors):
        ctx.src, ctx.group = src, group
        result = torch.zeros_like(tensors[0])
        mine = get_global_rank(group, group.rank()) == src
        _collectives.scatter(result, list(tensors) if mine else None, src, group)
        return result

    @staticmethod
    def backward(ctx, grad):
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


class _Reduce(Function):
    @staticmethod
    def forward(ctx, dst, op, group, tensor):
        ctx.dst, ctx.group = dst, group
        result = tensor.clone()
        _collectives.reduce(result, dst, op, group)
        return result

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _Reduce_Scatter(Function):
    @staticmethod
    def forward(ctx, op, group, output, *tensors):
        ctx.group = group
        ctx.mark_dirty(output)
        _collectives.reduce_scatter(output, list(tensors), op, group)
        return output

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, *_AllGather.apply(ctx.group, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx, group, tensor):
        ctx.group = group
        parts = [torch.empty_like(tensor) for _ in range(group.size())]
        _collectives.all_gather(parts, tensor, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads):
        return None, _Reduce_Scatter.apply(ReduceOp.SUM, ctx.group, torch.empty_like(grads[0]), *grads)


class _AllGatherBase(Function):
    @staticmethod
    def forward(ctx, output, tensor, group):
        ctx.group = group
        ctx.mark_dirty(output)
        _collectives.all_gather_single(output, tensor, group)
        return output

    @staticmethod
    def backward(ctx, grad):
        parts = grad.chunk(ctx.group.size())
        return None, _Reduce_Scatter.apply(ReduceOp.SUM, ctx.group, torch.empty_like(parts[0]), *parts), None


class _AlltoAll(Function):
    @staticmethod
    def forward(ctx, group, outputs, *tensors):
        ctx.group, ctx.shapes = group, [tensor.shape for tensor in tensors]
        _collectives.all_to_all(outputs, list(tensors), group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *grads):
        given = [grads[0].new_empty(shape) for shape in ctx.shapes]
        return None, None, *_AlltoAll.apply(ctx.group, given, *grads)


class _AlltoAllSingle(Function):
    @staticmethod
    def forward(ctx, group, output, output_sizes, input_sizes, tensor):
        ctx.group, ctx.output_sizes, ctx.input_sizes, ctx.shape = group, output_sizes, input_sizes, tensor.shape
        ctx.mark_dirty(output)
        _collectives.all_to_all_single(output, tensor, output_sizes, input_sizes, group)
        return output

    @staticmethod
    def backward(ctx, grad):
        given = grad.new_empty(ctx.shape)
        back = _AlltoAllSingle.apply(ctx.group, given, ctx.input_sizes, ctx.output_sizes, grad.contiguous())
        return None, None, None, None, back


class _AllReduce(Function):
    @staticmethod
    def forward(ctx, op, group, tensor):
        ctx.op, ctx.group = op, group
        result = tensor.clone()
        _collectives.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx, grad):
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)

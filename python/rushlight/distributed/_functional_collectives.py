"""Collective calls that return a new tensor and name the reduction by a text (`torch.distributed._functional_collectives`).

Results are there when a call returns. Gradients pass through all of them, except reductions that are
neither sums nor averages.
"""

import rushlight as torch
from rushlight.autograd import Function
from rushlight.distributed import _groups
from rushlight.distributed._collectives import call
from rushlight.distributed._groups import ProcessGroup
from rushlight.distributed._reduce_op import ReduceOp
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.nn import functional

__all__ = [
    "AsyncCollectiveTensor",
    "all_gather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_single_autograd",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_single",
    "reduce_scatter_single_autograd",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]

#: Groups that were named by their ranks.
_by_ranks: dict[tuple[int, ...], ProcessGroup] = {}


def __dir__() -> list[str]:
    return __all__


class AsyncCollectiveTensor(torch.Tensor):
    """The result of a collective call that may still run. Programs ask for it; no call returns one, because results are
    there when a call returns.

    >>> from rushlight.distributed._functional_collectives import AsyncCollectiveTensor
    >>> isinstance(torch.ones(1), AsyncCollectiveTensor)
    False
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment] # never bound

    def wait(self):
        """The tensor, once it is there."""
        return self.as_subclass(torch.Tensor)

    trigger_wait = wait


def _group(given):
    """The process group that an argument names: itself, its name, a mesh, a mesh and a dimension, or ranks."""
    if isinstance(given, ProcessGroup):
        return given
    if isinstance(given, str):
        return _groups._world.groups[given]
    if isinstance(given, DeviceMesh):
        if given.ndim != 1:
            raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
        return given.get_group()
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], DeviceMesh):
        return given[0].get_group(given[1])
    if not isinstance(given, list) or not given:
        raise ValueError("Invalid type for group, must be one of List, Processgroup, DeviceMesh or (DeviceMesh, int).")
    lists = given if isinstance(given[0], list) else [given]
    ranks = tuple(next((one for one in lists if _groups.get_rank() in one), lists[0]))
    found = _by_ranks.get(ranks)
    if found is None or _groups._world.groups.get(found.group_name) is not found:
        found = _by_ranks[ranks] = _groups.new_group(list(ranks), use_local_synchronization=True, sort_ranks=False)
    return found


def _op(name):
    found = {"sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN}
    found |= {"max": ReduceOp.MAX, "band": ReduceOp.BAND, "bor": ReduceOp.BOR, "bxor": ReduceOp.BXOR}
    if name.lower() not in found:
        raise ValueError(f"Unknown reduction: {name}\n  It is one of {', '.join(found)}.")
    return found[name.lower()]


def wait_tensor(tensor):
    """The tensor. It was complete when the call returned it."""
    return tensor


def broadcast(self, src, group, tag=""):
    """The tensor of rank `src` of the default group."""
    return functional.broadcast(self, src, _group(group))


def all_reduce(self, reduceOp, group, tag=""):
    """The reduction over all ranks: ``"sum"``, ``"avg"``, ``"max"`` and so on, in small or capital letters.

    Raises:
        ValueError: there is no such reduction.
        RuntimeError: in the backward pass, if the reduction is neither a sum nor a mean.
    """
    total = functional.all_reduce(self, _op(reduceOp), _group(group))
    return total if reduceOp.lower() in ("sum", "avg") else _WithoutGradient.apply("all_reduce", reduceOp, total)


def all_reduce_coalesced(self, reduceOp, group, tag=""):
    """The reductions of several tensors."""
    return [all_reduce(tensor, reduceOp, group, tag) for tensor in self]


def all_gather_tensor(self, gather_dim, group, tag=""):
    """The tensors of all ranks, joined along a dimension."""
    return torch.cat(functional.all_gather(self.contiguous(), _group(group)), gather_dim)


all_gather_tensor_autograd = all_gather_single = all_gather_single_autograd = all_gather_tensor


def all_gather_into_tensor_coalesced(self, group, tag=""):
    """For each of several tensors those of all ranks, joined along the first dimension."""
    return [all_gather_tensor(tensor, 0, group, tag) for tensor in self]


def reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag=""):
    """This rank's part along a dimension of the reduction over all ranks.

    Raises:
        AssertionError: the size of the dimension is not a multiple of the number of ranks.
        ValueError: there is no such reduction.
        RuntimeError: in the backward pass, if the reduction is neither a sum nor a mean.
    """
    group = _group(group)
    if self.size(scatter_dim) % group.size() != 0:
        raise AssertionError(
            f"input dimension {scatter_dim} ({self.size(scatter_dim)} must be a multiple of group_size {group.size()})"
        )
    parts = [part.contiguous() for part in self.chunk(group.size(), scatter_dim)]
    op = reduceOp.lower()
    total = functional.reduce_scatter(
        torch.empty_like(parts[0]), parts, ReduceOp.SUM if op == "avg" else _op(op), group
    )
    if op == "sum":
        return total
    return total / group.size() if op == "avg" else _WithoutGradient.apply("reduce_scatter_tensor", reduceOp, total)


class _WithoutGradient(Function):
    """The result of a function whose reduction has no gradient."""

    @staticmethod
    def forward(ctx, function, op, total):
        ctx.sentence = f"{function} backward only supports 'sum' reduction, got '{op}'"
        return total.view_as(total)

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError(ctx.sentence)


reduce_scatter_tensor_autograd = reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor


def reduce_scatter_tensor_coalesced(inputs, reduceOp, scatter_dim, group, tag=""):
    """This rank's parts of the reductions of several tensors, each along a dimension of its own."""
    return [reduce_scatter_tensor(tensor, reduceOp, dim, group, tag) for tensor, dim in zip(inputs, scatter_dim)]


def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag=""):
    """Cuts a tensor along the first dimension, gives each rank a part, and joins what all ranks gave."""
    group = _group(group)
    if output_split_sizes is None or input_split_sizes is None:
        if output_split_sizes is not None or input_split_sizes is not None:
            raise AssertionError(
                "output_split_sizes and input_split_sizes must either be specified together or both set to None"
            )
        output = self.new_empty(self.shape)
    else:
        output = self.new_empty((sum(output_split_sizes), *self.shape[1:]))
    return functional.all_to_all_single(output, self.contiguous(), output_split_sizes, input_split_sizes, group)


all_to_all_single_autograd = all_to_all_single


def permute_tensor(self, src_dst, group, tag=""):
    """The tensor of the rank that `src_dst` sends here: rank r of the group gives its tensor to rank ``src_dst[r]``."""
    group = _group(group)
    own = self.contiguous()
    given = [own if src_dst[group.rank()] == rank else own.new_empty(0) for rank in range(group.size())]
    got = [torch.empty_like(own) if src_dst[rank] == group.rank() else own.new_empty(0) for rank in range(group.size())]
    call(group, "all_to_all", given, got)
    return got[src_dst.index(group.rank())]

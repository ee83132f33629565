"""Collective calls that return their results (`torch.distributed._functional_collectives`).

Each call has ended when it returns, so that there is nothing to wait for. Those whose names end in ``_autograd`` are
differentiable: the gradients of one call are exchanged by the opposite one.
"""

from __future__ import annotations

import rushlight as torch
from rushlight import distributed as dist
from rushlight.autograd import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.distributed import ProcessGroup

__all__ = [
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "wait_tensor",
]


def wait_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself.

    >>> from rushlight.distributed._functional_collectives import wait_tensor
    >>> wait_tensor(torch.ones(2))
    tensor([1., 1.])
    """
    return tensor


def _reduction(name: str) -> dist.ReduceOp:
    reduction: dist.ReduceOp | None = getattr(dist.ReduceOp, name.upper(), None)
    if reduction is None:
        raise ValueError(f"{name} is not the name of a reduction")
    return reduction


def all_reduce(self: torch.Tensor, reduceOp: str, group: ProcessGroup, tag: str = "") -> torch.Tensor:
    """The reduction of a tensor over all ranks.

    Args:
        self: a tensor, which stays as it is.
        reduceOp: the name of the reduction: ``"sum"``.
        group: the ranks that take part.
        tag: has no effect.
    """
    result = self.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(result, _reduction(reduceOp), group)
    return result


def broadcast(self: torch.Tensor, src: int, group: ProcessGroup, tag: str = "") -> torch.Tensor:
    """The tensor of rank ``src``."""
    result = self.detach().clone(memory_format=torch.contiguous_format)
    dist.broadcast(result, src, group)
    return result


def all_gather_tensor(self: torch.Tensor, gather_dim: int, group: ProcessGroup, tag: str = "") -> torch.Tensor:
    """The tensors of all ranks, one after the other in a dimension."""
    count = dist.get_world_size(group)
    result = self.new_empty([count, *self.shape])
    dist.all_gather_into_tensor(result, self.detach().contiguous(), group)
    return torch.cat(result.unbind(), gather_dim) if self.dim() else result


def reduce_scatter_tensor(
    self: torch.Tensor, reduceOp: str, scatter_dim: int, group: ProcessGroup, tag: str = ""
) -> torch.Tensor:
    """This rank's part, in a dimension, of the reduction of a tensor over all ranks.

    Raises:
        AssertionError: the size of the dimension is no multiple of the number of ranks.
    """
    count = dist.get_world_size(group)
    if self.size(scatter_dim) % count:
        raise AssertionError(f"input dimension {scatter_dim} ({self.size(scatter_dim)} must be a multiple of {count}")
    parts = torch.stack(self.detach().chunk(count, scatter_dim))
    result = torch.empty_like(parts[0])
    dist.reduce_scatter_tensor(result, parts, _reduction(reduceOp), group)
    return result


def all_to_all_single(
    self: torch.Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: ProcessGroup,
    tag: str = "",
) -> torch.Tensor:
    """The parts that all ranks have for this one, of the sizes given, in the first dimension.

    Raises:
        AssertionError: only one of the lists of sizes is given.
    """
    if (output_split_sizes is None) != (input_split_sizes is None):
        raise AssertionError(
            "output_split_sizes and input_split_sizes must either be specified together or both set to None"
        )
    rows = self.size(0) if output_split_sizes is None else sum(output_split_sizes)
    result = self.new_empty([rows, *self.shape[1:]])
    dist.all_to_all_single(result, self.detach().contiguous(), output_split_sizes, input_split_sizes, group)
    return result


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, dim: int, group: ProcessGroup) -> torch.Tensor:
        ctx.dim, ctx.group = dim, group
        return all_gather_tensor(tensor, dim, group)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return reduce_scatter_tensor(gradient, "sum", ctx.dim, ctx.group), None, None


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, reduceOp: str, dim: int, group: ProcessGroup) -> torch.Tensor:
        ctx.dim, ctx.group = dim, group
        ctx.factor = 1 / dist.get_world_size(group) if reduceOp.lower() == "avg" else 1
        return reduce_scatter_tensor(tensor, reduceOp, dim, group)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return all_gather_tensor(gradient, ctx.dim, ctx.group) * ctx.factor, None, None, None


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, taken: Any, given: Any, group: ProcessGroup) -> torch.Tensor:
        ctx.taken, ctx.given, ctx.group = taken, given, group
        return all_to_all_single(tensor, taken, given, group)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return all_to_all_single(gradient, ctx.given, ctx.taken, ctx.group), None, None, None


def all_gather_tensor_autograd(self: torch.Tensor, gather_dim: int, group: ProcessGroup, tag: str = "") -> torch.Tensor:
    """`all_gather_tensor`, differentiable."""
    return _AllGather.apply(self, gather_dim, group)


def reduce_scatter_tensor_autograd(
    self: torch.Tensor, reduceOp: str, scatter_dim: int, group: ProcessGroup, tag: str = ""
) -> torch.Tensor:
    """`reduce_scatter_tensor`, differentiable for sums and means.

    Raises:
        NotImplementedError: another reduction.
    """
    if reduceOp.lower() not in ("sum", "avg"):
        raise NotImplementedError(f"reduce_scatter_tensor_autograd has no derivative for the reduction {reduceOp!r}")
    return _ReduceScatter.apply(self, reduceOp, scatter_dim, group)


def all_to_all_single_autograd(
    self: torch.Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: ProcessGroup,
    tag: str = "",
) -> torch.Tensor:
    """`all_to_all_single`, differentiable."""
    return _AllToAll.apply(self, output_split_sizes, input_split_sizes, group)


def __dir__() -> list[str]:
    return __all__

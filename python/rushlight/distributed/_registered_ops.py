"""Collective calls as operators of torch's registry: those of `torch.ops._c10d_functional` name their group by a text,
those of `torch.ops.c10d_functional` by its ranks, and those of `torch.ops.c10d` write into tensors and return the call too."""

from __future__ import annotations

import rushlight.distributed as dist
from rushlight.distributed import _functional_collectives as collectives

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor

__all__ = ["OF"]

wait_tensor = collectives.wait_tensor


def all_reduce(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    """The reduction over all ranks."""
    return collectives.all_reduce(input, reduce_op, group_name)


def all_gather_into_tensor(input: Tensor, group_size: int, group_name: str) -> Tensor:
    """The tensors of all ranks, joined along the first dimension."""
    return collectives.all_gather_tensor(input, 0, group_name)


def reduce_scatter_tensor(input: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    """This rank's part along the first dimension of the reduction over all ranks."""
    return collectives.reduce_scatter_tensor(input, reduce_op, 0, group_name)


def all_to_all_single(
    input: Tensor, output_split_sizes: list[int], input_split_sizes: list[int], group_name: str
) -> Tensor:
    """Cuts a tensor along the first dimension, gives each rank a part, and joins what all ranks gave."""
    return collectives.all_to_all_single(input, output_split_sizes, input_split_sizes, group_name)


def broadcast(input: Tensor, src: int, group_name: str) -> Tensor:
    """The tensor of a rank."""
    return collectives.broadcast(input, src, group_name)


def broadcast_(
    tensors: list[Tensor],
    process_group: Any,
    root_rank: int,
    root_tensor: int = 0,
    asyncOp: bool = True,
    timeout: int = -1,
) -> tuple[list[Tensor], Any]:
    """Writes the tensor of the group's rank `root_rank` into those of the others."""
    root = dist.get_global_rank(process_group, root_rank)
    return tensors, dist.broadcast(tensors[root_tensor], root, process_group, async_op=asyncOp)


def scatter_(
    output_tensors: list[Tensor],
    input_tensors: list[list[Tensor]],
    process_group: Any,
    root_rank: int,
    asyncOp: bool = True,
    timeout: int = -1,
) -> tuple[list[Tensor], Any]:
    """Writes one of the tensors of the group's rank `root_rank` into that of each rank."""
    root = dist.get_global_rank(process_group, root_rank)
    parts = input_tensors[0] if input_tensors else None
    return output_tensors, dist.scatter(output_tensors[0], parts, root, process_group, async_op=asyncOp)


def _all_gather_among(shard: Tensor, tag: str, ranks: list[int], group_size: int) -> Tensor:
    """The tensors of some ranks, joined along the first dimension."""
    return collectives.all_gather_tensor(shard, 0, ranks, tag)


#: The operators of each namespace.
OF: dict[str, dict[str, Callable[..., Any]]] = {
    "_c10d_functional": {
        "_wrap_tensor_autograd": wait_tensor,
        "all_gather_into_tensor": all_gather_into_tensor,
        "all_reduce": all_reduce,
        "all_to_all_single": all_to_all_single,
        "broadcast": broadcast,
        "reduce_scatter_tensor": reduce_scatter_tensor,
        "wait_tensor": wait_tensor,
    },
    "c10d_functional": {"all_gather_into_tensor": _all_gather_among, "wait_tensor": wait_tensor},
    "c10d": {"broadcast_": broadcast_, "scatter_": scatter_},
}


def __dir__() -> list[str]:
    return __all__

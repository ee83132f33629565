"""Private functions of `torch.distributed.utils` that libraries call: the states of a module on all ranks."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from typing import Any

    from rushlight import Tensor, nn

__all__ = ["_broadcast_coalesced", "_sync_module_states"]


def _broadcast_coalesced(process_group: Any, tensors: Sequence[Tensor], buffer_size: int, src: int = 0) -> None:
    """Copies the tensors of a rank of a group to all others, in place. The size of buffers has no effect: each tensor is a call.

    >>> torch.distributed._broadcast_coalesced.__name__
    '_broadcast_coalesced'
    """
    from ._collectives import broadcast

    for tensor in tensors:
        broadcast(tensor.detach(), group=process_group, group_src=src)


def _sync_module_states(
    module: nn.Module,
    process_group: Any,
    broadcast_bucket_size: int,
    src: int,
    params_and_buffers_to_ignore: Container[str],
    broadcast_buffers: bool = True,
) -> None:
    """Copies the parameters of a module of one rank of a group to all others, and the buffers if `broadcast_buffers` is true.

    Args:
        module: the module.
        process_group: the group.
        broadcast_bucket_size: has no effect.
        src: the rank in the group.
        params_and_buffers_to_ignore: names of tensors that are not copied.
        broadcast_buffers: whether to copy the buffers.
    """
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    states = [tensor for name, tensor in named if name not in params_and_buffers_to_ignore]
    _broadcast_coalesced(process_group, states, broadcast_bucket_size, src)

"""The norm of gradients of which each rank has shards."""

import warnings

import rushlight as torch
from rushlight.distributed import _collectives
from rushlight.distributed._reduce_op import ReduceOp


def clipped(parameters, cut, group, max_norm, norm_type):
    """Scales gradients so that their norm is at most a number, and returns the norm before.

    Args:
        parameters: the parameters.
        cut: those of which each rank of the group has a shard. The others are alike on all ranks.
        group: the group.
        max_norm: the number.
        norm_type: the p of the p-norm.
    """
    parameters = [parameter for parameter in parameters if parameter.grad is not None]
    sharded = [parameter.grad for parameter in parameters if parameter in cut]
    others = [parameter.grad for parameter in parameters if parameter not in cut]
    norm_of = lambda grads: torch.nn.utils.get_total_norm(grads, norm_type).to(torch.float32)
    norms = [norm_of(sharded), norm_of(others)]
    if cut:
        if norm_type == torch.inf:
            _collectives.all_reduce(norms[0], ReduceOp.MAX, group)
        else:
            powers = norms[0] ** norm_type
            _collectives.all_reduce(powers, group=group)
            norms[0] = powers ** (1.0 / norm_type)
    if norm_type == torch.inf:
        total = torch.maximum(*norms)
    else:
        total = (norms[0] ** norm_type + norms[1] ** norm_type) ** (1.0 / norm_type)
    if not parameters:
        warnings.warn(
            f"Called FSDP.clip_grad_norm_() on rank {group.rank()} with no gradients -- returning the total "
            "norm in the default dtype torch.float32",
            stacklevel=3,
        )
        return total
    factor = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    for grad in sharded + others:
        grad.mul_(factor.to(grad.dtype))
    dtypes = {grad.dtype for grad in sharded + others}
    for dtype in dtypes - {total.dtype}:
        total = total.to(torch.promote_types(total.dtype, dtype))
    return total if len(dtypes) > 1 else total.to(*dtypes)

"""`loss_parallel`: the cross entropy of logits whose classes are on several ranks."""

import contextlib

import rushlight as torch
from rushlight._set_module import set_module
from rushlight.distributed import _collectives
from rushlight.distributed._reduce_op import ReduceOp

from ._api import DTensor, wrapped
from ._layout import Spec, bounds, everywhere

_depth = 0


def is_parallel():
    return _depth > 0


@contextlib.contextmanager
def loss_parallel():
    """A context in which `cross_entropy` leaves logits in parts whose classes are on several ranks.

    The logits lie as ``Shard(-1)`` on a mesh of one dimension, the classes being the last dimension of two. The targets are whole on
    every rank. Backward runs in the context as well.

    >>> dist, F = torch.distributed, torch.nn.functional
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> logits = dist.tensor.distribute_tensor(torch.zeros(3, 4), mesh, [dist.tensor.Shard(1)])
    >>> with dist.tensor.parallel.loss_parallel():
    ...     F.cross_entropy(logits, torch.tensor([0, 1, 2])).to_local()
    tensor(1.3863)
    >>> dist.destroy_process_group()
    """
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


class _CrossEntropy(torch.autograd.Function):
    """The loss of each target from this rank's classes: the logarithm of a sum minus the logit of the target."""

    @staticmethod
    def forward(ctx, logits, target, ignored, first, group):
        maxima = logits.amax(1) if logits.size(1) else logits.new_full(logits.shape[:1], -torch.inf)
        _collectives.all_reduce(maxima, ReduceOp.MAX, group)
        shifted = logits - maxima.unsqueeze(1)
        sums = shifted.exp().sum(1)
        own = target - first
        here = (own >= 0) & (own < logits.size(1)) & (target != ignored)
        own = torch.where(here, own, 0)
        if logits.size(1):
            chosen = torch.where(here, shifted.gather(1, own.unsqueeze(1)).squeeze(1), 0)
        else:
            chosen = torch.zeros_like(sums)
        both = torch.stack([sums, chosen])
        _collectives.all_reduce(both, group=group)
        ctx.save_for_backward(shifted.exp() / both[0].unsqueeze(1), own, here, target == ignored)
        return torch.where(target == ignored, 0, both[0].log() - both[1])

    @staticmethod
    def backward(ctx, grad):
        chances, own, here, left_out = ctx.saved_tensors
        grad = torch.where(left_out, 0, grad).unsqueeze(1)
        result = chances * grad
        if result.size(1):
            result.scatter_add_(1, own.unsqueeze(1), torch.where(here.unsqueeze(1), -grad, 0))
        return result, None, None, None, None


def cross_entropy_of_classes(input, target, ignored, reduction):
    """The cross entropy of logits whose last dimension is cut."""
    spec = input._spec
    if spec.mesh.ndim != 1 or len(spec.shape) != 2:
        raise NotImplementedError("loss_parallel: logits of two dimensions on a mesh of one dimension")
    target = target.full_tensor() if isinstance(target, DTensor) else target
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    first, _ = bounds(spec.shape[1], spec.mesh.size(0), spec.mesh.get_coordinate()[0])
    losses = _CrossEntropy.apply(input.to_local(), target, ignored, first, spec.mesh.get_group(0))
    if reduction == "sum":
        losses = losses.sum()
    elif reduction == "mean":
        losses = losses.sum() / (target != ignored).sum()
    return wrapped(losses, Spec(spec.mesh, everywhere(spec.mesh), losses.shape))


set_module("rushlight.distributed.tensor.parallel", loss_parallel)

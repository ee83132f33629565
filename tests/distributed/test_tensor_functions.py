"""Functions of cut tensors: changes in place, results in given memory, names of arguments, and gradients."""

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor


def _whole():
    return torch.arange(1.0, 21.0).reshape(4, 5)


def _lying(mesh):
    """The same tensor in several layouts."""
    x = _whole()
    return [
        distribute_tensor(x, mesh, [Shard(0)]),
        distribute_tensor(x, mesh, [Shard(1)]),
        distribute_tensor(x, mesh, [Replicate()]),
        DTensor.from_local(x / 2, mesh, [Partial()]),
    ]


def _gradients(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    x = _whole().requires_grad_()
    for given in _lying(mesh):
        part = given.detach().requires_grad_()
        wanted = (Replicate(),) if part.placements[0].is_partial() else part.placements
        (grad,) = torch.autograd.grad((part**3).sum(), part, create_graph=True)
        assert grad.placements == wanted
        torch.testing.assert_close(grad.full_tensor(), (3 * x**2).detach())
        if not part.placements[0].is_partial():
            (second,) = torch.autograd.grad(grad.sum(), [part])
            torch.testing.assert_close(second.full_tensor(), (6 * x).detach())
        weight = distribute_tensor(_whole(), mesh, [Shard(1)])
        (grad,) = torch.autograd.grad(part * part, part, weight)
        torch.testing.assert_close(grad.full_tensor(), (2 * x * x).detach())
        other = torch.ones(2, requires_grad=True)
        assert torch.autograd.grad((part * part).sum(), (part, other), allow_unused=True)[1] is None
        with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
            torch.autograd.grad(other.sum(), part)


def test_gradients(ranks):
    ranks(_gradients, 2)

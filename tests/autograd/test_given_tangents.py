"""Gradients of the tangents that a program gives."""

import pytest

import rushlight as torch
import rushlight.autograd.forward_ad as fwAD


@pytest.mark.parametrize("function", [lambda x: x * 2, torch.sin, lambda x: x * x, lambda x: (x @ x).exp()])
def test_gradients_flow_through_given_tangents(function):
    x, weight = torch.tensor([0.5, -1.0, 2.0]), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    slope = torch.autograd.functional.vjp(function, x, torch.ones_like(function(x)))[1]
    with fwAD.dual_level():
        primal, tangent = fwAD.unpack_dual(function(fwAD.make_dual(x, weight)))
        assert tangent.requires_grad and not primal.requires_grad
        assert torch.allclose(torch.autograd.grad(tangent.sum(), weight)[0], slope)
        assert not fwAD.unpack_dual(function(fwAD.make_dual(x, weight.detach()))).tangent.requires_grad
    value, along = torch.func.jvp(function, (x,), (weight,))
    assert not value.requires_grad and torch.allclose(torch.autograd.grad(along.sum(), weight)[0], slope)
    assert not torch.func.jvp(function, (x,), (weight.detach(),))[1].requires_grad
    _, push = torch.func.linearize(function, x)
    assert torch.allclose(torch.autograd.grad(push(weight).sum(), weight)[0], slope)

"""Changes in place inside of the functions of transforms: through aliases without a history, and of captured tensors."""

import pytest

import rushlight as torch
from rushlight import func
from rushlight.nn import utils

X = torch.tensor([1.0, 2.0])


def through_detach(x):
    x.detach().mul_(2)
    return (x**3).sum()


def test_derivatives_pass_a_change_that_no_graph_knows():
    """As in torch, the change counts as if the argument had always had the new elements."""
    assert func.grad(through_detach)(X.clone()).tolist() == [12, 48]
    for outer in (func.grad, func.jacrev, func.jacfwd):
        assert outer(lambda x: func.grad(through_detach)(x * 1).sum())(X.clone()).tolist() == [12, 24]
    third = func.grad(lambda x: func.grad(lambda y: func.grad(through_detach)(y * 1).sum())(x * 1).sum())(X.clone())
    assert third.tolist() == [6, 6]


def test_derivatives_pass_a_change_in_other_transforms():
    value, tangent = func.jvp(lambda x: func.grad(through_detach)(x * 1).sum(), (X,), (X,))
    assert value.item() == tangent.item() == 60
    assert func.grad(lambda x: func.jvp(through_detach, (x * 1,), (X,))[1])(X).tolist() == [12, 48]
    both = func.vmap(func.grad(lambda x: func.grad(through_detach)(x * 1).sum()))(torch.stack([X, X]))
    assert both.tolist() == [[12, 24]] * 2
    # The same point in an outer graph.
    for point in (lambda x: x, torch.clone, lambda x: x * 1):
        x = X.clone().requires_grad_()
        found = torch.autograd.grad(func.grad(through_detach)(point(x)).sum(), x)[0]
        assert found.tolist() == [12, 24]


def test_what_was_saved_before_such_a_change_is_refused():
    def outer(x):
        y = x * x

        def inner(z):
            z.detach().mul_(1)
            return (y * z**3).sum()

        return func.grad(inner)(x).sum()

    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        func.grad(outer)(X.clone())

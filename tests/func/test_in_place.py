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


def captured():
    parameter = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    parameter.grad = torch.tensor([3.0, 4.0])
    return parameter


BY_NORM = (lambda parameter, **how: utils.clip_grad_norm_([parameter], 1.0, **how)), [0.6, 0.8], "mul_.Tensor"
BY_VALUE = (lambda parameter, **how: utils.clip_grad_value_([parameter], 1.0, **how)), [1.0, 1.0], "clamp_"


@pytest.mark.parametrize(("clip", "clipped", "name"), [BY_NORM, BY_VALUE])
def test_captured_gradients_are_clipped(clip, clipped, name):
    """torch does so by functions of lists, in which transforms do not look for captured tensors."""

    def loss(parameter, **how):
        return lambda x: (clip(parameter, **how), (x * parameter.detach()).sum())[1]

    for how in ({}, {"foreach": True}):
        for transform in (
            lambda f: func.grad(f)(X),
            lambda f: func.grad(lambda x: func.grad(f)(x).sum())(X),
            lambda f: func.vmap(f)(torch.stack([X, X])),
            lambda f: func.jvp(f, (X,), (X,)),
        ):
            parameter = captured()
            transform(loss(parameter, **how))
            assert torch.allclose(parameter.grad, torch.tensor(clipped)) and not parameter.grad.requires_grad
    parameter = captured()
    assert func.grad(loss(parameter))(X).tolist() == [3, 4]
    parameter = captured()
    with pytest.raises(RuntimeError, match=f"in-place operation .aten::{name}. that would mutate a captured Tensor"):
        func.grad(loss(parameter, foreach=False))(X)
    assert parameter.grad.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda p: torch._foreach_neg_([p]), [-1, -2]),
        (lambda p: torch._foreach_zero_([p]), [0, 0]),
        (lambda p: torch._foreach_add_([p], 3), [4, 5]),
        (lambda p: torch._foreach_mul_([p], [p]), [1, 4]),
        (lambda p: torch._foreach_copy_([p], [torch.ones(2)]), [1, 1]),
        (lambda p: torch._foreach_lerp_([p], [torch.zeros(2)], 0.5), [0.5, 1]),
        (lambda p: torch._foreach_addcmul_([p], [torch.ones(2)], [torch.ones(2)], value=2), [3, 4]),
    ],
)
def test_functions_of_lists_change_captured_tensors(change, expected):
    p = X.clone()
    assert func.grad(lambda x: (change(p), (x * p).sum())[1])(X).tolist() == p.tolist() == expected
    assert not p.requires_grad


def test_functions_of_lists_carry_no_derivatives_out():
    p = X.clone()
    for change in (
        lambda x: torch._foreach_mul_([p], [x]),
        lambda x: torch._foreach_add_([p], x.sum()),
        lambda x: torch._foreach_copy_([p], [x]),
    ):
        for transform in (func.grad, lambda f: lambda x: func.jvp(f, (x,), (x,))):
            with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
                transform(lambda x, change=change: (change(x), (x * p).sum())[1])(X)
    assert p.tolist() == [1, 2]

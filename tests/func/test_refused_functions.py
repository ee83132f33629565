"""What the transforms of `torch.func` refuse: custom functions that lack a part that torch asks for, and `backward()`."""

import pytest

import rushlight as torch
from rushlight import func


class _Old(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class _Unmapped(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: torch.func.grad(lambda x: f(x).sum())(x),
        lambda f, x: torch.func.vjp(f, x),
        lambda f, x: torch.func.jacrev(f)(x),
        lambda f, x: torch.func.jacfwd(f)(x),
        lambda f, x: torch.func.grad(lambda y: (y + f(x)).sum())(x),
        lambda f, x: torch.vmap(lambda y: y + f(x))(torch.ones(2, 2)),
    ],
)
def test_functions_need_a_context_of_their_own(call):
    with pytest.raises(RuntimeError, match="^In order to use an autograd.Function with functorch transforms"):
        call(_Old.apply, torch.ones(2))


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: torch.func.jacfwd(f)(x),
        lambda f, x: torch.func.hessian(lambda x: f(x).sum())(x),
        lambda f, x: torch.vmap(f)(x),
        lambda f, x: torch.vmap(lambda y: y + f(x))(torch.ones(2, 2)),
        lambda f, x: torch.vmap(lambda y: y + f(3.0))(torch.ones(2, 2)),
    ],
)
def test_functions_need_a_rule_for_samples(call):
    with pytest.raises(RuntimeError, match="^You tried to vmap over _Unmapped, but it does not have vmap support"):
        call(_Unmapped.apply, torch.ones(2))


def test_functions_without_a_rule_have_gradients():
    x = torch.ones(2)
    assert torch.func.grad(lambda x: _Unmapped.apply(x).sum())(x).tolist() == [2, 2]
    assert torch.equal(torch.func.jacrev(_Unmapped.apply)(x), torch.eye(2) * 2)
    leaf = x.clone().requires_grad_()
    _Old.apply(leaf).sum().backward()
    assert leaf.grad.tolist() == [2, 2]


@pytest.mark.parametrize(
    "inside",
    [
        lambda x: (x * x).sum().backward(),
        lambda x: torch.autograd.backward((x * x).sum()),
        lambda x: torch.ones(2, requires_grad=True).sum().backward(),
    ],
)
@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: func.grad(f)(x),
        lambda f, x: func.vjp(f, x),
        lambda f, x: func.jvp(f, (x,), (x,)),
        lambda f, x: func.jacrev(f)(x),
        lambda f, x: func.jacfwd(f)(x),
        lambda f, x: func.hessian(f)(x),
        lambda f, x: func.vmap(f)(x.expand(2, 2)),
    ],
)
def test_backward_inside_is_refused(transform, inside):
    def function(x):
        inside(x)
        return x.sum()

    for x in (torch.ones(2), torch.ones(2, requires_grad=True)):
        with pytest.raises(RuntimeError, match=r"^backward\(\) called inside a functorch transform\."):
            transform(function, x)
        assert x.grad is None
    # The refusal ends with the transform.
    x.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_grad_inside_is_allowed():
    def function(x):
        (found,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return found.sum()

    assert func.grad(function)(torch.tensor([1.0, 2.0])).tolist() == [6, 12]


@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: func.grad(f)(x),
        lambda f, x: func.jvp(f, (x,), (x,)),
        lambda f, x: func.jacrev(f)(x),
        lambda f, x: func.jacfwd(f)(x),
        lambda f, x: func.vmap(f)(x.expand(2, 2)),
    ],
)
def test_leaves_inside_are_refused(transform):
    for name, call in (
        ("requires_grad_", lambda x: x.requires_grad_()),
        ("requires_grad_", lambda x: torch.zeros(2).requires_grad_(False)),
        ("retain_grad", lambda x: x.retain_grad()),
    ):
        with pytest.raises(RuntimeError, match=rf"^You are attempting to call Tensor\.{name}\(\)"):
            transform(lambda x, call=call: (call(x), x.sum())[1], torch.ones(2))
    assert torch.ones(2).requires_grad_().requires_grad


def test_layers_and_windows_inside_of_transforms():
    """What sets leaves of its own is not refused."""
    x, labels = torch.randn(4, 3), torch.tensor([0, 1, 2, 1])
    loss = torch.nn.functional.linear_cross_entropy
    weight = torch.randn(3, 3)
    expected = func.grad(lambda w: torch.nn.functional.cross_entropy(x @ w.T, labels))(weight)
    torch.testing.assert_close(func.grad(lambda w: loss(x, w, labels))(weight), expected)
    window = func.grad(lambda x: (x * torch.signal.windows.hann(3, requires_grad=True)).sum())(torch.ones(3))
    torch.testing.assert_close(window, torch.signal.windows.hann(3))


class Cubed(torch.autograd.Function):
    """The derivative of a cube, by a graph of its own in `forward`."""

    @staticmethod
    def forward(x):
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            return torch.autograd.grad((y**3).sum(), y)[0]

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        return 6 * grad * ctx.saved_tensors[0]


def test_forward_of_a_function_may_make_leaves():
    x = torch.ones(3)
    assert func.grad(lambda x: Cubed.apply(x).sum())(x).tolist() == [6.0] * 3
    assert func.jacrev(Cubed.apply)(x).tolist() == torch.eye(3).mul(6).tolist()
    with pytest.raises(RuntimeError, match=r"^You are attempting to call Tensor\.requires_grad_\(\)"):
        func.grad(lambda x: (Cubed.apply(x) * x.requires_grad_()).sum())(x)


def test_buffers_of_layers_change_inside_of_transforms():
    """Rows that are too long are shortened, and vectors of powers iterated, without an effect on derivatives."""
    rows, weight = torch.arange(3), torch.full((3, 2), 0.1)

    def loss(weight):
        return torch.nn.functional.embedding(rows, weight, max_norm=1.0).pow(2).sum()

    torch.testing.assert_close(func.grad(loss)(weight), 2 * weight)
    torch.testing.assert_close(func.hessian(loss)(weight).sum(), torch.tensor(12.0))
    for normed in (torch.nn.utils.parametrizations.spectral_norm, torch.nn.utils.spectral_norm):
        layer = normed(torch.nn.Linear(3, 2))
        assert func.grad(lambda x, layer=layer: layer(x).pow(2).sum())(torch.ones(1, 3)).shape == (1, 3)

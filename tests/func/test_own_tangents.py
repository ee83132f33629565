"""The ``jvp`` of a `Function` in the transforms of `torch.func`: it is called with the tangents themselves."""

import pytest

import rushlight as torch
from rushlight import func
from rushlight.autograd import forward_ad

X, V = torch.tensor([1.0, 2.0]), torch.tensor([1.0, -2.0])


class _Doubled(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0] * 11


class _BySign(_Doubled):
    """Other factors for positive and negative tangents, so that it is not linear."""

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return torch.where(tangent > 0, tangent * x * 3, tangent * x * -5)


class _ByRule(_BySign):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x):
        return _ByRule.apply(x), 0


def _by_norm(ctx, tangent):
    length = tangent.norm()
    return tangent / length * length * 2


def _early(ctx, tangent):
    return tangent * 2 if tangent.any() else torch.zeros_like(tangent)


def _by_sum(ctx, tangent):
    return tangent * 2 if tangent.sum() > 0 else tangent * 0


@pytest.mark.parametrize("own", [_by_norm, _early, _by_sum])
def test_it_may_branch(own):
    kind = type("Kind", (_Doubled,), {"jvp": staticmethod(own)})
    torch.testing.assert_close(func.jvp(kind.apply, (X,), (torch.full((2,), 3.0),))[1], torch.full((2,), 6.0))
    torch.testing.assert_close(func.linearize(kind.apply, X)[1](torch.full((2,), 3.0)), torch.full((2,), 6.0))


def test_it_may_not_branch_on_many_tangents_at_once():
    kind = type("Kind", (_Doubled,), {"jvp": staticmethod(_early)})
    with pytest.raises(RuntimeError, match="data-dependent control flow"):
        func.jacfwd(kind.apply)(X)


@pytest.mark.parametrize("kind", [_BySign, _ByRule])
class TestValues:
    """The numbers are torch's."""

    def test_of_jvp(self, kind):
        assert func.jvp(kind.apply, (X,), (V,))[1].tolist() == [3, 20]
        assert func.jvp(lambda x: kind.apply(kind.apply(x) * 3), (X,), (V,))[1].tolist() == [162, 2160]
        assert func.linearize(kind.apply, X)[1](V).tolist() == [3, 20]

    def test_of_jacobians(self, kind):
        assert func.jacfwd(kind.apply)(X).tolist() == [[3, 0], [0, 6]]
        first, second = func.jacfwd(lambda x, y: kind.apply(x * y), argnums=(0, 1))(X, V)
        assert first.tolist() == [[3, 0], [0, -40]] and second.tolist() == [[3, 0], [0, -24]]
        whole = torch.autograd.functional.jacobian(kind.apply, X, strategy="forward-mode", vectorize=True)
        assert whole.tolist() == [[3, 0], [0, 6]]

    def test_beside_gradients(self, kind):
        square = lambda x: kind.apply(x).pow(2).sum()
        assert func.hessian(square)(X).tolist() == [[110, 0], [0, 352]]
        assert func.jvp(func.grad(square), (X,), (V,))[1].tolist() == [110, 704]
        assert func.grad(lambda x: func.jvp(kind.apply, (x,), (V,))[1].sum())(X).tolist() == [3, 10]
        weight = torch.tensor([2.0, 3.0], requires_grad=True)
        value, along = func.jvp(lambda x: kind.apply(x * weight), (X,), (V,))
        assert torch.autograd.grad(value.sum(), weight, retain_graph=True)[0].tolist() == [22, 132]
        assert along.tolist() == [12, 180] and torch.autograd.grad(along.sum(), weight)[0].tolist() == [12, 120]

    def test_of_samples(self, kind):
        batch, steps = torch.stack([X, V]), torch.stack([V, X])
        expected = [[3, 20], [3, -12]]
        assert func.vmap(lambda x, v: func.jvp(kind.apply, (x,), (v,))[1])(batch, steps).tolist() == expected
        assert func.jvp(func.vmap(kind.apply), (batch,), (steps,))[1].tolist() == expected
        inner = func.jacfwd(func.vmap(kind.apply))(batch)
        assert inner.shape == (2, 2, 2, 2) and inner.sum() == 3 + 6 + 3 - 6
        assert func.vmap(func.jacfwd(kind.apply))(batch).tolist() == [[[3, 0], [0, 6]], [[3, 0], [0, -6]]]
        with forward_ad.dual_level():
            dual = func.vmap(kind.apply)(forward_ad.make_dual(batch, steps))
            assert forward_ad.unpack_dual(dual).tangent.tolist() == expected

    def test_of_a_gradient_of_dual_tensors(self, kind):
        with forward_ad.dual_level():
            slope = func.grad(lambda x: kind.apply(x).pow(2).sum())(forward_ad.make_dual(X, V))
            assert forward_ad.unpack_dual(slope).tangent.tolist() == [110, 704]


def test_nested():
    along = lambda x: func.jvp(_BySign.apply, (x,), (V,))[1]
    # The tangent 3 * x and -5 * x * -2, in the direction of X.
    assert func.jvp(along, (X,), (X,))[1].tolist() == [3, 20]
    assert func.jacfwd(func.jacfwd(_BySign.apply))(X).tolist() == [[[3, 0], [0, 0]], [[0, 0], [0, 3]]]


def test_it_may_call_its_own_function():
    class Exponential(_Doubled):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * Exponential.apply(ctx.saved_tensors[0])

    torch.testing.assert_close(func.jvp(Exponential.apply, (X,), (V,))[1], X.exp() * V)
    with forward_ad.dual_level():
        dual = Exponential.apply(forward_ad.make_dual(X, V))
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, X.exp() * V)


def test_linearize_repeats_the_calls():
    _, along = func.linearize(lambda x: _BySign.apply(_BySign.apply(x) * 3), X)
    assert along(V).tolist() == [162, 2160] and along(-V).tolist() == [270, 1296]


def test_linearize_notices_changes():
    def function(x):
        y = x * 1
        result = _BySign.apply(y)
        return result + y.mul_(2)

    _, along = func.linearize(function, X)
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        along(V)


def test_linearize_refuses_vmap():
    with pytest.raises(NotImplementedError, match="does not reach _BySign.jvp inside of vmap"):
        func.linearize(func.vmap(_BySign.apply), torch.ones(2, 2))


class _Sum(torch.autograd.Function):
    """It tells which arguments have tangents."""

    @staticmethod
    def forward(x, y):
        return x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)

    @staticmethod
    def jvp(ctx, along_x, along_y):
        return along_y * 100 if along_x is None else along_x * 10


@pytest.mark.parametrize("other", [X, X.clone().requires_grad_()], ids=["plain", "with a gradient"])
def test_arguments_without_a_tangent(other):
    ones = torch.ones(2)
    assert func.jvp(lambda y: _Sum.apply(other, y), (X,), (ones,))[1].tolist() == [100, 100]
    assert func.jvp(lambda x: _Sum.apply(x, other), (X,), (ones,))[1].tolist() == [10, 10]
    assert func.linearize(lambda y: _Sum.apply(other, y), X)[1](ones).tolist() == [100, 100]
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(X, ones)
        assert forward_ad.unpack_dual(_Sum.apply(other, dual)).tangent.tolist() == [100, 100]


def test_a_changed_argument_without_a_tangent():
    class Added(_Sum):
        @staticmethod
        def forward(x, y):
            return x.add_(y)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(False)
            ctx.mark_dirty(inputs[0])

    assert func.jvp(lambda y: Added.apply(X.clone(), y), (X,), (torch.ones(2),))[1].tolist() == [100, 100]


def test_the_tangent_of_a_view_need_not_be_a_view():
    class Column(_Doubled):
        @staticmethod
        def forward(x):
            return x.view(2, 1)

        @staticmethod
        def jvp(ctx, tangent):
            return torch.full((2, 1), 2.0)

    value, along = func.jvp(Column.apply, (X,), (V,))
    assert value.tolist() == [[1], [2]] and along.tolist() == [[2], [2]]
    # `linearize` is as strict as `forward_ad`.
    with pytest.raises(RuntimeError, match="the jvp is not returning a view"):
        func.linearize(Column.apply, X)[1](V)


def test_a_tangent_may_have_another_dtype():
    class Precise(_Doubled):
        @staticmethod
        def jvp(ctx, tangent):
            return tangent.double() * 2

    for function in (Precise.apply, lambda x: Precise.apply(Precise.apply(x / 2))):
        value, along = func.jvp(function, (X,), (V,))
        assert value.dtype is torch.float32 and along.dtype is torch.float64
        assert torch.equal(along, (V * value / X).double())

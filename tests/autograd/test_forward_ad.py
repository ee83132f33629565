"""Forward-mode differentiation: tangents, and the operations that propagate them."""

import weakref

import pytest

import rushlight as torch
import rushlight.autograd.forward_ad as fwAD
from rushlight import nn

X = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
V = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)


def pushed(function, *pairs):
    with fwAD.dual_level():
        return fwAD.unpack_dual(function(*[fwAD.make_dual(primal, tangent) for primal, tangent in pairs]))


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (torch.sin, lambda x: x.cos()),
        (lambda x: x, torch.ones_like),
        (lambda x: x.clone().mul_(3), lambda x: torch.full_like(x, 3.0)),
        (lambda x: x * x.detach(), lambda x: x),
        (lambda x: torch.cat([x[:1], x[1:] ** 2]), lambda x: torch.cat([torch.ones(1).double(), 2 * x[1:]])),
    ],
)
def test_tangents(function, derivative):
    primal, tangent = pushed(function, (X, V))
    assert torch.allclose(primal, function(X)) and torch.allclose(tangent, derivative(X) * V)
    assert not primal.requires_grad and not tangent.requires_grad


def test_in_place_changes_the_primal_and_keeps_the_tangent():
    x = X.clone()
    primal, tangent = pushed(lambda x: x.mul_(2), (x, V))
    assert torch.equal(primal, 2 * X) and torch.equal(tangent, 2 * V) and torch.equal(x, 2 * X)


def test_what_has_no_tangent():
    assert pushed(lambda x: x.detach(), (X, V)).tangent is None
    assert pushed(lambda x: V, (X, V)).tangent is None
    assert fwAD.unpack_dual(X) == (X, None)
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, V)
    assert fwAD.unpack_dual(dual).tangent is None


def test_backward_through_a_tangent():
    weight = X.clone().requires_grad_()
    with fwAD.dual_level():
        tangent = fwAD.unpack_dual(fwAD.make_dual(weight, V) ** 3).tangent
        tangent.sum().backward()
    assert torch.allclose(weight.grad, 6 * X * V)
    with torch.no_grad():
        assert torch.allclose(pushed(torch.exp, (weight, V)).tangent, X.exp() * V)
        assert not torch.is_grad_enabled()


def test_through_a_module():
    layer = nn.Linear(3, 2).double()
    weights = dict(layer.named_parameters())
    with fwAD.dual_level():
        for name, parameter in weights.items():
            delattr(layer, name)
            setattr(layer, name, fwAD.make_dual(parameter, torch.ones_like(parameter)))
        tangent = fwAD.unpack_dual(layer(X)).tangent
    assert torch.allclose(tangent, (X.sum() + 1).expand(2))


def test_functions_with_a_derivative_forward():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_forward(x)
            ctx.scale = scale
            return x * x

        @staticmethod
        def jvp(ctx, tangent, _):
            (x,) = ctx.saved_tensors
            return ctx.scale * tangent * x

    assert torch.allclose(pushed(lambda x: 2 * Square.apply(x, 100.0), (X, V)).tangent, 200 * V * X)
    assert torch.equal(Square.apply(X, 1.0), X * X)


def test_functions_with_a_derivative_forward_have_gradients_too():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

        @staticmethod
        def jvp(ctx, tangent):
            return 2 * ctx.saved_tensors[0] * tangent

    weight = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    with fwAD.dual_level():
        y = Square.apply(fwAD.make_dual(torch.arange(3.0).double(), torch.ones(3).double()) * weight)
        tangent = fwAD.unpack_dual(y).tangent
        assert tangent.tolist() == [0, 8, 36] and fwAD.unpack_dual(tangent).tangent is None
        assert fwAD.unpack_dual(Square.apply(y)).tangent.tolist() == [0, 64, 2592]
        (slope,) = torch.autograd.grad(y.sum(), weight, create_graph=True)
        assert slope.tolist() == [0, 4, 24] and fwAD.unpack_dual(slope).tangent.tolist() == [0, 8, 24]
        assert torch.autograd.grad(tangent.sum(), weight)[0].tolist() == [0, 8, 24]


def test_levels_and_arguments():
    with pytest.raises(RuntimeError, match="no level exists, make sure to enter_dual_level"):
        fwAD.make_dual(X, V)
    with fwAD.dual_level(), pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
        fwAD.enter_dual_level()
    with fwAD.dual_level():
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex, but got: torch.int64"):
            fwAD.make_dual(X.long(), V)
        with pytest.raises(RuntimeError, match="a different size than that of the original Tensor"):
            fwAD.make_dual(X, V[:2])
    with pytest.raises(RuntimeError, match="not the last one"):
        fwAD.exit_dual_level()


def test_tangents_have_the_shape_of_what_they_move():
    x = torch.ones(2)
    with pytest.raises(
        RuntimeError, match=r"Tensor is of size \[2\] while the given forward gradient is of size \[3\]"
    ):
        torch.func.jvp(torch.sin, (x,), (torch.ones(3),))
    with pytest.raises(RuntimeError, match=r"Expected tangents to only contain Tensors, got <class 'int'>"):
        torch.func.jvp(torch.sin, (x,), (3,))
    with pytest.raises(
        RuntimeError, match=r"tangent:0 with shape torch.Size\(\[3\]\) in flattened pytree doesn't match"
    ):
        torch.func.linearize(torch.sin, x)[1](torch.ones(3))


class TestWithoutGradients:
    """`no_grad` switches off gradients, but not tangents."""

    def test_tangents_pass(self):
        def function(x):
            with torch.no_grad():
                y = x * x
                z = torch.stack([y, y.clone().mul_(2)])
                z[0].add_(x)
                z.view(-1).mul_(3)
            return z.sum(0)

        primal, tangent = pushed(function, (X, V))
        assert torch.allclose(primal, function(X)) and torch.allclose(tangent, (18 * X + 3) * V)
        value, along = torch.func.jvp(function, (X,), (V,))
        assert torch.equal(value, primal) and torch.equal(along, tangent)
        assert torch.allclose(torch.func.jacfwd(function)(X), (18 * X + 3).diag())

    def test_gradients_do_not(self):
        def function(x):
            with torch.no_grad():
                constant = x * x
            return (x * constant).sum()

        x = torch.tensor(3.0)
        one = torch.tensor(1.0)
        assert torch.func.grad(function)(x) == 9 and torch.func.jvp(function, (x,), (one,))[1] == 27
        assert torch.func.jacfwd(function)(x) == 27 and torch.func.jacrev(function)(x) == 9
        assert torch.func.jvp(torch.func.grad(function), (x,), (one,))[1] == 6
        assert torch.func.grad(lambda x: torch.func.jvp(function, (x,), (one,))[1])(x) == 6
        assert torch.func.jacfwd(torch.func.jacfwd(function))(x) == 18

    def test_nobody_else_sees_it(self):
        weight = X.clone().requires_grad_()
        with fwAD.dual_level():
            x = fwAD.make_dual(X, V)
            assert not x.requires_grad and (x * 2).grad_fn is None and (x * 2).is_leaf
            with torch.no_grad():
                y = x * weight
                leaf = torch.ones(3, requires_grad=True)
                leaf.add_(0)
            assert not y.requires_grad and leaf.is_leaf and leaf.requires_grad
            (y * weight).sum().backward()
            assert torch.allclose(weight.grad, X * X)
            assert torch.allclose(fwAD.unpack_dual(y * weight).tangent, V * X * X)

    def test_inference_mode_does(self):
        def function(x):
            with torch.inference_mode():
                return x * x

        assert pushed(function, (X, V)).tangent is None

    def test_a_gradient_within(self):
        def function(x):
            with torch.no_grad():
                return torch.func.grad(lambda y: (y**3).sum())(x * 2)

        assert torch.allclose(torch.func.jvp(function, (X,), (V,))[1], 24 * X * V)


def test_the_text_of_dual_tensors():
    weight = torch.ones(1, requires_grad=True)
    with fwAD.dual_level():
        x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
        assert repr(x) == "tensor(3., tangent=1.0)" and repr(x.view(1) * 2) == "tensor([6.], tangent=tensor([2.]))"
        assert repr(x * weight).startswith("tensor([3.], grad_fn=<MulBackward0>")
    assert repr(x) == "tensor(3.)"


class TestUnpackedBesideParameters:
    """An unpacked tensor has no tangent, even if its graph leads to a parameter."""

    def unpacked(self):
        self.weight = torch.ones(3, dtype=torch.float64, requires_grad=True)
        self.dual = fwAD.make_dual(torch.arange(3.0).double(), torch.ones(3).double())
        return fwAD.unpack_dual(self.dual * self.dual * self.weight)

    def test_neither_part_is_dual(self):
        with fwAD.dual_level():
            primal, tangent = self.unpacked()
            assert fwAD.unpack_dual(tangent).tangent is None and fwAD.unpack_dual(primal).tangent is None
            assert fwAD.unpack_dual(tangent * self.weight).tangent is None
            assert fwAD.unpack_dual(primal * self.dual).tangent.tolist() == [0, 1, 4]
            assert fwAD.unpack_dual(tangent * self.dual).tangent.tolist() == [0, 2, 4]

    def test_both_have_gradients(self):
        with fwAD.dual_level():
            primal, tangent = self.unpacked()
            assert torch.autograd.grad(tangent.sum(), self.weight, retain_graph=True)[0].tolist() == [0, 2, 4]
            (slope,) = torch.autograd.grad(primal.sum(), self.weight, create_graph=True)
            assert slope.tolist() == [0, 1, 4] and fwAD.unpack_dual(slope).tangent.tolist() == [0, 2, 4]

    def test_they_become_dual_again(self):
        with fwAD.dual_level():
            again = fwAD.make_dual(*self.unpacked())
            tangent = fwAD.unpack_dual(again * again).tangent
            assert tangent.tolist() == [0, 4, 32]
            assert torch.autograd.grad(tangent.sum(), self.weight)[0].tolist() == [0, 8, 64]

    def test_a_tensor_becomes_dual_once(self):
        with fwAD.dual_level():
            self.unpacked()
            for dual in (self.dual, self.dual * 2, self.dual * self.weight):
                with pytest.raises(RuntimeError, match="based on a Tensor that already has a forward gradient"):
                    fwAD.make_dual(dual, V)
                with pytest.raises(RuntimeError, match="Setting a forward grad that itself has a forward gradient"):
                    fwAD.make_dual(X, dual)

    def test_a_later_level_sees_nothing_of_an_earlier_one(self):
        with fwAD.dual_level():
            primal, tangent = self.unpacked()
        with fwAD.dual_level():
            again = fwAD.make_dual(primal, tangent)
            assert fwAD.unpack_dual(again * again).tangent.tolist() == [0, 4, 32]

    def test_a_transform_outside_sees_its_own(self):
        def function(x):
            with fwAD.dual_level():
                primal, tangent = fwAD.unpack_dual(fwAD.make_dual(x, torch.ones_like(x)) ** 3 * weight)
                return fwAD.unpack_dual(fwAD.make_dual(primal, tangent) ** 2).tangent

        weight = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        # (x**6 * 4)' = 24 * x**5, whose derivative is 120 * x**4
        assert torch.allclose(torch.func.jvp(function, (X,), (V,))[1], 120 * X**4 * V)
        assert torch.allclose(torch.func.vmap(function)(X), 24 * X**5)

    def test_without_any_dual_tensor(self):
        with fwAD.dual_level():
            assert fwAD.unpack_dual(torch.ones(1, requires_grad=True)).tangent is None

    @pytest.mark.parametrize("layer", [nn.LayerNorm(3), nn.BatchNorm1d(3), nn.Linear(3, 2), nn.GRU(3, 2)])
    def test_the_text(self, layer):
        with fwAD.dual_level():
            y = layer(fwAD.make_dual(torch.arange(6.0).view(2, 3), torch.ones(2, 3)))
            text = repr(y[0] if isinstance(y, tuple) else y)
            assert text.count("tangent=") == 1 and text.count("grad_fn=") == 2


@pytest.mark.parametrize("create_graph", [False, True])
class TestForwardOverReverse:
    """A backward pass propagates tangents, whether it is recorded or not."""

    def test_the_gradient_of_what_is_dual(self, create_graph):
        x = X.clone().requires_grad_()
        for function, second in ((lambda x: x**3, 6 * X), (lambda x: x.exp() ** 2, 4 * (2 * X).exp())):
            for wanted in (0, 1):
                with fwAD.dual_level():
                    dual = fwAD.make_dual(x, V)
                    (slope,) = torch.autograd.grad(function(dual).sum(), (x, dual)[wanted], create_graph=create_graph)
                    assert slope.requires_grad == create_graph
                    assert torch.allclose(fwAD.unpack_dual(slope).tangent, second * V)

    def test_what_is_dual_and_then_requires_gradients(self, create_graph):
        with fwAD.dual_level():
            dual = fwAD.make_dual(X, V).requires_grad_()
            (slope,) = torch.autograd.grad((dual**3).sum(), dual, create_graph=create_graph)
            assert torch.allclose(fwAD.unpack_dual(slope).tangent, 6 * X * V)

    def test_the_graph_serves_gradients_no_more(self, create_graph):
        x = X.clone().requires_grad_()
        with fwAD.dual_level():
            (slope,) = torch.autograd.grad((fwAD.make_dual(x, V) ** 3).sum(), x, create_graph=create_graph)
            if not create_graph:
                assert slope.grad_fn is None and slope.is_leaf and (slope * 2).grad_fn is None
            moved = fwAD.unpack_dual(slope * slope)
            assert torch.allclose(moved.tangent, 36 * X**3 * V)
            assert moved.primal.requires_grad == moved.tangent.requires_grad == create_graph

    def test_inside_of_transforms(self, create_graph):
        weight = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)

        def slope(x):
            return torch.autograd.grad((x**3 * weight**2).sum(), weight, create_graph=create_graph)[0]

        # 4 * sum(x**3), whose derivative is 12 * x**2
        assert torch.allclose(torch.func.jvp(slope, (X,), (V,))[1], (12 * X**2 * V).sum())
        assert torch.allclose(torch.func.jacfwd(slope)(X), 12 * X**2)

        def along(x):
            return torch.func.jvp(slope, (x,), (V,))[1]

        assert torch.allclose(torch.func.jvp(along, (X,), (V,))[1], (24 * X * V * V).sum())

    def test_dual_leaves(self, create_graph):
        with fwAD.dual_level():
            leaf = fwAD.make_dual(X, V).requires_grad_()
            assert leaf.requires_grad and leaf.is_leaf and leaf.grad_fn is None
            primal, tangent = fwAD.unpack_dual(leaf)
            assert primal.requires_grad and torch.equal(tangent, V)
            assert torch.equal(fwAD.unpack_dual(leaf.sin()).tangent, X.cos() * V)
            (slope,) = torch.autograd.grad((leaf**3).sum(), leaf, create_graph=create_graph)
            assert torch.allclose(fwAD.unpack_dual(slope).tangent, 6 * X * V)
            (leaf**3).sum().backward()
            assert torch.equal(leaf.grad, 3 * X**2) and fwAD.unpack_dual(leaf.grad).tangent is None
            assert torch.equal(fwAD.unpack_dual(leaf.requires_grad_(False)).tangent, V) and not leaf.requires_grad
        assert leaf.is_leaf and torch.equal(leaf.grad, 3 * X**2)

    def test_gradients_of_parameters(self, create_graph):
        layer = nn.Linear(3, 2).double()
        with torch.no_grad():
            layer.weight.copy_(torch.arange(6.0).view(2, 3))
            layer.bias.zero_()
        with fwAD.dual_level():
            loss = layer(fwAD.make_dual(X, V)).pow(2).sum()
            slopes = torch.autograd.grad(loss, list(layer.parameters()), create_graph=create_graph)
            weight, bias = (fwAD.unpack_dual(slope).tangent.tolist() for slope in slopes)
        assert weight == [[10.0, -10.0, 5.0], [32.5, -28.0, 21.5]] and bias == [0.0, 3.0]


def test_nobody_lives_on_with_a_gradient():
    leaf = X.clone().requires_grad_()
    alive = weakref.ref(leaf)
    with fwAD.dual_level():
        for _ in range(2):
            (fwAD.make_dual(leaf, V) ** 3).sum().backward()
    assert torch.allclose(leaf.grad, 6 * X**2)
    del leaf
    assert alive() is None


def test_hooks_hear_of_gradients_alone():
    heard = []
    x = X.clone().requires_grad_()
    with fwAD.dual_level():
        y = fwAD.make_dual(x, V) * 2
        y.register_hook(lambda grad: heard.append(grad) or grad * 10)
        y.retain_grad()
        assert torch.equal(fwAD.unpack_dual(y * 3).tangent, 6 * V) and not heard and y.grad is None
        (slope,) = torch.autograd.grad((y * y).sum(), x)
        assert len(heard) == 1 and torch.equal(fwAD.unpack_dual(slope).tangent, 80 * V)


def test_nothing_carries_a_tangent_in_inference_mode():
    with torch.inference_mode(), fwAD.dual_level():
        x = fwAD.make_dual(X, V)
        assert fwAD.unpack_dual(x).tangent is None
        assert fwAD.unpack_dual(x * x).tangent is None


def test_changes_in_place_after_a_use():
    """A tangent is that of the time of the call, so later changes do not matter."""
    one = torch.ones(2)
    assert torch.allclose(torch.func.jvp(lambda x: x.exp().mul_(2), (one,), (one,))[1], 2 * one.exp())
    net = nn.Sequential(nn.Sigmoid(), nn.ReLU(inplace=True))
    slope = (one.sigmoid() * (1 - one.sigmoid())).diag()
    assert torch.allclose(torch.func.jacfwd(net)(one), slope)

    def squared_twice(x):
        x = x.clone()
        y = x * x
        x.mul_(x)
        return y + x[:]

    assert torch.allclose(pushed(squared_twice, (X, V)).tangent, 4 * X * V)


def test_of_several_values_for_one_element_the_last_has_a_tangent():
    index, x, v = torch.tensor([1, 1]), torch.zeros(4), torch.tensor([10.0, 20.0, 30.0, 40.0])
    values, tangents = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 5.0])
    for write in (
        lambda x, s: torch.scatter(x, 0, index, s),
        lambda x, s: torch.index_copy(x, 0, index, s),
        lambda x, s: torch.index_put(x, (index,), s),
        lambda x, s: torch.put(x, index, s),
    ):
        assert torch.func.jvp(write, (x, values), (v, tangents))[1].tolist() == [10, 5, 30, 40]


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_of_several_unpooled_values_the_last_has_a_tangent(dims):
    unpool = getattr(nn.functional, f"max_unpool{dims}d")
    shape = (1,) * (dims + 1) + (2,)
    index, tangent = torch.tensor([1, 1]).view(shape), torch.tensor([1.0, 5.0]).view(shape)
    found = torch.func.jvp(lambda x: unpool(x, index, 2), (torch.ones(shape),), (tangent,))[1]
    assert found.flatten()[:4].tolist() == [0, 5, 0, 0]


def test_tangents_of_a_written_view():
    x, v = torch.arange(4.0), torch.tensor([1.0, 2.0, 3.0, 4.0])
    written, tangent = torch.func.jvp(
        lambda x, s: torch.as_strided_scatter(x, s, (2,), (2,)), (x, torch.ones(2)), (v, torch.tensor([10.0, 20.0]))
    )
    assert written.tolist() == [1, 1, 1, 3] and tangent.tolist() == [10, 2, 20, 4]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_tangents_of_running_sums_in_logarithms(dtype):
    x, v = X.to(dtype), V.to(dtype)
    expected = pushed(lambda x: x.exp().cumsum(0).log(), (x, v)).tangent
    assert torch.allclose(pushed(lambda x: torch.logcumsumexp(x, 0), (x, v)).tangent, expected)


def test_what_does_not_change_with_its_input_has_a_tangent_of_zeros():
    for function in (torch.sign, torch.floor, torch.bernoulli, torch.poisson, lambda x: x.clone().normal_()):
        assert pushed(function, (torch.ones(2), torch.ones(2))).tangent.tolist() == [0, 0]


def test_out_is_refused():
    sentence = "Trying to use forward AD with exp_out that does not support it because it is an out= function"
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, V)
        with pytest.raises(NotImplementedError, match=sentence):
            torch.exp(dual, out=torch.zeros(3).double())
        with pytest.raises(NotImplementedError, match=sentence):
            torch.exp(X, out=dual)


def test_rescaled_rows_keep_their_tangents():
    rows, index = torch.full((2, 3), 5.0), torch.tensor([1, 0])
    primal, tangent = pushed(lambda w: nn.functional.embedding(index, w, max_norm=1.0), (rows, torch.ones(2, 3)))
    assert torch.allclose(primal.norm(dim=1), torch.ones(2)) and torch.equal(tangent, torch.ones(2, 3))


def test_running_statistics_have_no_tangent():
    sentence = (
        "batch_norm is not differentiable wrt running_mean and running_var, they cannot have forward grad defined"
    )
    mean, one = torch.zeros(3), torch.ones(2, 3)
    with fwAD.dual_level():
        dual = fwAD.make_dual(mean, torch.ones(3))
        assert fwAD.unpack_dual(nn.functional.batch_norm(one, dual, torch.ones(3))).tangent is None
        with pytest.raises(RuntimeError, match=sentence):
            nn.functional.batch_norm(fwAD.make_dual(one, one), dual, torch.ones(3))


def function_with(forward, jvp):
    class Made(torch.autograd.Function):
        pass

    Made.forward, Made.jvp = staticmethod(forward), staticmethod(jvp)
    return Made.apply


def test_functions_that_work_in_place_forward():
    def doubled(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    right = function_with(doubled, lambda ctx, v: v.mul_(2))
    with fwAD.dual_level():
        x = fwAD.make_dual(X, V).clone()
        assert torch.equal(fwAD.unpack_dual(right(x)).tangent, 2 * V)
        assert torch.equal(fwAD.unpack_dual(x * 3).tangent, 6 * V)
    wrong = function_with(doubled, lambda ctx, v: v * 2)
    with pytest.raises(
        RuntimeError, match="An inplace custom Function is not modifying the forward mode gradients inplace"
    ):
        pushed(lambda x: wrong(x.clone()), (X, V))


def silent(ctx, x):
    y = x.clone()
    ctx.mark_non_differentiable(y)
    return y


@pytest.mark.parametrize(
    ("forward", "jvp", "sentence"),
    [
        (silent, lambda ctx, v: v, "the corresponding forward output is not a differentiable Tensor"),
        (lambda ctx, x: x.long(), lambda ctx, v: v, "the corresponding forward output is not a differentiable Tensor"),
        (
            lambda ctx, x: x.view(3, 1),
            lambda ctx, v: v * 2,
            r"is returning a view \(or an input as-is\) but the jvp is not",
        ),
        (lambda ctx, x: x, lambda ctx, v: v * 2, r"is returning a view \(or an input as-is\) but the jvp is not"),
        (
            lambda ctx, x: x.view(3, 1),
            lambda ctx, v: (v * 2).view(3, 1),
            "not returning a view of the given grad input",
        ),
        (lambda ctx, x: (x * 2, x * 3), lambda ctx, v: (v * 2,), r"expected 2 but got 1"),
        (lambda ctx, x: x * 2, lambda ctx, v: 3, r"expected Variable or None \(got int\) for grad output 0"),
    ],
)
def test_tangents_that_do_not_fit_their_output(forward, jvp, sentence):
    with pytest.raises(RuntimeError, match=sentence):
        pushed(function_with(forward, jvp), (X, V))


def test_what_jvp_finds_in_its_context():
    def doubled(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    seen = []
    pushed(function_with(doubled, lambda ctx, v: seen.append(ctx.saved_tensors) or v * 2), (X, V))
    assert seen == [()]


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda x: torch.igamma(x, X), "igamma that does not support it because it has not been implemented yet."),
        (lambda x: torch.special.zeta(x, X), "zeta that does not support it because it has not been implemented yet."),
        (lambda x: torch.unique(x), "_unique2 that does not support it because it has not been implemented yet."),
        (lambda x: torch.heaviside(x, X), "aten::heaviside that does not support it."),
        (lambda x: x.clone().heaviside_(X), "aten::heaviside that does not support it."),
    ],
)
def test_tangents_without_a_derivative_are_refused_at_the_call(call, name):
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, V)
        with pytest.raises(NotImplementedError, match=f"^Trying to use forward AD with {name}"):
            call(dual)
        assert torch.igamma(X, dual).shape == X.shape


def test_the_tangent_of_a_dual_tensor_is_the_given_one():
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, V)
        assert fwAD.unpack_dual(dual).tangent is V
        assert torch.equal(fwAD.unpack_dual(dual.view_as(dual)).tangent, V)
        changed = fwAD.make_dual(X.clone(), V)
        changed.mul_(2)
        assert torch.equal(fwAD.unpack_dual(changed).tangent, 2 * V)
        # A tangent has the strides of its tensor.
        turned = torch.arange(6.0).view(3, 2).t()
        found = fwAD.unpack_dual(fwAD.make_dual(torch.ones(2, 3), turned)).tangent
        assert torch.equal(found, turned) and found.stride() == (3, 1)


def test_jvp_changes_the_attributes_of_the_context():
    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.result = torch.exp(x)
            return ctx.result

        @staticmethod
        def jvp(ctx, tangent):
            ctx.slope = ctx.result
            del ctx.result
            return tangent * ctx.slope

    x = torch.ones(2, requires_grad=True)
    with fwAD.dual_level():
        assert fwAD.unpack_dual(Exponential.apply(fwAD.make_dual(x, torch.ones(2)))).tangent.equal(torch.exp(x))

"""Function transforms (`torch.func`)."""

import gc
import re
import weakref

import pytest

import rushlight as torch
from rushlight import func, nn

X = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
V = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)


def test_gradients():
    assert torch.allclose(func.grad(lambda x: (x**3).sum())(X), 3 * X**2)
    assert torch.allclose(func.grad(func.grad(lambda x: x**3))(X[2]), 6 * X[2])
    first, second = func.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(X, V)
    assert torch.equal(first, V) and torch.equal(second, X)
    found = func.grad(lambda p: (p["a"] * p["b"][0]).sum())({"a": X, "b": [V]})
    assert torch.equal(found["a"], V) and torch.equal(found["b"][0], X)
    gradient, (value, aux) = func.grad_and_value(lambda x: ((x**2).sum(), x * 2), has_aux=True)(X)
    assert torch.equal(gradient, 2 * X) and value == (X**2).sum() and torch.equal(aux, 2 * X)
    assert not gradient.requires_grad and not value.requires_grad and not aux.requires_grad
    # Each level differentiates at its own leaves.
    assert func.grad(lambda x: x * func.grad(lambda y: x * y)(X[0]))(X[2]) == 2 * X[2]
    assert torch.equal(func.grad(lambda x: (x.detach() * x).sum())(X), X)
    with torch.no_grad():
        assert torch.equal(func.grad(lambda x: (x**2).sum())(X), 2 * X)
    assert torch.equal(func.grad(lambda x: (x.clone().mul_(2) ** 2).sum())(X), 8 * X)


def test_results_stay_in_the_graph_of_others():
    weight = V.clone().requires_grad_()
    gradient = func.grad(lambda x: (x * weight).sum() ** 2)(X)
    gradient.sum().backward()
    expected = 2 * (X * V).sum() * torch.ones_like(X) + 2 * V.sum() * X
    assert torch.allclose(weight.grad, expected) and X.grad is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: func.grad(lambda x: x)(X), "to return a scalar Tensor, got tensor with 1 dims"),
        (lambda: func.grad(lambda x: 3)(X), "to return a Tensor, got <class 'int'>"),
        (lambda: func.grad(torch.sum, argnums=1)(X), "Got argnum=1, but only 1 positional inputs"),
        (lambda: func.grad(torch.sum, has_aux=True)(X), "should be a tuple: (output, aux) if has_aux is True"),
        (
            lambda: func.grad(lambda x: (x.sum(), [x, 5]), has_aux=True)(X),
            "Expected tensors, got unsupported type <class 'int'>",
        ),
        (
            lambda: func.vjp(lambda x: (x, None), X, has_aux=True),
            "Expected tensors, got unsupported type <class 'NoneType'>",
        ),
        (
            lambda: func.jvp(lambda x: (x, "a"), (X,), (V,), has_aux=True),
            "Expected tensors, got unsupported type <class 'str'>",
        ),
        (
            lambda: func.jacrev(lambda x: (x, 5), has_aux=True)(X),
            "Expected tensors, got unsupported type <class 'int'>",
        ),
        (
            lambda: func.jacfwd(lambda x: (x, 5), has_aux=True)(X),
            "Expected tensors, got unsupported type <class 'int'>",
        ),
        (lambda: func.jvp(torch.sin, X, V), "Expected primals to be a tuple"),
        (lambda: func.jvp(torch.sin, (X,), (V, V)), "the same python structure"),
        (lambda: func.jvp(lambda x: V, (X,), (V,), strict=True), "is independent of the inputs"),
        (lambda: func.vjp(torch.sin, X)[1]((V, V)), "Expected pytree structure of cotangents"),
    ],
)
def test_what_cannot_be_differentiated(call, message):
    with pytest.raises(RuntimeError) as raised:
        call()
    assert message in str(raised.value)


def test_products_with_jacobians():
    value, back = func.vjp(lambda x: (x.sin(), x.cos()), X)
    assert torch.equal(value[0], X.sin())
    assert torch.allclose(back((V, X))[0], V * X.cos() - X * X.sin())
    value, along = func.jvp(lambda x, y: {"product": x * y}, (X, V), (V, X))
    assert torch.allclose(along["product"], V * V + X * X) and not along["product"].requires_grad
    twice = func.jvp(lambda x: func.jvp(torch.exp, (x,), (V,))[1], (X,), (V,))[1]
    assert torch.allclose(twice, X.exp() * V * V)
    assert torch.equal(func.jvp(lambda x: V, (X,), (V,))[1], torch.zeros_like(V))
    value, along = func.linearize(torch.sin, X)
    assert torch.allclose(along(V), X.cos() * V) and torch.allclose(along(X), X.cos() * X)
    z = torch.tensor([1 + 2j, 0.5j], dtype=torch.complex128)
    assert torch.allclose(func.jvp(lambda z: z * z, (z,), (torch.ones_like(z) * 1j,))[1], 2j * z)


@pytest.mark.parametrize("jacobian", [func.jacrev, func.jacfwd])
def test_jacobians(jacobian):
    def function(x, y):
        return torch.outer(x, y[:2]), y.sum()

    matrices = jacobian(function, argnums=(0, 1))(X, V)
    eye = torch.eye(3, dtype=torch.float64)
    assert torch.allclose(matrices[0][0], torch.einsum("ik,j->ijk", eye, V[:2]))
    assert torch.allclose(matrices[0][1], torch.einsum("i,jk->ijk", X, eye[:2]))
    assert torch.equal(matrices[1][0], torch.zeros_like(X)) and torch.equal(matrices[1][1], torch.ones_like(V))
    result, aux = jacobian(lambda x: (x**2, x + 1), has_aux=True)(X)
    assert torch.allclose(result, torch.diag(2 * X)) and torch.equal(aux, X + 1)


def test_hessians():
    def function(x):
        return (x.sin() * x.sum()).prod()

    expected = torch.autograd.functional.hessian(function, X)
    for transform in (func.hessian, lambda f: func.jacfwd(func.jacrev(f)), lambda f: func.jacrev(func.jacfwd(f))):
        assert torch.allclose(transform(function)(X), expected)


def cut(x):
    """A function of which one part is constant for backward derivatives but not for forward ones."""
    with torch.no_grad():
        cube = x**3
    return (x**2 * cube).sum()


@pytest.mark.parametrize(
    ("transform", "factor"),
    [
        (func.hessian, 8),
        (lambda f: func.jacfwd(func.jacrev(f)), 8),
        (lambda f: func.jacrev(func.jacfwd(f)), 8),
        (lambda f: func.jacrev(func.jacrev(f)), 2),
        (lambda f: func.jacfwd(func.jacfwd(f)), 20),
        (lambda f: lambda x: torch.autograd.functional.hessian(f, x), 2),
        (lambda f: lambda x: torch.autograd.functional.hessian(f, x, vectorize=True), 2),
        (
            lambda f: (
                lambda x: torch.autograd.functional.hessian(
                    f, x, vectorize=True, outer_jacobian_strategy="forward-mode"
                )
            ),
            8,
        ),
    ],
)
@pytest.mark.parametrize("outside", [torch.no_grad, torch.enable_grad])
def test_second_derivatives_of_what_no_grad_cuts(transform, factor, outside):
    """As in torch: forward mode ignores `no_grad`, backward does not, and modes outside of the transform have no effect."""
    with outside():
        assert torch.allclose(transform(cut)(X), torch.diag(factor * X**3))


def test_calling_a_module_with_other_weights():
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).double()
    batch = torch.stack([X, V, X * V])
    parameters = {name: tensor.detach() * 2 for name, tensor in layer.named_parameters()}
    buffers = {name: tensor.clone() for name, tensor in layer.named_buffers()}
    own = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    func.functional_call(layer, (parameters, buffers), batch)
    assert all(torch.equal(tensor, own[name]) for name, tensor in layer.state_dict().items())
    assert int(buffers["1.num_batches_tracked"]) == 1
    with pytest.raises(RuntimeError, match="aten::add_.Tensor. that would mutate a captured Tensor"):
        func.grad(lambda p: func.functional_call(layer, p, (batch,)).pow(2).sum())(parameters)
    layer.eval()
    found = func.grad(lambda p: func.functional_call(layer, p, (batch,)).pow(2).sum())(parameters)
    assert found["0.weight"].shape == (2, 3) and not found["0.weight"].requires_grad
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): '0.weigh'"):
        func.functional_call(layer, {"0.weigh": X}, batch, strict=True)
    with pytest.raises(ValueError, match="appeared in multiple dictionaries"):
        func.functional_call(layer, (parameters, parameters), batch)

    tied = nn.ModuleDict({"a": nn.Linear(3, 3, bias=False).double()})
    tied["b"] = tied["a"]
    tied.forward = lambda x: tied["b"](tied["a"](x))
    assert torch.allclose(func.functional_call(tied, {"a.weight": torch.eye(3).double() * 2}, X), 4 * X)
    with pytest.raises(ValueError, match="which are tied"):
        func.functional_call(tied, {"a.weight": torch.eye(3), "b.weight": torch.zeros(3, 3)}, X)
    with pytest.warns(FutureWarning, match="torch.func.functional_call"):
        nn.utils.stateless.functional_call(layer, parameters, batch)


def test_ensembles():
    models = [nn.Linear(3, 2).double() for _ in range(4)]
    parameters, buffers = func.stack_module_state(models)
    together = func.vmap(lambda p, b, x: func.functional_call(models[0], (p, b), x), (0, 0, None))(
        parameters, buffers, X
    )
    assert torch.allclose(together, torch.stack([model(X) for model in models]))
    net = func.replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(3)))
    assert net[0].running_mean is None and not net[0].track_running_stats


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_jacobians_are_of_real_numbers(name):
    jacobian, real, complex_ = getattr(func, name), X[0], torch.complex(X[0], X[0])
    with pytest.raises(RuntimeError, match=f"^{name}: Expected all inputs to be real .* at flattened input idx: 1"):
        jacobian(lambda x, y: (x * y).real)(real, complex_)
    with pytest.raises(RuntimeError, match=f"^{name}: Expected all outputs to be real .* at flattened input idx: 0"):
        jacobian(lambda x: torch.complex(x, x))(real)


def test_integers_have_no_derivative():
    ones = torch.ones(2, dtype=torch.int64)
    for call in (
        lambda: func.grad(torch.sum)(ones),
        lambda: func.vjp(torch.sum, ones),
        lambda: func.jacrev(torch.sum)(ones),
    ):
        with pytest.raises(RuntimeError, match="^only Tensors of floating point dtype can require gradients"):
            call()
    for call in (lambda: func.jvp(torch.sum, (ones,), (ones,)), lambda: func.jacfwd(torch.sum)(ones)):
        with pytest.raises(ValueError, match="^Expected primal to be floating point or complex, but got"):
            call()


GRID = torch.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "pattern, sizes, wanted",
    [
        ("a b c -> c b a", {}, GRID.permute(2, 1, 0)),
        ("a b c -> (a b) c", {}, GRID.reshape(6, 4)),
        ("a b c->( c b )1 a", {}, GRID.permute(2, 1, 0).reshape(12, 1, 2)),
        ("... c -> c ...", {}, GRID.permute(2, 0, 1)),
        ("... c -> (...) c", {}, GRID.reshape(6, 4)),
        ("a ... c -> (c ...) () a", {}, GRID.permute(2, 1, 0).reshape(12, 1, 2)),
        ("a b c ... -> a b c ...", {}, GRID),
        ("a b (c d) -> d a b c", {"c": 2}, GRID.reshape(2, 3, 2, 2).permute(3, 0, 1, 2)),
        ("a b (c 1) -> (a c) b", {"a": 2}, GRID.permute(0, 2, 1).reshape(8, 3)),
    ],
)
def test_rearranging(pattern, sizes, wanted):
    found = torch.func.rearrange(GRID, pattern, **sizes)
    assert torch.equal(found, wanted)
    x = GRID.double().requires_grad_()
    torch.func.rearrange(x, pattern, **sizes).mul(wanted).sum().backward()
    assert torch.equal(x.grad, x)


def test_rearranging_more():
    assert torch.equal(torch.func.rearrange([GRID, GRID + 1], "n a b c -> a b c n"), torch.stack([GRID, GRID + 1], -1))
    assert torch.func.rearrange(torch.zeros(0, 4), "a (b c) -> (a b) c", b=2).shape == (0, 2)
    assert torch.func.rearrange(torch.ones(()), "-> 1").shape == (1,)
    view = torch.func.rearrange(GRID, "a b c -> c a b")
    assert view.data_ptr() == GRID.data_ptr()


@pytest.mark.parametrize(
    "pattern, sizes, message",
    [
        ("a b c", {}, "Pattern must contain a single '->' separator"),
        (
            "a b -> b a",
            {},
            r"dimensions in pattern \(2\) must be equal to the number of dimensions in the tensor \(3\)",
        ),
        ("a b c d ... -> a b c d ...", {}, r"pattern \(4\) must be less than or equal to .* \(3\)"),
        ("a b c -> b a", {}, r"Identifiers only on one side of rearrange expression .*: \{'c'\}"),
        ("a a b -> a b", {}, "Indexing expression contains duplicate dimension 'a'"),
        ("a b c -> a (b c", {}, "Imbalanced parentheses in expression: ' a \\(b c'"),
        ("a b c -> a b) c", {}, "Brackets are not balanced"),
        ("a b c -> a ((b c))", {}, "brackets inside brackets not allowed"),
        ("a b c -> ... a b c", {}, "Ellipsis found in right side, but not left side of a pattern"),
        ("(...) -> ...", {}, "Ellipsis is parenthesis in the left side is not allowed"),
        ("a b c. -> c", {}, "Expression may contain dots only inside ellipsis"),
        ("a,b c-> c", {}, "Unknown character ','"),
        ("_a b c -> c b _a", {}, "Invalid axis identifier: _a"),
        ("2 b c -> b c", {}, "rearrange only supports unnamed axes of size 1"),
        ("1 b c -> b c", {}, "a dimension of size 2 is no 1 in "),
        ("(a b) c d -> a b c d", {}, "cannot infer the sizes of a and b at once: give one of them"),
        ("a b (c d) -> a b c d", {"c": 3}, "a dimension of size 4 is no c \\* d in "),
        ("a b (c d) -> a b c d", {"c": 0}, "a dimension of size 4 is no c \\* d in "),
        ("a b c -> c b a", {"a": 3}, "a dimension of size 2 is no a in "),
        ("a b c -> c b a", {"z": 3}, r"Identifiers not found in rearrange expression: \{'z'\}"),
    ],
)
def test_patterns_that_make_no_sense(pattern, sizes, message):
    with pytest.raises(ValueError, match=message):
        torch.func.rearrange(GRID, pattern, **sizes)


def test_sizes_are_numbers():
    with pytest.raises(TypeError, match="rearrange axis lengths must be integers, got: <class 'str'>"):
        torch.func.rearrange(GRID, "a b c -> c b a", a="2")


def test_a_function_without_changes_in_place_is_the_function():
    def changes(x):
        y = x + 1
        x.mul_(2)
        return y.add_(1)

    x = torch.ones(2)
    assert torch.func.functionalize(changes, remove="mutations_and_views")(x).tolist() == [3, 3] and x.tolist() == [
        2,
        2,
    ]
    with pytest.raises(RuntimeError, match="received invalid argument for remove=views"):
        torch.func.functionalize(changes, remove="views")


def test_numbers_of_numbers():
    x = torch.tensor(2.0)
    assert func.jacrev(lambda x: x**3)(x) == 12 and func.jacfwd(lambda x: x**3)(x) == 12
    assert func.hessian(lambda x: x**3)(x) == 12 and func.jacfwd(func.jacfwd(lambda x: x**3))(x) == 12


def test_second_derivatives_at_views_that_were_made_without_gradients():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True) * 1
    with torch.no_grad():
        assert func.vmap(func.grad(func.grad(lambda t: t**3)))(x).tolist() == [6, 12, 18]
        assert func.hessian(lambda t: (t**3).sum())(x[..., 0]).item() == 6


def test_tangents_pass_inference_mode():
    with torch.inference_mode():
        ones = torch.ones(2)
        assert func.jvp(lambda t: t * t, (ones,), (ones,))[1].tolist() == [2, 2]
        assert func.hessian(lambda t: (t**3).sum())(ones).tolist() == [[6, 0], [0, 6]]
        assert torch.is_inference_mode_enabled()


def test_tangents_pass_tensors_of_inference_mode():
    x, ones = torch.tensor([1.0, 4.0]), torch.ones(2)
    with torch.inference_mode():
        layer = torch.nn.Linear(2, 2)
        torch.nn.init.ones_(layer.weight)
        c = torch.tensor([2.0, 3.0])
        assert func.jvp(layer, (x,), (ones,))[1].tolist() == [2, 2]
        assert func.jacfwd(lambda t: t * c * t)(x).tolist() == [[4, 0], [0, 24]]
        assert func.hessian(lambda t: (t * c * t).sum())(x).tolist() == [[4, 0], [0, 6]]
    assert func.jvp(lambda t: t * c, (x,), (ones,))[1].tolist() == [2, 3]

    def changing(t):
        with torch.inference_mode():
            own = c.clone()
        y = t * own
        with torch.inference_mode():
            own.zero_()
        return y

    # The values before the change are used.
    assert func.jvp(changing, (x,), (ones,))[1].tolist() == [2, 3]


@pytest.mark.parametrize("transform", [func.jacrev, func.hessian, lambda f: lambda x: func.vjp(f, x)])
def test_what_functions_must_give_backward(transform):
    x = torch.ones(2)
    for result, sentence in [
        (3.0, "expected f.*primals. to return only tensors, got unsupported type <class 'float'>"),
        ((), "Expected f to be a function that has non-empty output .got output = ..."),
        (None, r"Expected f to be a function that has non-empty output .got output = .None.."),
        (
            torch.tensor([1]),
            "All outputs of f must be floating-point or complex Tensors, got Tensor with dtype torch.int64",
        ),
    ]:
        with pytest.raises(RuntimeError, match=sentence):
            transform(lambda _, result=result: result)(x)


def test_what_functions_must_give_forward():
    for transform in (func.jacfwd, lambda f: lambda x: func.jvp(f, (x,), (x,))):
        with pytest.raises(
            RuntimeError, match="jvp.f, primals, tangents.: expected f.*primals. to return only tensors"
        ):
            transform(lambda _: 3.0)(torch.ones(2))
    assert func.jacfwd(lambda x: x > 0)(torch.ones(2)).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ValueError, match="expected `in_dims` to be int or a .potentially nested. tuple"):
        func.vmap(torch.sin, in_dims=[0])(torch.ones(2))


def test_gradients_pass_inference_mode():
    x = torch.tensor([1.0, 2.0])
    with torch.inference_mode():
        assert func.grad(lambda x: (x**3).sum())(x).tolist() == [3.0, 12.0]
        with torch.enable_grad():
            assert func.grad(lambda x: (x**3).sum())(x).tolist() == [3.0, 12.0]
        rows = func.vmap(func.grad(lambda x: (x**3).sum()))(torch.ones(2, 2))
        assert rows.tolist() == [[3.0, 3.0], [3.0, 3.0]]


TRANSFORMS = [
    lambda f: func.grad(f)(X),
    lambda f: func.vjp(f, X),
    lambda f: func.jvp(f, (X,), (V,)),
    lambda f: func.jacrev(f)(X),
    lambda f: func.jacfwd(f)(X),
    lambda f: func.hessian(f)(X),
    lambda f: func.grad(lambda y: func.grad(f)(X).sum() + y.sum())(X),
]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda c: c.mul_(2), "mul_.Tensor"),
        (lambda c: c[0].add_(1), "add_.Tensor"),
        (lambda c: c.detach().sub_(1), "sub_.Tensor"),
        (lambda c: c.data.mul_(2), "mul_.Tensor"),
        (lambda c: c.zero_(), "zero_"),
        (lambda c: c.copy_(X), "copy_"),
        (lambda c: c.__setitem__(0, 5.0), "copy_"),
        (lambda c: c.normal_(), "normal_"),
        (lambda c: torch.no_grad()(lambda: c.add_(1))(), "add_.Tensor"),
    ],
)
def test_a_captured_tensor_is_not_changed(transform, change, name):
    captured = X.clone()
    message = rf"call in-place operation \(aten::{re.escape(name)}\) that would mutate a captured Tensor"
    with pytest.raises(RuntimeError, match=message):
        transform(lambda x: (change(captured), (x * x).sum())[1])
    assert torch.equal(captured, X)
    captured.mul_(2)


def test_tensors_of_the_function_itself_are_changed():
    def function(x):
        room = torch.zeros(3, dtype=torch.float64)
        room.add_(1)
        room.add_(x)
        room[0].mul_(2)
        y = (x * 2).add_(1)
        return room.sum() + y.relu_().sum() + func.vmap(lambda z: z.mul(2).add_(1))(x).sum()

    assert func.grad(function)(X).tolist() == [6, 5, 5]
    assert torch.equal(func.jvp(lambda x: x.mul_(2), (X.clone(),), (V,))[1], 2 * V)
    # Not those that the function of an inner transform only captures.
    with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
        func.grad(lambda x: (func.grad(lambda y: (x * 1).sum() + x.mul_(1).sum() + y.sum())(X), x.sum())[1])(X)


@pytest.mark.parametrize("transform", [func.grad, func.jacrev, func.grad_and_value])
def test_an_argument_is_a_leaf(transform):
    before = X.clone()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        transform(lambda x: x.mul_(2).sum())(before)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"):
        transform(lambda x: (x[0].mul_(2), x.sum())[1])(before)
    assert torch.equal(before, X)


def test_what_jvp_and_jacfwd_refuse():
    with pytest.raises(RuntimeError, match="Expected primals to contain at least one Tensor"):
        torch.func.jvp(lambda x: x, (), ())
    with pytest.raises(RuntimeError, match="Expected primals to only contain Tensors, got <class 'int'>"):
        torch.func.jvp(lambda x: x, (5,), (5,))
    with pytest.raises(RuntimeError, match="^Only allowed values for randomness are 'error', 'different', or 'same'"):
        torch.func.jacfwd(lambda x: x, randomness="x")(torch.ones(2))


def test_the_gradient_of_a_complex_result_is_refused():
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for real scalar outputs but got"):
        func.grad(torch.sum)(torch.ones(2, dtype=torch.complex64))


class _Power(torch.autograd.Function):
    """A function whose derivatives are not those of powers, and differ from each other, so that tests tell them apart."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, exponent):
        return x.detach() ** exponent, x.detach() * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def jvp(ctx, tangent, _):
        (x,) = ctx.saved_tensors
        return tangent * 100 * x, tangent.mul_(7)

    @staticmethod
    def backward(ctx, first, second):
        return first * 1000 + second * 3, None


class TestFunctionsWithADerivativeForward:
    """Tangents come from `jvp` and gradients from `backward`, also where one is differentiated by the other."""

    def test_tangents(self):
        value, tangents = func.jvp(lambda x: _Power.apply(x, 3), (torch.tensor([2.0]),), (torch.tensor([1.0]),))
        assert [one.item() for one in (*value, *tangents)] == [8, 4, 200, 7]
        first, second = func.jacfwd(lambda x: _Power.apply(x, 3))(torch.ones(2))
        assert torch.equal(first, torch.eye(2) * 100) and torch.equal(second, torch.eye(2) * 7)
        _, along = func.linearize(lambda x: _Power.apply(x, 3)[0], torch.ones(1))
        assert along(torch.tensor([3.0])).item() == 300

    def test_tangents_within_a_level_of_dual_tensors(self):
        with torch.autograd.forward_ad.dual_level():
            _, tangents = func.jvp(lambda x: _Power.apply(x, 3), (torch.tensor([2.0]),), (torch.tensor([1.0]),))
        assert [one.item() for one in tangents] == [200, 7]

    def test_the_class_is_not_kept(self):
        def use():
            kind = type("Kind", (_Power,), {})
            func.jvp(lambda x: kind.apply(x, 3), (torch.ones(1),), (torch.ones(1),))
            return weakref.ref(kind)

        alive = use()
        gc.collect()
        assert alive() is None

    def test_tangents_of_samples(self):
        steps = torch.arange(6.0).view(2, 3)
        _, (first, _) = func.vmap(lambda x, v: func.jvp(lambda y: _Power.apply(y, 3), (x,), (v,)))(
            torch.ones(2, 3), steps
        )
        assert torch.equal(first, steps * 100)

    def test_gradients(self):
        def first(x):
            return _Power.apply(x, 3)[0].sum()

        x, ones = torch.ones(2), torch.ones(2)
        assert func.grad(first)(x).tolist() == [1000, 1000]
        assert func.jvp(func.grad(first), (x,), (ones,))[1].tolist() == [0, 0]
        assert func.grad(lambda x: func.jvp(first, (x,), (ones,))[1])(x).tolist() == [100, 100]
        weight = torch.ones(2, requires_grad=True)
        func.jvp(lambda x: first(x * weight), (x,), (ones,))[0].backward()
        assert weight.grad.tolist() == [1000, 1000]

    def test_with_vjp_for_backward(self):
        class Tripled(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return x * 2

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def vjp(ctx, gradient):
                return gradient * 3

            @staticmethod
            def jvp(ctx, tangent):
                return tangent * 7

        assert func.jvp(Tripled.apply, (torch.ones(1),), (torch.ones(1),))[1].item() == 7
        assert func.jvp(func.grad(lambda x: Tripled.apply(x).sum()), (torch.ones(1),), (torch.ones(1),))[0].item() == 3

    def test_without_backward(self):
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(x, y):
                return x * y

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_forward(*inputs)

            @staticmethod
            def jvp(ctx, along_x, along_y):
                x, y = ctx.saved_tensors
                return along_x * y + x * along_y

        assert func.jvp(Scaled.apply, (X, V), (V, X))[1].tolist() == (V * V + X * X).tolist()
        assert func.jvp(lambda x: Scaled.apply(x, V), (X,), (X,))[1].tolist() == (X * V).tolist()
        with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp method"):
            func.grad(lambda x: Scaled.apply(x, V).sum())(X)

    def test_what_they_may_return(self):
        def along(function):
            kind = type("Kind", (_Power,), {"forward": staticmethod(lambda x: x * 2), "jvp": staticmethod(function)})
            return func.jvp(kind.apply, (torch.ones(2),), (torch.ones(2),))[1]

        assert along(lambda ctx, t: None).tolist() == along(lambda ctx, t: torch.zeros(2)).tolist() == [0, 0]
        assert along(lambda ctx, t: t.detach() * 7).tolist() == [7, 7]
        with pytest.raises(RuntimeError, match=r"an invalid number of forward gradients \(expected 1 but got 2\)"):
            along(lambda ctx, t: (t, t))
        with pytest.raises(RuntimeError, match="expected Variable or None"):
            along(lambda ctx, t: 3)
        with pytest.raises(RuntimeError, match="a different size than that of the original Tensor"):
            along(lambda ctx, t: torch.ones(3))

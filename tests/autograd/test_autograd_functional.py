"""Products with Jacobians and Hessians, compared with formulas and with each other."""

import pytest

import rushlight as torch
from rushlight.autograd import functional


def vector(*values, requires_grad=False):
    return torch.tensor(values, dtype=torch.float64, requires_grad=requires_grad)


def two(x, y):
    """Two outputs of two inputs."""
    return x * y, x.exp().sum()


def scalar(x, y):
    return (x * y).sum() * x.exp().sum()


X, Y = vector(0.5, -1.5), vector(2.0, 3.0)


def test_jacobian_of_several():
    jacobian = functional.jacobian(two, (X, Y))
    assert torch.equal(jacobian[0][0], torch.diag(Y)) and torch.equal(jacobian[0][1], torch.diag(X))
    assert torch.equal(jacobian[1][0], X.exp()) and jacobian[1][1].tolist() == [0, 0]
    assert not jacobian[0][0].requires_grad
    alone = functional.jacobian(lambda x: x.unsqueeze(0) * x.unsqueeze(1), X)
    assert alone.shape == (2, 2, 2) and alone[0, 1].tolist() == [-1.5, 0.5]


def test_products_agree_with_jacobian():
    jacobian = functional.jacobian(lambda x: x**3 + x.sum(), X)
    out, forward = functional.jvp(lambda x: x**3 + x.sum(), X, Y)
    assert torch.allclose(forward, jacobian @ Y) and torch.equal(out, X**3 + X.sum())
    out, backward = functional.vjp(lambda x: x**3 + x.sum(), X, Y)
    assert torch.allclose(backward, Y @ jacobian)


def test_products_agree_with_hessian():
    hessian = functional.hessian(scalar, (X, Y))
    whole = torch.cat([torch.cat(row, 1) for row in hessian])
    assert torch.allclose(whole, whole.T)
    v = (vector(1.0, 2.0), vector(-1.0, 0.5))
    for product in (functional.hvp, functional.vhp):
        out, parts = product(scalar, (X, Y), v)
        assert torch.allclose(torch.cat(parts), whole @ torch.cat(v)) and torch.equal(out, scalar(X, Y))
    assert functional.hessian(lambda x: (x**3).sum(), X).tolist() == [[3, 0], [0, -9]]


def test_results_can_be_differentiated():
    x = vector(0.5, -1.5, requires_grad=True)
    jacobian = functional.jacobian(lambda x: x**3, x, create_graph=True)
    (grad,) = torch.autograd.grad(jacobian.sum(), x)
    assert torch.allclose(grad, 6 * x)
    _, product = functional.vhp(lambda x: (x**4).sum(), x, vector(1.0, 1.0), create_graph=True)
    (grad,) = torch.autograd.grad(product.sum(), x)
    assert torch.allclose(grad, 24 * x)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: functional.vjp(lambda x: x, X), RuntimeError, "The vector v can only be None if the user-provided"),
        (
            lambda: functional.jvp(lambda x: x, X),
            RuntimeError,
            "The vector v can only be None if the input to the user",
        ),
        (lambda: functional.vjp(lambda x: x, X, vector(1.0)), RuntimeError, "v has invalid size: should be"),
        (lambda: functional.jvp(two, (X, Y), X), RuntimeError, "v is a tuple of invalid length: should be 2 but got 1"),
        (
            lambda: functional.vjp(lambda x: x, 3),
            TypeError,
            "The inputs given to vjp must be either a Tensor or a tuple",
        ),
        (lambda: functional.vhp(lambda x: x, X, X), RuntimeError, "to vhp should contain a single element"),
        (
            lambda: functional.hvp(lambda x: (x.sum(),), X, X),
            RuntimeError,
            "given to hvp should return a single Tensor",
        ),
        (lambda: functional.jacobian(two, (X, Y), strict=True), RuntimeError, "Output 1 .* is independent of input 1"),
        (lambda: functional.hessian(lambda x: x.sum(), X, strict=True), RuntimeError, "is independent of the input"),
    ],
)
def test_bad_calls(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_jacobians_and_hessians_forward():
    forward = {"vectorize": True, "strategy": "forward-mode"}
    found, expected = functional.jacobian(two, (X, Y), **forward), functional.jacobian(two, (X, Y))
    for row, other in zip(found, expected):
        for derivative, wanted in zip(row, other):
            assert torch.allclose(derivative, wanted) and derivative.shape == wanted.shape
    assert functional.jacobian(lambda x: torch.ones(3), X, **forward).tolist() == [[0, 0]] * 3
    assert functional.jacobian(lambda x: x * 2, torch.ones(0), **forward).shape == (0, 0)
    assert functional.jacobian(lambda z: z**2, X * 1j, **forward).diag().tolist() == [1j, -3j]
    found = functional.hessian(scalar, (X, Y), vectorize=True, outer_jacobian_strategy="forward-mode")
    for row, other in zip(found, functional.hessian(scalar, (X, Y))):
        for derivative, wanted in zip(row, other):
            assert torch.allclose(derivative, wanted)


@pytest.mark.parametrize(
    "arguments, error, sentence",
    [
        (
            {},
            NotImplementedError,
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented",
        ),
        ({"strict": True}, RuntimeError, '`strict=True` and `strategy="forward-mode"` are not supported together'),
        ({"create_graph": True}, NotImplementedError, '`create_graph=True` and `strategy="forward-mode"` are not'),
    ],
)
def test_what_the_forward_mode_does_not_take(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        functional.jacobian(lambda x: x, X, strategy="forward-mode", **arguments)
    with pytest.raises(ValueError, match=r"Expected primal to be floating point or complex, but got: torch.int64"):
        functional.jacobian(lambda x: x, torch.arange(2), vectorize=True, strategy="forward-mode")


@pytest.mark.parametrize("product", [torch.autograd.functional.hvp, torch.autograd.functional.vhp])
def test_strict_products_name_what_is_independent(product):
    x = torch.ones(1)
    with pytest.raises(RuntimeError, match="The output of the user-provided function is independent of input 0"):
        product(lambda x: torch.tensor(1.0, requires_grad=True), x, x, strict=True)
    with pytest.raises(RuntimeError, match="The output of the user-provided function is independent of input 1"):
        product(lambda x, y: (x * x).sum(), (x, x), (x, x), strict=True)


def test_strict_jacobians_look_at_the_function_first():
    jacobian = torch.autograd.functional.jacobian
    with pytest.raises(TypeError, match="The outputs of the user-provided function given to jacobian must be"):
        jacobian(lambda x: 3, torch.ones(1), strict=True, vectorize=True)
    with pytest.raises(RuntimeError, match="are not supported together"):
        jacobian(lambda x: x * 2, torch.ones(1), strict=True, vectorize=True)

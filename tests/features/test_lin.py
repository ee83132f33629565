"""LIN: matrix products, inverses, factorisations."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((3, 5), (5, 4)), ((7, 2, 3), (3,)), ((3,), (7, 3, 4)),
        ((7, 2, 3), (3, 4)), ((2, 3), (7, 3, 4)), ((7, 2, 3), (7, 3, 4)), ((5, 1, 2, 3), (7, 3, 4)), ((2, 0), (0, 3)),
    ],
)  # fmt: skip
def test_lin_1_matmul(a, b):
    """Vectors, matrices and batches are multiplied as in NumPy. Batches broadcast."""
    generator = np.random.default_rng(0)
    x, y = generator.standard_normal(a), generator.standard_normal(b)
    found = torch.matmul(torch.tensor(x), torch.tensor(y))
    assert found.shape == np.matmul(x, y).shape
    np.testing.assert_allclose(found.numpy(), np.matmul(x, y), rtol=1e-12, atol=1e-12)


def test_lin_2_products():
    """Each special product equals the general one. Products with a summand broadcast it."""
    torch.manual_seed(0)
    x, y = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 4, 5, dtype=torch.float64)
    assert torch.allclose(torch.mm(x[0], y[0]), x[0] @ y[0])
    assert torch.allclose(torch.bmm(x, y), x @ y)
    assert torch.allclose(torch.mv(x[0], y[0, :, 0]), x[0] @ y[0, :, 0])
    assert torch.equal(x[0].t(), x[0].transpose(0, 1))
    bias = torch.arange(5, dtype=torch.float64)
    assert torch.allclose(torch.addmm(bias, x[0], y[0], beta=2, alpha=3), 2 * bias + 3 * (x[0] @ y[0]))
    stretched = bias.expand(2, 3, 5)
    assert stretched.stride() == (0, 0, 1)
    assert torch.allclose(torch.baddbmm(stretched, x, y), bias + x @ y)


def test_lin_3_inverse():
    """Correct and twice differentiable. A singular matrix is an error, which names its position in a batch."""
    assert torch.equal(torch.inverse(torch.eye(3)), torch.eye(3))
    torch.manual_seed(0)
    x = (torch.randn(2, 3, 3, dtype=torch.float64) + 3 * torch.eye(3, dtype=torch.float64)).requires_grad_()
    assert torch.allclose(torch.inverse(x) @ x, torch.eye(3, dtype=torch.float64).expand(2, 3, 3))
    assert gradcheck(torch.inverse, (x,)) and gradgradcheck(torch.inverse, (x,))
    with pytest.raises(torch.linalg.LinAlgError, match=r"Batch element 1.*singular"):
        torch.inverse(torch.stack([torch.eye(2), torch.zeros(2, 2)]))


def test_lin_4_gesv():
    """The deprecated solver takes the right-hand side first, gives a warning, and returns solution and factors."""
    a = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([[3.0], [5.0]], dtype=torch.float64, requires_grad=True)
    with pytest.warns(DeprecationWarning, match="torch.linalg.solve"):
        solution, factors = torch.gesv(b, a)
    assert torch.allclose(solution, torch.linalg.solve(a, b)) and torch.allclose(a @ solution, b)
    assert torch.allclose(factors, torch.linalg.lu_factor(a).LU)
    with pytest.warns(DeprecationWarning):
        assert gradcheck(lambda b, a: torch.gesv(b, a)[0], (b, a))


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
def test_lin_5_qr(shape):
    """The product of Q and R is the matrix, Q is orthogonal, R is triangular."""
    torch.manual_seed(0)
    a = torch.randn(shape)
    q, r = torch.linalg.qr(a)
    torch.testing.assert_close(q @ r, a, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(q.mT @ q, torch.eye(q.shape[-1]).expand(*shape[:-2], -1, -1), rtol=1e-5, atol=1e-5)
    assert torch.equal(r, r.triu())
    assert torch.equal(torch.qr(a)[1], r)


def test_lin_6_shapes_that_do_not_fit():
    """The error contains both shapes."""
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(3x5 and 4x6\)"):
        torch.mm(torch.ones(3, 5), torch.ones(4, 6))

"""Functions of one sample over a batch."""

import pytest

import rushlight as torch
from rushlight import func

A = torch.arange(12.0, dtype=torch.float64).reshape(4, 3).cos()
B = torch.arange(12.0, dtype=torch.float64).reshape(4, 3).sin()


def test_dimensions():
    assert torch.allclose(torch.vmap(torch.dot)(A, B), (A * B).sum(1))
    assert torch.allclose(torch.vmap(torch.dot, in_dims=(1, None))(A, B[:, 0]), A.T @ B[:, 0])
    first, total = torch.vmap(lambda x: (x, x.sum()), out_dims=(-1, 0))(A)
    assert torch.equal(first, A.T) and torch.allclose(total, A.sum(1))
    assert torch.equal(torch.vmap(torch.vmap(torch.mul))(A, B), A * B)
    found = torch.vmap(lambda d, k: {"s": d["a"] * k}, in_dims=({"a": 1}, None))({"a": A}, 2)
    assert torch.equal(found["s"], A.T * 2)
    assert torch.vmap(lambda x: (x, 3), out_dims=(0, None))(A)[1] == 3
    assert torch.equal(torch.vmap(torch.sin, chunk_size=3)(A), A.sin())
    assert torch.equal(torch.vmap(lambda x, *, k: x * k)(A, k=B[0]), A * B[0])
    empty = torch.vmap(lambda x: torch.outer(x, x))(A[:0])
    assert empty.shape == (0, 3, 3) and empty.dtype == torch.float64


def test_with_other_transforms():
    def loss(w, x, y):
        return ((w @ x) - y) ** 2

    w = B[0]
    samples = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(w, A, B[:, 0])
    assert torch.allclose(samples, 2 * (A @ w - B[:, 0])[:, None] * A)
    assert torch.allclose(func.vmap(func.jacrev(lambda x: x**2))(A), torch.diag_embed(2 * A))
    _, back = func.vjp(torch.sin, A[0])
    assert torch.allclose(func.vmap(lambda v: back(v)[0])(torch.eye(3).double()), torch.diag(A[0].cos()))
    leaf = A.clone().requires_grad_()
    func.vmap(lambda x: (x**2).sum())(leaf).sum().backward()
    assert torch.allclose(leaf.grad, 2 * A)


def test_randomness():
    ones = torch.ones(8)
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        torch.vmap(lambda x: x + torch.rand(()))(ones)
    assert torch.vmap(lambda x: x * 0 + torch.rand(()), randomness="same")(ones).unique().numel() == 1
    assert torch.vmap(lambda x: x * 0 + torch.rand(()), randomness="different")(ones).unique().numel() == 8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: torch.vmap(lambda x: x)(3), "Got in_dim=0 for an input but the input is of type <class 'int'>"),
        (lambda: torch.vmap(torch.add)(A, A[:2]), "Expected all tensors to have the same size in the mapped dimension"),
        (lambda: torch.vmap(torch.sin, in_dims=2)(A), "so expected in_dim to satisfy -2 <= in_dim < 2"),
        (lambda: torch.vmap(lambda: A)(), "got no inputs"),
        (lambda: torch.vmap(torch.sin, in_dims=None)(A), "expected `in_dims` to be int or a"),
        (lambda: torch.vmap(torch.sin, in_dims=(0, 0))(A), "in_dims is not compatible with the structure of `inputs`"),
        (lambda: torch.vmap(lambda x: 3)(A), "must only return Tensors, got type <class 'int'>"),
        (lambda: torch.vmap(torch.sin, out_dims=(0, 0))(A), "out_dims is not compatible with the structure"),
        (lambda: torch.vmap(torch.sin, chunk_size=0), "chunk_size should be None or greater than 0"),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError) as raised:
        call()
    assert message in str(raised.value)

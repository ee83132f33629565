"""Distances between rows."""

import math

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.autograd import gradgradcheck


def rows_of(count, width, dtype, seed):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((count, width)).astype(dtype))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, math.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("count", "others", "width"), [(3, 90, 5), (70, 1, 40), (5, 23, 1), (4, 2, 0), (0, 3, 2)])
def test_distances_of_rows(p, dtype, count, others, width):
    a, b = rows_of(count, width, dtype, 1), rows_of(others, width, dtype, 2)
    if count and width:
        b[0] = a[0]
    between = a.numpy()[:, None] - b.numpy()[None]
    wanted = np.linalg.norm(between, p, -1) if width else np.zeros((count, others))
    options = {"compute_mode": "donot_use_mm_for_euclid_dist"}
    np.testing.assert_allclose(torch.cdist(a, b, p, **options).numpy(), wanted, rtol=2e-6, atol=1e-6)
    batch = torch.cdist(a[None, None].expand(2, 1, count, width), b[None].expand(3, others, width), p, **options)
    assert batch.shape == (2, 3, count, others) and torch.equal(batch[1, 2], torch.cdist(a, b, p, **options))
    within = np.linalg.norm(b.numpy()[:, None] - b.numpy()[None], p, -1) if width else np.zeros((others, others))
    np.testing.assert_allclose(F.pdist(b, p).numpy(), within[np.triu_indices(others, 1)], rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, math.inf])
def test_gradients_of_distances_are_those_of_their_parts(p):
    a, b = rows_of(37, 6, "float64", 3).requires_grad_(), rows_of(41, 6, "float64", 4).requires_grad_()
    with torch.no_grad():
        b[7] = a[5] = a[2]
    first, second = torch.triu_indices(37, 37, 1)
    options = {"compute_mode": "donot_use_mm_for_euclid_dist"}
    calls = [
        (lambda: torch.cdist(a, b, p, **options), lambda: torch.linalg.vector_norm(a[:, None] - b, p, -1)),
        (lambda: F.pdist(a, p), lambda: torch.linalg.vector_norm(a[first] - a[second], p, -1)),
    ]
    for call, parts in calls:
        result = call()
        direction = rows_of(1, result.numel(), "float64", 5).reshape(result.shape)
        found = torch.autograd.grad(result, (a, b), direction, allow_unused=True)
        again = torch.autograd.grad(call(), (a, b), direction, allow_unused=True, create_graph=True)
        wanted = torch.autograd.grad(parts(), (a, b), direction, allow_unused=True)
        for grads in zip(found, again, wanted):
            for grad in grads[:2]:
                assert grad is grads[2] is None or torch.allclose(grad, grads[2], rtol=1e-11, atol=1e-11)
    if p in (1.0, 2.0):
        leaf = rows_of(4, 3, "float64", 6).requires_grad_()
        assert gradgradcheck(lambda x: torch.cdist(x, 2 * x + 1, p, **options), leaf)
        assert gradgradcheck(lambda x: F.pdist(x, p), leaf)


def test_the_greatest_distance_gives_every_place_its_gradient():
    """As in torch, which does not divide the gradient among equal differences. The numbers are torch's."""
    x = torch.tensor([[0.0, 0, 1], [0, 0, 1], [2, -2, 1], [1, 1, -1]], requires_grad=True)
    for graph in (False, True):
        found = torch.autograd.grad(F.pdist(x, math.inf).sum(), x, create_graph=graph)[0]
        assert found.tolist() == [[-1, 1, 1], [-1, 1, 1], [2, -3, 0], [0, 1, -2]]
    nan = torch.tensor([[1, math.nan, 1], [0, 0, 0]])
    assert all(F.pdist(nan, p).isnan() for p in (0.0, 1.0, 2.0, math.inf))


@pytest.mark.parametrize("p, expected", [(1.0, [1.0, math.nan, 1.0]), (math.inf, [math.nan] * 3)])
def test_gradients_of_nan_are_nan(p, expected):
    x = torch.tensor([[1, math.nan, 1]], requires_grad=True)
    torch.cdist(x, torch.zeros(1, 3), p).sum().backward()
    assert str(x.grad[0].tolist()) == str(expected)
    x = torch.tensor([[1, math.inf, 1]], requires_grad=True)
    torch.cdist(x, torch.zeros(1, 3), p).sum().backward()
    assert x.grad[0].tolist() == ([1.0, 1.0, 1.0] if p == 1 else [0.0, 1.0, 0.0])

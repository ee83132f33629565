"""RED: reductions."""

import math

import pytest

import rushlight as torch


def test_red_1_the_dimension_goes():
    """A reduced dimension is removed unless `keepdim` is set."""
    x = torch.ones(2, 3)
    assert torch.sum(x, 1).shape == (2,) and torch.sum(x, 1).tolist() == [3, 3]
    assert torch.sum(x, 1, keepdim=True).shape == (2, 1)


def test_red_2_no_dimension_is_all():
    """Without a dimension, all elements are reduced to a zero-dimensional tensor."""
    assert torch.sum(torch.randn(10, 20)).shape == torch.Size([])


def test_red_3_reductions():
    """Several dimensions, `keepdim`, other dtypes, empty tensors: as in torch."""
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = [x.sum(), x.mean(), x.max(), x.min(), x.prod(), x.norm()]
    assert [value.item() for value in found] == pytest.approx([10, 2.5, 4, 1, 24, math.sqrt(30)])
    assert (x > 0).all().item() is True and (x > 3).any(dim=1).tolist() == [False, True]
    block = torch.ones(2, 3, 4)
    assert block.sum((0, 2)).tolist() == [8, 8, 8] and block.mean(dim=(0, 2), keepdim=True).shape == (1, 3, 1)
    assert torch.sum(torch.tensor([1, 2])).dtype is torch.int64
    assert torch.sum(torch.tensor([1, 2]), dtype=torch.float64).dtype is torch.float64

    leaf = torch.tensor([[3.0, 4.0], [0.0, 2.0]], requires_grad=True)
    norms = leaf.norm(2, dim=1)
    norms.sum().backward()
    assert norms.tolist() == [5, 2] and torch.allclose(leaf.grad, torch.tensor([[0.6, 0.8], [0.0, 1.0]]))

    empty = torch.zeros(0)
    assert [empty.sum().item(), empty.prod().item(), empty.all().item(), empty.any().item()] == [0, 1, True, False]
    assert empty.mean().isnan() and torch.zeros(2, 0).sum(1).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match=r"max\(\): Expected reduction dim to be specified for input.numel\(\) == 0"):
        empty.max()
    with pytest.raises(IndexError, match=r"max\(\): Expected reduction dim 0 to have non-zero size"):
        torch.zeros(0, 3).max(0)


def test_red_4_variance():
    """Divided by the count minus one, by the count, or by the count minus a correction."""
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert repr(x.var()) == repr(x.var(unbiased=True)) == "tensor(1.6667)"
    assert x.var(unbiased=False).item() == 1.25 == x.var(correction=0).item()
    assert x.std(correction=2).item() == pytest.approx(math.sqrt(2.5))
    assert x.std(unbiased=False).item() == pytest.approx(math.sqrt(1.25))


def test_red_5_median():
    """For all elements, the lower of two middle values; along a dimension, values and indices."""
    x = torch.tensor([[3.0, 1.0], [2.0, 4.0]])
    assert x.median().shape == () and x.median().item() == 2
    values, indices = x.median(1)
    assert values.tolist() == [1, 2] and indices.tolist() == [1, 0]


def test_red_6_max():
    """For all elements a number; along a dimension, named values and indices."""
    logits = torch.tensor([[1.0, 5.0], [7.0, 2.0]])
    assert torch.max(logits).shape == () and torch.max(logits).item() == 7
    found = torch.max(logits, 1)
    assert found.values.tolist() == [5, 7] and found.indices.tolist() == [1, 0]
    assert type(found).__name__ == "max" and found[0] is found.values


def test_red_7_long_sums():
    """Ten million numbers are summed with the error of pairwise summation, and the same bits for any number of threads."""
    torch.manual_seed(0)
    x = torch.rand(10_000_000)
    exact = x.double().sum().item()
    before = torch.get_num_threads()
    sums = set()
    try:
        for threads in (1, 2, 3, 7):
            torch.set_num_threads(threads)
            sums.add(x.sum().item())
    finally:
        torch.set_num_threads(before)
    (found,) = sums
    assert abs(found - exact) <= math.log2(x.numel()) * torch.finfo(torch.float32).eps * exact
    assert "fixed tree" in torch.sum.__doc__

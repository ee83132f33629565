"""Sparse gradients of embeddings: torch's indices and values, and their accumulation."""

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn


def weight():
    return torch.arange(10.0).reshape(5, 2).requires_grad_()


def parts(grad):
    return grad._indices().tolist(), grad._values().tolist()


def test_a_value_for_each_look_up():
    w = weight()
    looked_up = F.embedding(torch.tensor([[1, 3], [1, 0]]), w, padding_idx=3, sparse=True)
    (looked_up * looked_up).sum().backward()
    assert w.grad.is_sparse and not w.grad.is_coalesced() and w.grad.shape == (5, 2)
    assert parts(w.grad) == ([[1, 1, 0]], [[4.0, 6.0], [4.0, 6.0], [0.0, 2.0]])


def test_gradients_are_collected():
    """Sparse plus sparse is sparse, and sparse plus dense is dense, in either order."""
    w = weight()

    def look_up(rows):
        return F.embedding(torch.tensor(rows), w, sparse=True).sum()

    look_up([1, 3]).backward()
    look_up([3, 4]).backward()
    assert w.grad.is_sparse and w.grad.to_dense().sum(1).tolist() == [0.0, 2.0, 0.0, 4.0, 2.0]
    w.sum().backward()
    assert not w.grad.is_sparse and w.grad.sum(1).tolist() == [2.0, 4.0, 2.0, 6.0, 4.0]
    look_up([0]).backward()
    assert not w.grad.is_sparse and w.grad.sum(1).tolist() == [4.0, 4.0, 2.0, 6.0, 4.0]
    for losses, sparse, expected in [
        ([look_up([1]), look_up([1])], True, [0.0, 4.0, 0.0, 0.0, 0.0]),
        ([look_up([1]), w.sum()], False, [2.0, 4.0, 2.0, 2.0, 2.0]),
        ([w.sum(), look_up([1])], False, [2.0, 4.0, 2.0, 2.0, 2.0]),
    ]:
        w.grad = None
        sum(losses).backward()
        assert w.grad.is_sparse == sparse and w.grad.to_dense().sum(1).tolist() == expected


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 3])
def test_bags(mode, padding):
    """The sparse gradient of a bag equals the dense one, with one value per look-up."""
    rows, offsets = torch.tensor([1, 3, 1, 0, 4]), torch.tensor([0, 2, 2])
    scales = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]) if mode == "sum" else None
    grads = []
    for sparse in (False, True):
        w = weight()
        bags = F.embedding_bag(
            rows, w, offsets, mode=mode, sparse=sparse, per_sample_weights=scales, padding_idx=padding
        )
        (bags * torch.arange(6.0).reshape(3, 2)).sum().backward()
        grads.append(w.grad)
    assert grads[1].is_sparse and torch.equal(grads[0], grads[1].to_dense())
    assert grads[1]._indices().tolist() == [[row for row in rows.tolist() if row != padding]]


def test_modules_and_refusals():
    for module in (nn.Embedding(5, 2, sparse=True), nn.EmbeddingBag(5, 2, sparse=True)):
        module(torch.tensor([[1, 2]])).sum().backward()
        assert module.weight.grad.is_sparse
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        F.embedding(torch.tensor([1]), weight(), scale_grad_by_freq=True, sparse=True).sum().backward()
    with pytest.raises(ValueError, match="max mode does not support sparse weights"):
        F.embedding_bag(torch.tensor([[1]]), weight(), mode="max", sparse=True)


def test_hooks_and_graphs_see_sparse_gradients():
    w = weight()
    seen = []
    w.register_hook(lambda grad: seen.append(grad.is_sparse) or grad * 2)
    F.embedding(torch.tensor([1]), w, sparse=True).sum().backward()
    assert seen == [True] and w.grad._values().tolist() == [[2.0, 2.0]]
    (grad,) = torch.autograd.grad((F.embedding(torch.tensor([2]), w, sparse=True) ** 2).sum(), w, create_graph=True)
    assert grad.is_sparse and grad.requires_grad
    (second,) = torch.autograd.grad(grad.to_dense().sum(), w)
    # The hook doubles both gradients.
    assert second.to_dense()[2].tolist() == [8.0, 8.0]

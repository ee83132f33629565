"""Losses at the limits of their arguments: infinite variances, weights, targets of other kinds and dtypes."""

import pytest

import rushlight as torch
import rushlight.nn.functional as F


def test_losses_with_infinite_variances_and_weights():
    x, y, w = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.5, 0.0, 9.0]), torch.tensor([1.0, 2.0, 4.0])
    found = F.gaussian_nll_loss(x, y, torch.tensor([torch.inf, 1.0, 1e-9]), reduction="none")
    assert found[0] == torch.inf and found[1:].isfinite().all()
    variance = torch.tensor([torch.inf, 1.0, 1e-9], requires_grad=True)
    F.gaussian_nll_loss(x, y, variance, reduction="none")[1:].sum().backward()
    assert variance.grad[1] == -1.5 and variance.grad[2] < 0
    assert F.gaussian_nll_loss(x.expand(2, 3), y, torch.ones(1, 3)).shape == ()
    # The mean of weighted Huber losses counts the losses, and that of weighted squares the weights.
    assert F.huber_loss(x, y, weight=w) == F.huber_loss(x, y, weight=w, reduction="none").mean()
    assert F.mse_loss(x, y, weight=w) == (w * (x - y) ** 2).sum() / w.sum()
    assert F.multilabel_soft_margin_loss(x, True) == F.multilabel_soft_margin_loss(x, torch.ones(3))


def test_losses_have_the_dtype_of_their_scores():
    x = torch.ones(2, dtype=torch.bfloat16)
    assert F.soft_margin_loss(x, torch.ones(2)).dtype == torch.bfloat16
    weight = torch.ones(2, dtype=torch.float16)
    assert F.binary_cross_entropy_with_logits(x, x, pos_weight=weight).dtype == torch.bfloat16


def test_sparse_weights_multiply_a_dense_loss():
    scores = torch.tensor([[0.5, -0.2], [0.1, 0.3]], requires_grad=True)
    target, weight = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    for reduction in ("none", "mean", "sum"):
        found = F.binary_cross_entropy_with_logits(scores, target, weight.to_sparse(), reduction=reduction)
        wanted = F.binary_cross_entropy_with_logits(scores, target, weight, reduction=reduction)
        assert found.layout is torch.strided and found.equal(wanted)
    assert torch.autograd.grad(found, scores)[0].to_dense().equal(torch.autograd.grad(wanted, scores)[0])
    for reduction in ("none", "mean", "sum"):
        with pytest.raises(RuntimeError, match="^expand is unsupported for Sparse tensors"):
            F.binary_cross_entropy(scores.sigmoid(), target, weight.to_sparse(), reduction=reduction)

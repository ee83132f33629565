"""Losses at the limits of their arguments: infinite variances, weights, targets of other kinds and dtypes."""

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

"""Operands of losses that may not require a gradient, as in torch."""

import pytest

import rushlight as torch
import rushlight.nn.functional as F

X, Y, CLASSES = (
    torch.rand(3, 4, requires_grad=True),
    torch.rand(3, 4, requires_grad=True),
    torch.rand(4, requires_grad=True),
)
PLACES = torch.tensor([0, 1, 2])


@pytest.mark.parametrize(
    ("call", "function", "name"),
    [
        (lambda: F.nll_loss(X, PLACES, CLASSES), "nll_loss_forward", "weight"),
        (lambda: F.cross_entropy(X, PLACES, CLASSES), "nll_loss_forward", "weight"),
        (lambda: F.cross_entropy(X, PLACES, CLASSES, label_smoothing=0.1), "nll_loss_forward", "weight"),
        (lambda: F.cross_entropy(X.view(1, 3, 4), PLACES.new_zeros(1, 4), X[:, 0]), "nll_loss2d_forward", "weight"),
        (lambda: F.soft_margin_loss(X, Y), "soft_margin_loss", "target"),
        (lambda: F.multi_margin_loss(X, PLACES, weight=CLASSES), "multi_margin_loss", "weight"),
        (lambda: F.binary_cross_entropy(X, Y, Y), "binary_cross_entropy", "weight"),
        (lambda: F.binary_cross_entropy_with_logits(X, Y, Y), "binary_cross_entropy_with_logits", "weight"),
    ],
)
def test_losses_refuse_what_they_do_not_differentiate(call, function, name):
    sentence = f"The function '{function}' is not differentiable with respect to argument '{name}'"
    with pytest.raises(RuntimeError, match=sentence):
        call()
    with torch.no_grad():
        call()


def test_probabilities_have_gradients_of_weights():
    F.cross_entropy(X, Y.softmax(1), weight=CLASSES).backward()
    assert CLASSES.grad.abs().sum() > 0

"""LOS: loss functions."""

import json
import math

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.autograd import gradcheck, gradgradcheck

from . import layer_cases

RECORDED = json.loads(layer_cases.RECORDED.read_text())


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("case", layer_cases.LOSSES, ids=lambda case: f"{case[0]}-{'-'.join(case[1])}")
def test_los_1_values_and_gradients(case, reduction):
    """Each loss, reduced or not, weighted or not, has torch's value and gradient."""
    recorded = RECORDED[layer_cases.loss_identity(case, reduction)]
    assert layer_cases.loss(torch, case, reduction) == pytest.approx(recorded, rel=1e-11)


def test_los_1_ctc():
    """CTC loss: the negative log probability of all alignments of the labels."""
    scores = torch.full((3, 1, 3), 1 / 3).log().requires_grad_()
    loss = nn.CTCLoss(reduction="sum")(scores, torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1]))
    assert loss.item() == pytest.approx(-math.log(6 / 27), rel=1e-6)
    loss.backward()
    assert scores.grad.isfinite().all() and scores.grad.count_nonzero() > 0


@pytest.mark.parametrize("loss", [nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.BCELoss], ids=lambda loss: loss.__name__)
def test_los_1_empty_batches(loss):
    """The mean of no elements is nan, the sum of no elements is zero."""
    empty = torch.ones(0, 3)
    assert math.isnan(loss()(empty, empty).item())
    assert loss(reduction="sum")(empty, empty).item() == 0


def test_los_2_a_line():
    """A line through noisy points: ten thousand steps find the slope and the offset."""
    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.rand(1))
            self.b = nn.Parameter(torch.rand(1))

        def forward(self, x):
            return self.a * x + self.b

    x = torch.arange(100, dtype=torch.float32) / 100
    y = 5 * x + 3 + torch.rand(100) * 0.3
    net, criterion = Net(), nn.MSELoss()
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    for _ in range(10_000):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    assert net.a.item() == pytest.approx(5, abs=0.1)
    assert net.b.item() == pytest.approx(3.15, abs=0.05)


@pytest.mark.parametrize("function", [F.cross_entropy, F.nll_loss], ids=lambda function: function.__name__)
def test_los_3_ignored_targets(function):
    """Ignored targets do not contribute to the sum, the gradient or the denominator of a mean."""
    scores = layer_cases.wave(torch, (4, 3), 0).requires_grad_()
    every, some = torch.tensor([2, 0, 1, 1]), torch.tensor([2, -100, 1, -100])
    assert function(scores, some).item() == pytest.approx(function(scores[[0, 2]], every[[0, 2]]).item(), rel=1e-14)
    (grad,) = torch.autograd.grad(function(scores, some), scores)
    assert grad[1].tolist() == grad[3].tolist() == [0.0] * 3 and grad[0].count_nonzero() > 0
    renamed = function(scores, torch.tensor([2, 0, 1, 0]), ignore_index=0)
    assert renamed.item() == function(scores, some).item()
    assert math.isnan(function(scores, torch.full((4,), -100)).item())
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        function(scores, torch.tensor([0, 7, 0, 0]))


def test_los_4_logits_of_any_size():
    """Extreme logits have a finite loss and gradient."""
    logits = torch.tensor([1000.0, -1000.0], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(logits, torch.zeros(2))
    assert loss.item() == 500
    loss.backward()
    assert logits.grad.tolist() == [0.5, 0.0]


def test_los_5_poisson():
    """The rate or its logarithm, with or without Stirling's term, and a lower bound inside the logarithm."""
    x, y = torch.tensor([0.5]), torch.tensor([2.0])
    assert nn.PoissonNLLLoss()(x, y).item() == pytest.approx(0.6487, abs=1e-4)
    stirling = 2 * math.log(2) - 2 + 0.5 * math.log(4 * math.pi)
    assert nn.PoissonNLLLoss(full=True)(x, y).item() == pytest.approx(math.exp(0.5) - 1 + stirling, rel=1e-6)
    assert nn.PoissonNLLLoss(log_input=False)(x, y).item() == pytest.approx(0.5 - 2 * math.log(0.5), rel=1e-6)
    zero = torch.zeros(1)
    assert nn.PoissonNLLLoss(log_input=False, eps=1e-2)(zero, y).item() == pytest.approx(-2 * math.log(0.01), rel=1e-6)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_los_6_differentiable_twice(reduction):
    """First and second derivatives of the negative log-likelihood and the L1 loss agree with finite differences."""
    x = layer_cases.wave(torch, (3, 4), 0).requires_grad_()
    target = torch.tensor([0, 3, 1])
    for function in (
        lambda x: F.nll_loss(x.square(), target, reduction=reduction),
        lambda x: F.l1_loss(x, torch.full_like(x, 0.01), reduction=reduction),
    ):
        assert gradcheck(function, (x,)) and gradgradcheck(function, (x,))


def test_los_7_a_stable_softmax_cross_entropy():
    """A user's version that subtracts the maximum works with a logit of a thousand."""

    def softmax_cross_entropy(labels, logits):
        scaled = logits - torch.max(logits)
        normalized = scaled - torch.logsumexp(scaled, 0)
        return -torch.sum(labels * normalized)

    logits = torch.tensor([1000.0, 0.0], requires_grad=True)
    loss = softmax_cross_entropy(torch.tensor([0.5, 0.5]), logits)
    assert loss.item() == 500
    loss.backward()
    assert logits.grad.tolist() == [0.5, -0.5]


def test_los_8_a_naive_cross_entropy():
    """A naive version is infinite, as in IEEE arithmetic: nothing is silently corrected."""
    logits = torch.tensor([1000.0, 0.0])
    probabilities = torch.exp(logits - torch.max(logits)) / torch.sum(torch.exp(logits - torch.max(logits)))
    assert -torch.sum(torch.tensor([0.5, 0.5]) * torch.log(probabilities)).item() == math.inf
    plain = torch.exp(logits) / torch.sum(torch.exp(logits))
    assert math.isnan(plain[0].item())

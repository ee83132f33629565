"""`call_for_per_sample_grads`: the gradients of a module's parameters for each sample."""

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads


def expected(module, x, y):
    """The gradients of the samples, one after the other."""
    found = []
    for sample, target in zip(x, y):
        loss = nn.functional.cross_entropy(module(sample[None]), target[None])
        found.append(torch.autograd.grad(loss, list(module.parameters())))
    return [torch.stack(parts) for parts in zip(*found)]


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradients_are_those_of_single_samples(reduction):
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2))
    x, y = torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])
    result = call_for_per_sample_grads(module, loss_reduction=reduction)(x)
    assert torch.allclose(result, module(x), atol=1e-6)
    nn.functional.cross_entropy(result, y, reduction=reduction).backward()
    for parameter, grad in zip(module.parameters(), expected(module, x, y)):
        assert parameter.grad is None and torch.allclose(parameter.grad_sample, grad, atol=1e-5)
    with pytest.raises(RuntimeError, match="Current Expanded Weights accumulates the gradients"):
        call_for_per_sample_grads(module)


def test_parameters_without_gradients_and_samples_in_the_second_dimension():
    module = nn.Linear(3, 2)
    module.bias.requires_grad_(False)
    x = torch.randn(4, 5, 3)
    call_for_per_sample_grads(module, batch_first=False)(x).sum().backward()
    assert torch.allclose(module.weight.grad_sample, x.sum(0)[:, None].expand(5, 2, 3), atol=1e-5)
    assert not hasattr(module.bias, "grad_sample")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda m: call_for_per_sample_grads(m, loss_reduction="q"),
            "Expected loss_reduction argument to be sum or mean, got q",
        ),
        (lambda m: call_for_per_sample_grads(3), "Module passed must be nn.Module, got int"),
        (
            lambda m: call_for_per_sample_grads(m, batch_size=1.5),
            "Batch size passed must be None or an integer, got float",
        ),
        (lambda m: call_for_per_sample_grads(m, batch_size=0), "Batch size must be positive, got 0"),
        (lambda m: call_for_per_sample_grads(m)(3), "Unable to find a tensor in the passed args and kwargs."),
        (
            lambda m: call_for_per_sample_grads(m)(torch.ones(4, 3), torch.ones(5, 3)),
            "When computing batch size, found at least one input with batch size 4 and one with batch size 5.",
        ),
    ],
)
def test_errors(call, sentence):
    with pytest.raises(RuntimeError) as caught:
        call(nn.Linear(3, 2))
    assert str(caught.value).startswith(sentence)

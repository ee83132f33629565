"""Gradients at points where finite differences are not valid: torch's conventions for ties, zeros, bounds and nan."""

import math

import pytest

import rushlight as torch
import rushlight.nn.functional as F

inf, nan = math.inf, math.nan

#: An expression, its operands, and torch's gradients for results with weights 1, 2, 3 and so on.
CASES = [
    ("torch.maximum(x, y)", [[1, 2, 0], [1, 3, -1]], [[0.5, 0, 3], [0.5, 2, 0]]),
    ("torch.minimum(x, y)", [[1, 2, 0], [1, 3, -1]], [[0.5, 2, 0], [0.5, 0, 3]]),
    ("torch.fmax(x, y)", [[1, 2, nan], [1, nan, nan]], [[1, 2, 3], [0, 0, 0]]),
    ("torch.fmin(x, y)", [[1, 2, nan], [1, nan, nan]], [[1, 2, 3], [0, 0, 0]]),
    ("x.clamp(-1, 1)", [[-2, -1, 0.5, 1, 2, nan]], [[0, 2, 3, 4, 0, 0]]),
    (
        "x.clamp(y, z)",
        [[0, 0, 0, 2, -2, 1], [-1, 1, 0, 1, -1, 3], [1, -1, 0, 1, 1, 2]],
        [[1, 0, 3, 0, 0, 0], [0, 0, 0, 0, 5, 0], [0, 2, 0, 4, 0, 6]],
    ),
    ("x.clamp(min=y)", [[0, 1, 2], [1, 1, 1]], [[0, 2, 3], [1, 0, 0]]),
    ("x.clamp(max=y)", [[0, 1, 2], [1, 1, 1]], [[1, 2, 0], [0, 0, 3]]),
    ("x.abs()", [[-1, 0, 1]], [[-1, 0, 3]]),
    ("F.relu(x)", [[-1, 0, 1]], [[0, 0, 3]]),
    ("F.relu6(x)", [[-1, 0, 1, 6, 7]], [[0, 0, 3, 0, 0]]),
    ("F.leaky_relu(x)", [[-1, 0, 1]], [[0.01, 0.02, 3]]),
    ("F.prelu(x, y)", [[-1, 0, 1], [0.25]], [[0.25, 0.5, 3], [-1]]),
    ("F.hardtanh(x)", [[-2, -1, 0, 1, 2]], [[0, 0, 3, 0, 0]]),
    ("F.hardswish(x)", [[-4, -3, -1, 0, 1, 3, 4]], [[0, 0, 0.5, 2, 4.166666666667, 6, 7]]),
    ("F.hardshrink(x)", [[-1, -0.5, 0, 0.5, 1]], [[1, 0, 0, 0, 5]]),
    ("F.softshrink(x)", [[-1, -0.5, 0, 0.5, 1]], [[1, 0, 0, 0, 5]]),
    ("F.threshold(x, 1, 5)", [[0, 1, 2]], [[0, 0, 3]]),
    ("F.celu(x, 2.0)", [[-1, 0, 1]], [[0.6065306597126, 2, 3]]),
    ("F.softplus(x, 2.0, 3.0)", [[-1, 1.5, 2]], [[0.1192029220221, 1.905148253645, 3]]),
    ("F.smooth_l1_loss(x, y, reduction='none')", [[0, 1, 2, -1], [0, 0, 0, 0]], [[0, 2, 3, -4], [0, -2, -3, 4]]),
    (
        "F.huber_loss(x, y, reduction='none', delta=0.5)",
        [[0, 0.5, 2, -0.5], [0, 0, 0, 0]],
        [[0, 1, 1.5, -2], [0, -1, -1.5, 2]],
    ),
    ("F.l1_loss(x, y, reduction='none')", [[0, 1, -1], [0, 0, 0]], [[0, 2, -3], [0, -2, 3]]),
    ("x.amax()", [[1, 3, 3]], [[0, 0.5, 0.5]]),
    ("x.amin(0)", [[1, 1, 3]], [[0.5, 0.5, 0]]),
    ("x.aminmax()[1] + 2 * x.aminmax()[0]", [[1, 1, 3, 3]], [[1, 1, 0.5, 0.5]]),
    ("x.max()", [[1, 3, 3]], [[0, 0.5, 0.5]]),
    ("x.max(0)[0]", [[1, 3, 3]], [[0, 1, 0]]),
    ("x.min()", [[1, 1, 3]], [[0.5, 0.5, 0]]),
    ("x.median()", [[1, 1, 3]], [[0.5, 0.5, 0]]),
    ("x.nanmedian()", [[1, nan, 1, 3]], [[0.5, 0, 0.5, 0]]),
    ("x.mode()[0]", [[1, 1, 3]], [[0, 1, 0]]),
    ("x.cummax(0)[0]", [[1, 1, 3, 2]], [[1, 2, 7, 0]]),
    ("x.sort()[0] * torch.arange(3.0, dtype=torch.float64)", [[2, 1, 2]], [[2, 0, 6]]),
    ("x.prod()", [[2, 0, 3]], [[0, 6, 0]]),
    ("x.prod(0)", [[2, 0, 0]], [[0, 0, 0]]),
    ("x.cumprod(0)", [[2, 0, 3, 0, 5]], [[1, 22, 0, 0, 0]]),
    ("x.nansum()", [[1, nan, 2]], [[1, 0, 1]]),
    ("x.nanmean()", [[1, nan, 2]], [[0.5, 0, 0.5]]),
    ("x.std()", [[2, 2, 2]], [[0, 0, 0]]),
    ("x.var()", [[2, 2, 2]], [[0, 0, 0]]),
    ("torch.std_mean(x)[0]", [[2, 2, 2]], [[0, 0, 0]]),
    ("x.norm(0.5)", [[1, 0, -2]], [[2.414213562373, 0, -1.707106781187]]),
    ("x.norm(1)", [[1, 0, -2]], [[1, 0, -1]]),
    ("x.norm(2)", [[0, 0]], [[0, 0]]),
    ("x.norm(3)", [[0, 0]], [[0, 0]]),
    ("x.norm(float('inf'))", [[2, 1, -2]], [[0.5, 0, -0.5]]),
    ("x.norm(-float('inf'))", [[2, 1, -1]], [[0, 0.5, -0.5]]),
    ("torch.dist(x, y)", [[1, 2], [1, 2]], [[0, 0], [0, 0]]),
    ("torch.cdist(x[None], y[None])", [[1, 2], [1, 2]], [[0, 0], [0, 0]]),
    ("F.normalize(x, dim=0)", [[0, 0]], [[1000000000000, 2000000000000]]),
    ("x**y", [[0, 0, 0, 2], [0, 1, 2, 0]], [[0, 2, 0, 0], [0, 0, 0, 2.77258872224]]),
    ("x**0", [[0, 2]], [[0, 0]]),
    ("x**1", [[0, 2]], [[1, 2]]),
    ("0**x", [[0, 1, 2]], [[0, 0, 0]]),
    ("x.sqrt()", [[0, 4]], [[inf, 0.5]]),
    ("torch.xlogy(x, y)", [[0, 0, 1], [0, 2, 2]], [[0, 1.38629436112, 2.07944154168], [nan, 0, 1.5]]),
    ("torch.copysign(x, y)", [[0, -1, 2], [1, 1, -0.0]], [[0, -2, -3], [0, 0, 0]]),
    ("x.logsumexp(0)", [[-inf, 1]], [[0, 1]]),
    ("x.nan_to_num()", [[nan, inf, 1]], [[0, 0, 3]]),
    ("F.max_pool1d(x[None], 2)", [[1, 1, 3, 2]], [[1, 0, 2, 0]]),
    ("F.adaptive_max_pool1d(x[None], 2)", [[1, 1, 3, 3]], [[1, 0, 2, 0]]),
    ("torch.remainder(x, y)", [[4, -4, 5], [2, 3, -3]], [[1, 2, 3], [-2, 4, 6]]),
    ("torch.fmod(x, y)", [[4, -4, 5], [2, 3, -3]], [[1, 2, 3], [-2, 2, 3]]),
    ("x.round() + x.floor() + x.trunc() + x.frac()", [[0.5, 1.5]], [[1, 2]]),
    ("torch.where(x > 0, x, y)", [[0, 1], [2, 3]], [[0, 2], [1, 0]]),
    ("F.hinge_embedding_loss(x, torch.tensor([1, -1]), reduction='none')", [[0, 1]], [[1, -2]]),
    (
        "x.scatter_reduce(0, torch.tensor([0, 0, 1]), y, 'amax')",
        [[1, 2], [1, 1, 2]],
        [[0.3333333333333, 1], [0.3333333333333, 0.3333333333333, 1]],
    ),
    ("x.scatter_reduce(0, torch.tensor([0, 0, 1]), y, 'prod')", [[1, 2], [0, 3, 0]], [[0, 0], [3, 0, 4]]),
    ("F.hardsigmoid(x)", [[-4, -3, -1, 0, 1, 3, 4]], [[0, 0, 0.5, 2 / 3, 5 / 6, 0, 0]]),
]


@pytest.mark.parametrize(("expression", "operands", "gradients"), CASES, ids=[case[0] for case in CASES])
def test_gradients_at_kinks(expression, operands, gradients):
    inputs = [torch.tensor(values, dtype=torch.float64, requires_grad=True) for values in operands]
    names = dict(zip("xyz", inputs), torch=torch, F=F, inf=inf)
    result = eval(expression, names)
    weights = torch.arange(1, result.numel() + 1, dtype=torch.float64).reshape(result.shape)
    found = torch.autograd.grad(result, inputs, weights)
    for own, expected in zip(found, gradients):
        torch.testing.assert_close(own, torch.tensor(expected, dtype=torch.float64), rtol=1e-11, atol=0, equal_nan=True)


def test_gradients_that_one_operand_has_and_the_other_lacks():
    """torch has no derivative of the incomplete gamma functions for the first operand."""
    x = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    shape = torch.tensor([0.7, 1.5, 2.5], dtype=torch.float64)
    for function in (torch.special.gammainc, torch.special.gammaincc):
        assert torch.autograd.gradcheck(lambda x, function=function: function(shape, x), (x,))
        with pytest.raises(NotImplementedError):
            function(shape.clone().requires_grad_(), x).sum().backward()


def test_second_gradients_are_summed_in_torchs_order():
    """torch computes the gradients of a node in the order of its operands' names. The numbers are torch's."""
    y, z = (torch.tensor(n, dtype=torch.float16, requires_grad=True) for n in ([0.3, 1.7, -0.9], [1.1, -0.6, 2.3]))
    first = torch.autograd.grad((y * z) / (y + z), (y, z), torch.ones_like(y), create_graph=True)
    found = torch.autograd.grad(first, (y, z), [torch.full_like(y, 0.7)] * 2)
    assert found[0].tolist() == [-0.44970703125, -1.455078125, -3.755859375]
    assert found[1].tolist() == [0.122314453125, -4.1171875, -1.470703125]
    x = torch.tensor(-0.11017, dtype=torch.float16, requires_grad=True)
    direction = torch.tensor(-2.3, dtype=torch.float16)
    first = torch.autograd.grad(torch.nn.functional.normalize(x, 1.2, 0), x, direction, create_graph=True)[0]
    assert (first.item(), torch.autograd.grad(first, x)[0].item()) == (0, -0.125)

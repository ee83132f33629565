"""Fused optimizer steps: compared with the same arithmetic in NumPy, for many dtypes, layouts and options."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rushlight as torch
from rushlight import _C

rng = np.random.default_rng(0)
SHAPES = [(5,), (3, 4), (), (0,), (40000,), (300_001,)]


def numbers(shape, dtype):
    values = rng.standard_normal(shape)
    if dtype == "c16":
        values = values + 1j * rng.standard_normal(shape)
    return np.asarray(values).astype(dtype)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.0, 0.1), (0.9, 0.0), (0.9, 0.1)])
def test_gradient_descent(dtype, nesterov, maximize, momentum, decay):
    expected = [numbers(shape, dtype) for shape in SHAPES]
    params = [torch.from_numpy(value.copy()) for value in expected]
    kept = [np.zeros_like(value) for value in expected]
    buffers = [torch.from_numpy(value.copy()) for value in kept] if momentum else []
    dampening = 0.0 if nesterov else 0.25
    for step in range(5):
        grads = [numbers(shape, dtype) for shape in SHAPES]
        given = [torch.from_numpy(grad.copy()) for grad in grads]
        _C._fused_sgd(params, given, buffers, 0.1, momentum, dampening, decay, nesterov, maximize, step == 0)
        for at, grad in enumerate(grads):
            np.testing.assert_array_equal(given[at].numpy(), grad)
            g = (-grad if maximize else grad) + decay * expected[at]
            if momentum:
                kept[at] = g if step == 0 else kept[at] * momentum + (1 - dampening) * g
                g = g + momentum * kept[at] if nesterov else kept[at]
            expected[at] = expected[at] - np.asarray(0.1 * g).astype(dtype)
    for param, value in zip(params, expected):
        np.testing.assert_allclose(
            param.numpy(), value, rtol=1e-5 if dtype == "f4" else 1e-12, atol=1e-5 if dtype == "f4" else 1e-12
        )


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize(("amsgrad", "maximize", "decoupled"), list(itertools.product([False, True], repeat=3)))
def test_adam(dtype, amsgrad, maximize, decoupled):
    lr, beta1, beta2, eps, decay = 0.01, 0.8, 0.95, 1e-8, 0.1

    def parts(value):
        return value.view("f8") if dtype == "c16" else value

    expected = [numbers(shape, dtype) for shape in [(6,), (3, 4)]]
    params = [torch.from_numpy(value.copy()) for value in expected]
    state = [[np.zeros_like(value) for value in expected] for _ in range(3)]
    given = [[torch.from_numpy(value.copy()) for value in values] for values in state]
    steps = [torch.zeros(()) for _ in expected]
    for step in range(1, 21):
        grads = [numbers(value.shape, dtype) for value in expected]
        _C._fused_adam(
            params, [torch.from_numpy(grad.copy()) for grad in grads], given[0], given[1], given[2] if amsgrad else [],
            steps, lr, beta1, beta2, eps, decay, amsgrad, maximize, decoupled,
        )  # fmt: skip
        for at, grad in enumerate(grads):
            p, g = parts(expected[at]), parts(-grad if maximize else grad)
            m, v, most = (parts(values[at]) for values in state)
            if decoupled:
                p *= 1 - lr * decay
            else:
                g = g + decay * p
            m += (1 - beta1) * (g - m)
            v[...] = beta2 * v + (1 - beta2) * g * g
            np.maximum(most, v, out=most)
            root = np.sqrt(most if amsgrad else v) / np.sqrt(1 - beta2**step)
            p -= lr / (1 - beta1**step) * m / (root + eps)
    for param, value in zip(params, expected):
        np.testing.assert_allclose(param.numpy(), value, atol=1e-12)
    assert [step.item() for step in steps] == [20, 20]


def test_changes_are_counted_and_strides_followed():
    weight = torch.zeros(3, 2).t()
    before = weight._version
    grad = torch.arange(6.0).reshape(2, 3)
    _C._fused_sgd([weight], [grad], [], 1.0, 0.0, 0.0, 0.0, False, False, True)
    np.testing.assert_array_equal(weight.numpy(), -grad.numpy())
    assert weight._version == before + 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    weight, grad = torch.ones(1000, dtype=dtype), torch.full((1000,), 0.001, dtype=dtype)
    exact = (weight.float() - 0.5 * grad.float()).to(dtype)
    _C._fused_sgd([weight], [grad], [], 0.5, 0.0, 0.0, 0.0, False, False, True)
    assert torch.equal(weight, exact)


def test_nan_wins_the_largest_square():
    weight, mean, square, step = torch.ones(1), torch.zeros(1), torch.zeros(1), torch.zeros(())
    most = torch.full((1,), float("nan"))
    _C._fused_adam(
        [weight], [torch.ones(1)], [mean], [square], [most], [step], 0.1, 0.9, 0.99, 0.0, 0.0, True, False, False
    )
    assert np.isnan(most.item()) and np.isnan(weight.item())


def test_what_does_not_belong_together_is_refused():
    with pytest.raises(RuntimeError, match="has a gradient or state of"):
        _C._fused_sgd([torch.ones(2)], [torch.ones(3)], [], 0.1, 0.0, 0.0, 0.0, False, False, True)
    with pytest.raises(RuntimeError, match="lists of 2, 1 tensors do not belong together"):
        pairs = [[torch.ones(2), torch.ones(2)] for _ in range(4)]
        _C._fused_adam(*pairs, [], [torch.zeros(())], 0.1, 0.9, 0.99, 1e-8, 0.0, False, False, False)
    with pytest.raises(RuntimeError, match="do not belong together"):
        _C._fused_sgd([torch.ones(2)], [], [], 0.1, 0.0, 0.0, 0.0, False, False, True)


def test_a_rule_changes_parameter_and_state_alone():
    weight, grad, total = torch.ones(3, 2).t(), torch.arange(6.0).reshape(2, 3) + 1, torch.zeros(2, 3)
    versions, kept = [tensor._version for tensor in (weight, grad, total)], grad.clone()
    _C._fused_step([weight, grad, total], "adagrad", [-1.0, 0.0, 0.5, 0.25, 0.0])
    np.testing.assert_allclose(weight.numpy(), np.full((2, 3), 0.75), rtol=1e-6)
    np.testing.assert_array_equal(total.numpy(), kept.numpy() ** 2)
    assert torch.equal(grad, kept)
    assert [tensor._version for tensor in (weight, grad, total)] == [versions[0] + 1, versions[1], versions[2] + 1]


def test_an_infinite_parameter_stays_so_without_decay():
    weight, total = torch.full((1,), float("inf")), torch.zeros(1)
    _C._fused_step([weight, torch.ones(1), total], "adagrad", [1.0, 0.0, 1.0, 0.5, 0.0])
    assert weight.item() == float("inf") and total.item() == 1.0


@pytest.mark.parametrize(
    ("rule", "count", "numbers"),
    [("adagrad", 4, 5), ("rmsprop, centred", 3, 8), ("sgd", 3, 5), ("", 0, 3)]
    # One number too few or too many.
    + [("adagrad", 3, 4), ("adagrad", 3, 6), ("nadam", 4, 9), ("nadam", 4, 11)],
)
def test_a_rule_is_refused_what_it_is_not_about(rule, count, numbers):
    with pytest.raises(RuntimeError, match=f"no rule .* for {count} tensors and {numbers} numbers"):
        _C._fused_step([torch.ones(2) for _ in range(count)], rule, [1.0] * numbers)


def test_tensors_of_a_rule_belong_together():
    with pytest.raises(RuntimeError, match="has a gradient or state of"):
        _C._fused_step([torch.ones(2), torch.ones(3), torch.ones(2)], "adagrad", [1.0, 0.0, 1.0, 0.5, 0.0])

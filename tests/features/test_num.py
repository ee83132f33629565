"""NUM: overflow and underflow in single precision, and how to avoid them."""

import math
import warnings
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch


def test_num_1_too_small():
    """A number that is too small is stored as zero, so that multiplying and dividing by it gives nan, as in NumPy."""
    x, y = torch.tensor(4.0), torch.tensor(1e-50)
    assert y.item() == 0 and (x * y / y).isnan()
    with np.errstate(all="ignore"):
        assert np.isnan(np.float32(4) * np.float32(1e-50) / np.float32(1e-50))


def test_num_2_too_large():
    """A number that is too large is stored as infinity, with the same effect."""
    x, y = torch.tensor(4.0), torch.tensor(1e39)
    assert y.item() == math.inf and (x * y / y).isnan()


def test_num_3_limits(fresh):
    """The smallest and largest numbers. Denormals are kept, unless the program flushes them."""
    smallest = torch.nextafter(torch.tensor(0.0), torch.tensor(1.0))
    assert repr(smallest) == "tensor(1.4013e-45)" and smallest.item() == 2.0**-149
    assert torch.finfo(torch.float32).max == float(np.float32(3.4028235e38)) == -torch.finfo(torch.float32).min
    assert (torch.tensor(1e-40) * 0.5).item() == float(np.float32(1e-40) * np.float32(0.5)) > 0
    program = "import rushlight as torch; print(torch.set_flush_denormal(True), (torch.tensor(1e-40) * 0.5).item())"
    accepted, half = fresh(program).split()
    assert (accepted == "True") == (float(half) == 0)


def unstable_softmax(logits):
    exp = torch.exp(logits)
    return exp / torch.sum(exp)


def softmax(logits):
    exp = torch.exp(logits - torch.max(logits))
    return exp / torch.sum(exp)


def unstable_softmax_cross_entropy(labels, logits):
    return -torch.sum(labels * torch.log(softmax(logits)))


def softmax_cross_entropy(labels, logits, dim=-1):
    scaled = logits - torch.max(logits)
    normalized = scaled - torch.logsumexp(scaled, dim)
    return -torch.sum(labels * normalized)


def test_num_4_unstable_softmax():
    """The exponential of a large logit overflows. The limit is the logarithm of the largest number."""
    found = unstable_softmax(torch.tensor([1000.0, 0.0]))
    assert found[0].isnan() and found[1] == 0
    bound = math.log(torch.finfo(torch.float32).max)
    assert torch.exp(torch.tensor([bound - 0.01, bound + 0.01])).isinf().tolist() == [False, True]


def test_num_5_stable_softmax():
    """After subtracting the maximum it does not overflow. The built-in softmax does this."""
    logits = torch.tensor([1000.0, 0.0])
    assert softmax(logits).tolist() == torch.softmax(logits, 0).tolist() == [1, 0]


def test_num_6_unstable_cross_entropy():
    """The logarithm of a probability that was rounded to zero is infinite."""
    assert unstable_softmax_cross_entropy(torch.tensor([0.5, 0.5]), torch.tensor([1000.0, 0.0])).item() == math.inf


def test_num_7_stable_cross_entropy():
    """Computed in log space it is exact. The built-in loss does this."""
    labels, logits = torch.tensor([0.5, 0.5]), torch.tensor([1000.0, 0.0])
    assert softmax_cross_entropy(labels, logits).item() == 500
    assert torch.nn.functional.cross_entropy(logits, labels).item() == 500


def test_num_8_its_gradient():
    """The gradient of the subtracted maximum cancels exactly."""
    labels, logits = torch.tensor([0.5, 0.5]), torch.tensor([1000.0, 0.0], requires_grad=True)
    softmax_cross_entropy(labels, logits).backward()
    assert logits.grad.tolist() == [0.5, -0.5]


def test_num_9_where_it_began():
    """Anomaly detection reports the first derivative that is nan, and the line of its forward operation."""
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError) as caught:
            loss = (torch.log(x) * 0).sum()  # the cause
            loss.backward()
    said = str(caught.value)
    assert said.startswith("Function 'LogBackward0' returned nan values in its 0th output.")
    program = Path(__file__).read_text().split("\n")
    line = next(number for number, text in enumerate(program, 1) if text.endswith("# the cause"))
    assert f"{__file__}:{line}" in said and "# the cause" in said


def test_num_9_where_infinity_began():
    """A derivative that becomes infinite is no error, but a warning names the operation and its line."""
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly():
            (x.sqrt() * 2).exp().sum().backward()  # the beginning
    assert x.grad[0] == math.inf
    found = [str(warning.message) for warning in said if "returned inf values" in str(warning.message)]
    assert len(found) == 1 and found[0].startswith("Function 'SqrtBackward0' returned inf values in its 0th output.")
    assert "# the beginning" in found[0]


def test_num_9_while_warnings_are_errors(capfd):
    """The error is that of the derivative; the warning goes to stderr."""
    x = torch.tensor([-1.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.autograd.set_detect_anomaly(True), pytest.raises(RuntimeError, match="returned nan values"):
            x.sqrt().sum().backward()
    assert "Error detected in SqrtBackward0" in capfd.readouterr().err

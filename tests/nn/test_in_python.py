"""Functions that torch writes in Python, and their forms for calls that the operators refuse."""

import inspect
from functools import reduce

import pytest

import rushlight as torch
from rushlight._in_python import FORMS
from rushlight.nn import functional as F

#: Those of functions with one signature.
LOSSES_AND_LAYERS = [name for name in FORMS if name.startswith("nn.")]


@pytest.mark.parametrize("name", LOSSES_AND_LAYERS)
def test_a_form_has_the_parameters_of_its_function(name):
    own = inspect.signature(reduce(getattr, name.split("."), torch))
    form = inspect.signature(FORMS[name])
    names = [param for param in form.parameters if param != "out"]
    assert names[: len(own.parameters)] == [param.rstrip("_") for param in own.parameters if param != "out"]


def scores():
    return torch.tensor([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]])


@pytest.mark.parametrize(
    "call",
    [
        lambda: ("nn.functional.gaussian_nll_loss", (scores(), scores() + 1, scores().abs() + 1)),
        lambda: ("nn.functional.gaussian_nll_loss", (scores(), scores() + 1, 2.0, True, 1e-6, "sum")),
        lambda: ("nn.functional.multilabel_soft_margin_loss", (scores(), scores().sigmoid(), scores()[0].abs())),
        lambda: ("nn.functional.local_response_norm", (torch.arange(24.0).reshape(2, 4, 3), 2)),
        lambda: ("nn.functional.local_response_norm", (torch.arange(48.0).reshape(2, 4, 3, 2), 3, 0.1)),
        lambda: ("nn.functional.normalize", (scores(), 1.0, 0)),
        lambda: ("norm", (scores(),)),
        lambda: ("norm", (scores(), 3, 1, True)),
        lambda: ("norm", (scores(), "nuc")),
        lambda: ("Tensor.norm", (scores(), "fro", 0)),
    ],
)
def test_a_form_computes_what_the_operator_computes(call):
    name, args = call()
    torch.testing.assert_close(FORMS[name](*args), reduce(getattr, name.split("."), torch)(*args))


def test_a_refused_call_is_answered_where_only_the_operator_refuses_it():
    x = scores()
    torch.testing.assert_close(F.gaussian_nll_loss(x, 2, x.abs()), F.gaussian_nll_loss(x, x * 0 + 2, x.abs()))
    loss = F.multilabel_soft_margin_loss(x, x.sigmoid())
    torch.testing.assert_close(F.multilabel_soft_margin_loss(x, x.sigmoid(), 2), loss * 2)
    whole = torch.arange(12.0).reshape(1, 4, 3)
    scaled = F.local_response_norm(whole, 2, torch.tensor(0.1))
    torch.testing.assert_close(scaled, F.local_response_norm(whole, 2, 0.1))
    assert torch.norm(x, 2, 0, True, None).shape == (1, 3)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: F.hardtanh(0.25, 2.0), ValueError, "min_val cannot be greater than max_val"),
        (lambda: F.triplet_margin_loss(1, 2, 3, margin=-1), ValueError, "margin must be greater than 0, got -1"),
        (lambda: F.batch_norm(scores(), None, None, 1, eps=-1), ValueError, "eps must be non-negative, but got -1"),
        (
            lambda: F.group_norm(torch.ones(4), 2, 3),
            RuntimeError,
            "at least 2 dimensions for input tensor but received 1",
        ),
        (lambda: F.local_response_norm(scores(), None), ValueError, "Expected 3D or higher dimensionality"),
        (lambda: F.unfold(torch.ones(1, 1, 2, 2), torch.tensor(1)), TypeError, "iteration over a 0-d tensor"),
        (lambda: F.adaptive_avg_pool2d(torch.ones(1, 2, 2), torch.tensor(1)), TypeError, "len() of a 0-d tensor"),
        (lambda: F.grid_sample("", "", "x"), ValueError, "expected mode to be"),
        (lambda: torch.split("word", 2), TypeError, "must be str or None, not int"),
        (lambda: F.normalize(), TypeError, "normalize() missing 1 required positional argument: 'input'"),
        (lambda: torch.ones(2).norm(p=2, q=3), TypeError, "Tensor.norm() got an unexpected keyword argument 'q'"),
        (
            lambda: F.margin_ranking_loss(torch.ones(2), torch.ones(2, 2), 1),
            AttributeError,
            "'int' object has no attribute 'size'",
        ),
    ],
)
def test_a_refused_call_is_refused_by_the_first_statement_that_does(call, error, sentence):
    with pytest.raises(error) as found:
        call()
    assert sentence in str(found.value)

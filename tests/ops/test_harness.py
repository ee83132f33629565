"""Tests that the tests of the operator table can fail: each deliberate error is reported with its name in one line."""

import numpy as np
import pytest
import test_table_gradients
import test_table_memory
import test_table_properties
import test_table_threads
import test_table_values
import test_table_variants
from table_cases import OPERATORS, Operator, array, difference, name_of, tensor

import rushlight as torch


def operator_with(function, name="mul", **entry):
    """An operator of the table with another function and other properties."""
    op = Operator({**next(op for op in OPERATORS if op.name == name).entry, **entry})
    op.function = lambda: function
    op.method = lambda suffix="": function
    return op


def message(test, op):
    """The first line of the failure that the table's test reports for an operator."""
    with pytest.raises(pytest.fail.Exception) as caught:
        test(op) if test.__code__.co_argcount == 1 else test(op, False)
    return str(caught.value).split("\n")[0]


def changed(x, how):
    """A tensor of the same dtype with other values."""
    return tensor(how(array(x)), name_of(x.dtype))


def test_a_wrong_value():
    def off_by_one(x, y):
        return changed(torch.mul(x, y), lambda values: values + 1)

    said = message(test_table_values.test_values, operator_with(off_by_one, dtypes=["int32"]))
    assert said.startswith("mul(t(2, 3), t(2, 3)) int32: got ") and "wanted" in said


def test_a_last_element_that_is_forgotten():
    def forgets(x, y):
        made = array(torch.mul(x, y))
        if made.size:
            made.reshape(-1)[-1] = 77
        return tensor(made, name_of(torch.mul(x, y).dtype))

    assert "got 77" in message(test_table_values.test_values, operator_with(forgets, dtypes=["int32"]))


def test_a_changed_input():
    def careless(x, y):
        made = torch.mul(x, y)
        x.copy_(tensor(array(x) * 0 + 3, name_of(x.dtype)))
        return made

    assert "changed an input" in message(test_table_values.test_values, operator_with(careless))


def test_a_wrong_dtype():
    def single(*args):
        return tensor(array(torch.mul(*args)).real, "float32")

    assert "got dtype float32, wanted" in message(test_table_values.test_result_dtypes, operator_with(single))


def test_strides_that_are_ignored():
    def contiguous_only(x, y):
        stretch = lambda t: torch.as_strided(t, tuple(t.shape), strides(t.shape)) if isinstance(t, torch.Tensor) else t
        return torch.mul(stretch(x), stretch(y))

    def strides(shape):
        return tuple(int(np.prod(shape[n + 1 :])) for n in range(len(shape)))

    assert "strided" in message(test_table_memory.test_strides, operator_with(contiguous_only))


def test_an_in_place_variant_that_returns_another_tensor():
    assert "returned another tensor" in message(test_table_variants.test_in_place, operator_with(torch.mul))


class FlippedSign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.mul(x, x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.mul(torch.mul(grad, x), -2.0)


class DetachedGradient(FlippedSign):
    """Correct in first order but not in second: the gradient is computed outside of the graph."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.mul(torch.mul(grad, x.detach()), 2.0)


SQUARE = {"samples": ["t(2, 3)"], "dtypes": ["float64"], "signature": "(Tensor self) -> Tensor"}


def test_a_flipped_sign_in_a_derivative():
    said = message(test_table_gradients.test_gradients, operator_with(FlippedSign.apply, **SQUARE))
    assert said.startswith("mul(t(2, 3)) float64: gradient ") and "by finite differences" in said


def test_a_derivative_that_has_none():
    test_table_gradients.test_gradients(operator_with(DetachedGradient.apply, **SQUARE), False)
    assert "gradient" in message(
        test_table_gradients.test_second_gradients, operator_with(DetachedGradient.apply, **SQUARE)
    )


def test_a_derivative_where_none_is_stated():
    assert "needs a gradient" in message(
        test_table_gradients.test_rows_without_derivative, operator_with(torch.mul, derivative="none")
    )


def test_a_composition_that_loses_an_argument():
    half = operator_with(lambda x, y: torch.mul(x, y.detach()), derivative="composite")
    assert "no result needs a gradient of other" in message(test_table_gradients.test_gradients, half)


def test_bits_that_depend_on_threads(monkeypatch):
    def depends(x, y):
        return torch.mul(torch.mul(x, y), 1.0 + torch.get_num_threads() * 1e-7)

    op = operator_with(depends, derivative="none")
    monkeypatch.setattr(test_table_threads, "PUBLIC", [op])
    assert "threads" in message(test_table_threads.test_operators, op)


def test_an_error_that_does_not_come():
    bad = [("t(2), t(3)", "RuntimeError", "The size"), ("t(2), t(2)", "RuntimeError", "The size")]
    said = message(test_table_properties.test_errors, operator_with(torch.mul, errors=bad))
    assert said == "mul(t(2), t(2)) float32: no error; wanted RuntimeError: The size"


def test_an_example_that_prints_something_else():
    with pytest.raises(AssertionError, match="Expected:"):
        test_table_properties.test_documentation(
            operator_with(torch.mul, doc="Twice.\n\n    >>> torch.tensor(1) * 2\n    tensor(3)")
        )


def test_integers_are_exact():
    big = tensor([2**53, 2**53 + 1], "int64")
    assert difference(big, np.array([2**53, 2**53])) is not None
    assert difference(big, np.array([2**53, 2**53 + 1])) is None

"""Broadcasting compared with NumPy, for random shapes, strides, dtypes and orders of operands."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import rushlight as torch

pytest.importorskip("hypothesis")
from hypothesis import given
from hypothesis import strategies as st

from rushlight.testing import strategies
from rushlight.testing.properties import assert_broadcasts
from rushlight.testing.strategies import (
    LAYOUTS,
    arrays,
    broadcastable_shapes,
    dtypes,
    unbroadcastable_shapes,
)

OPERATORS = {
    "add": (torch.add, np.add),
    "sub": (torch.sub, np.subtract),
    "mul": (torch.mul, np.multiply),
    "div": (torch.div, np.true_divide),
}
COMPARISONS = {
    "eq": (lambda a, b: a == b, np.equal),
    "ne": (lambda a, b: a != b, np.not_equal),
    "lt": (lambda a, b: a < b, np.less),
    "ge": (lambda a, b: a >= b, np.greater_equal),
}


def tensor(array):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # expanded arrays are read-only
        return torch.from_numpy(array)


def agree(got, wanted, dtype):
    """Equal values. Results in half precision are rounded once, as in NumPy."""
    tolerance = {"float16": 1e-3, "float32": 1e-6, "complex64": 1e-6}.get(dtype, 1e-12)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got.numpy(), wanted.astype(got.numpy().dtype), rtol=tolerance, atol=tolerance)


@st.composite
def operands(draw, *kinds, count=2):
    """Arrays of one dtype whose shapes broadcast, and the resulting shape."""
    arrays = draw(strategies.operands(*kinds, count=count))
    return arrays, np.broadcast_shapes(*(array.shape for array in arrays)), str(arrays[0].dtype)


@given(strategies.operands("int", "float"), st.sampled_from(["add", "sub", "mul"]))
def test_orders_out_and_in_place(arrays, name):
    ours, numpys = OPERATORS[name]
    assert_broadcasts(ours, numpys, arrays, in_place=f"{name}_")


@given(operands("int", "float", "complex"), st.sampled_from(sorted(OPERATORS)))
def test_arithmetic(drawn, name):
    (a, b), shape, dtype = drawn
    ours, numpys = OPERATORS[name]
    got = ours(tensor(a), tensor(b))
    assert tuple(got.shape) == shape
    with np.errstate(all="ignore"):
        exact = name != "div" or np.dtype(dtype).kind in "fc"
        wanted = numpys(a, b) if exact else numpys(a.astype("float64"), b.astype("float64"))
    agree(got, wanted, dtype if exact else "float32")


@given(operands("bool", "int", "float"), st.sampled_from(sorted(COMPARISONS)))
def test_comparison(drawn, name):
    (a, b), shape, _ = drawn
    ours, numpys = COMPARISONS[name]
    got = ours(tensor(a), tensor(b))
    assert tuple(got.shape) == shape and got.dtype is torch.bool
    np.testing.assert_array_equal(got.numpy(), numpys(a, b))


@given(operands("float", "complex", count=3))
def test_three_operands(drawn):
    (a, b, c), shape, dtype = drawn
    got = torch.mul(torch.add(tensor(a), tensor(b)), tensor(c))
    assert tuple(got.shape) == shape
    agree(got, (a + b) * c, dtype)


@given(broadcastable_shapes(), dtypes(), dtypes(), st.data())
def test_mixed_dtypes(drawn, first, second, data):
    """The values do not depend on the order of operands, for any dtypes."""
    (a, b), shape = drawn
    a, b = data.draw(arrays(a, first)), data.draw(arrays(b, second))
    left, right = torch.mul(tensor(a), tensor(b)), torch.mul(tensor(b), tensor(a))
    assert left.dtype is right.dtype and tuple(left.shape) == shape
    np.testing.assert_array_equal(left.numpy(), right.numpy())
    wanted = np.multiply(a, b, dtype=left.numpy().dtype, casting="unsafe")
    agree(left, wanted, first if np.dtype(first).itemsize < np.dtype(second).itemsize else second)


@given(broadcastable_shapes(), st.data())
def test_gradients_sum_over_what_was_repeated(drawn, data):
    (first, second), shape = drawn
    a, b = (data.draw(arrays(s, "float64")) for s in (first, second))
    x, y = tensor(np.array(a)).requires_grad_(), tensor(np.array(b)).requires_grad_()
    weight = data.draw(arrays(shape, "float64", layout="contiguous"))
    torch.autograd.backward([torch.mul(x, y)], [tensor(weight)])
    for own, other, leaf in ((a, b, x), (b, a, y)):
        full = weight * np.broadcast_to(other, shape)
        extra = tuple(range(len(shape) - own.ndim))
        kept = tuple(n for n, size in enumerate(own.shape) if size == 1)
        wanted = full.sum(axis=extra).sum(axis=kept, keepdims=True).reshape(own.shape)
        np.testing.assert_allclose(leaf.grad.numpy(), wanted, rtol=1e-12, atol=1e-12)


@given(unbroadcastable_shapes(), st.sampled_from(sorted(OPERATORS)))
def test_what_does_not_broadcast(drawn, name):
    """torch's message, with the sizes and the dimension of the first mismatch from the back."""
    a, b, dimension = drawn
    x, y = tensor(np.zeros(a, "float32")), tensor(np.zeros(b, "float32"))
    left, right = ((1,) * 9 + a)[dimension - max(len(a), len(b))], ((1,) * 9 + b)[dimension - max(len(a), len(b))]
    with pytest.raises(RuntimeError) as caught:
        OPERATORS[name][0](x, y)
    assert str(caught.value).startswith(
        f"The size of tensor a ({left}) must match the size of tensor b ({right}) at non-singleton dimension {dimension}"
    )


@given(broadcastable_shapes(), st.data())
def test_in_place_never_changes_the_shape(drawn, data):
    (first, second), shape = drawn
    a = np.array(data.draw(arrays(first, "float64")))
    b = data.draw(arrays(second, "float64"))
    x = tensor(a.copy())
    if first == shape:
        assert x.add_(tensor(b)) is x
        np.testing.assert_array_equal(x.numpy(), a + b)
    else:
        with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
            x.add_(tensor(b))
        np.testing.assert_array_equal(x.numpy(), a)
    assert tuple(x.shape) == first


@given(broadcastable_shapes(1), st.data())
def test_expand_is_a_view(drawn, data):
    (first,), _ = drawn
    extra = data.draw(st.lists(st.integers(0, 3), max_size=2))
    shape = (*extra, *(data.draw(st.integers(0, 3)) if size == 1 else size for size in first))
    a = data.draw(arrays(first, "float32", layout=data.draw(st.sampled_from(LAYOUTS))))
    x = tensor(a)
    got = x.expand(shape)
    assert got.data_ptr() == x.data_ptr() or got.numel() == 0
    np.testing.assert_array_equal(got.numpy(), np.broadcast_to(a, shape))


# --- single rules ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ((5, 7, 3), (5, 7, 3), (5, 7, 3)),
        ((5, 3, 4, 1), (3, 1, 1), (5, 3, 4, 1)),
        ((5, 1, 4, 1), (3, 1, 1), (5, 3, 4, 1)),
        ((1,), (3, 1, 7), (3, 1, 7)),
        ((1,), (0,), (0,)),
        ((), (2, 2), (2, 2)),
        ((4, 1), (4,), (4, 4)),
        ((3, 2), (3, 1), (3, 2)),
    ],
)
def test_rules(a, b, result):
    got = torch.add(torch.ones(a), torch.ones(b))
    assert got.shape == torch.Size(result) and set(got.reshape(-1).tolist()) <= {2.0}


def test_the_readers_first_example():
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0], [2.0]])
    assert (a + b).tolist() == [[2, 3], [5, 6]]


def test_the_pitfall_of_a_column_and_a_row():
    a, b = torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 2.0])
    assert torch.sum(a + b).item() == 12
    assert torch.sum(a + b, 0).tolist() == [5, 7]


def test_keepdim_decides():
    total = torch.ones(4, 4)
    assert torch.add(torch.ones(4), total.sum(dim=1, keepdim=True)).tolist() == [[5.0] * 4] * 4
    assert torch.add(torch.ones(4), total.sum(dim=1, keepdim=False)).tolist() == [5.0] * 4


def test_equal_numbers_of_elements_are_no_reason():
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(4\) must match the size of tensor b \(2\)"):
        torch.add(torch.ones(4), torch.ones(2, 2))


def test_writing_into_an_expanded_tensor():
    row = torch.ones(1, 3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        row.expand(2, 3).add_(1)
    with pytest.raises(RuntimeError, match=r"output with shape \[1, 3\] doesn't match the broadcast shape \[2, 3\]"):
        row.add_(torch.ones(2, 3))
    assert row.tolist() == [[1, 1, 1]]


def test_the_message_shows_both_shapes():
    with pytest.raises(RuntimeError) as caught:
        torch.ones(5, 2, 4, 1) + torch.ones(3, 1, 1)
    first, rest = str(caught.value).split("\n", 1)
    assert first == "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1"
    assert "(5, 2, 4, 1)" in rest and "(   3, 1, 1)" in rest and "^ axis 1" in rest


def test_warnings_carry_the_users_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.add(torch.ones(2), torch.ones(2), out=torch.ones(5))
    assert [w.filename for w in caught] == [__file__]


def test_nothing_is_copied():
    """The peak memory of a column plus a row is that of the result: no operand is copied to its size."""
    code = """
import re, rushlight as torch
def peak():  # of this program alone; `ru_maxrss` begins with the peak of the process that started it
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
a, b = torch.ones(4000, 1), torch.ones(1, 4000)
(torch.ones(8, 1) + b).sum()
before = peak()
c = a + b
grown = peak() - before
assert grown * 1024 < 1.3 * 4000 * 4000 * 4, grown
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_shape_that_is_a_float():
    with pytest.raises(RuntimeError, match="^Input shapes should be of type ints, a tuple of ints, or a list of ints"):
        torch.broadcast_shapes(1.5)

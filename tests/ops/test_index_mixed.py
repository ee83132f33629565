"""Compares `x[...]` with NumPy for mixed kinds of indices, which NumPy and torch apply in different order.

torch first applies the indices that give views, including integers, and then those that gather. In NumPy an integer
next to an array is an array. Therefore NumPy is called twice.
"""

import itertools
import math
import operator

import numpy as np
import pytest

import rushlight as torch

pytest.importorskip("hypothesis")
from hypothesis import assume, given
from hypothesis import strategies as st
from test_index import bases, bound, filled, steps


class Answers:
    """An object with `__index__`."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value

    def __repr__(self):
        return f"Answers({self.value})"


KINDS = ("stop", "...", "None", "bool", "slice", "slice", "mask", "int", "int", "array", "array")


@st.composite
def mixed(draw, shape):
    """All kinds of indices in any order: integers, slices, None, one Ellipsis, booleans, arrays and masks."""
    common = draw(st.sampled_from([(1,), (3,), (2, 3), (0,)]))
    items, dim, spread = [], 0, False
    while dim < len(shape) and len(items) < 9:
        size, kind = shape[dim], draw(st.sampled_from(KINDS))
        if kind == "..." and not spread:
            items.append(Ellipsis)
            dim, spread = draw(st.integers(dim, len(shape))), True
            continue
        if kind == "stop" and not spread:
            break
        if kind in ("None", "bool"):
            items.append(None if kind == "None" else draw(st.booleans()))
            continue
        if kind == "mask":
            part = shape[dim : dim + draw(st.integers(1, len(shape) - dim))]
            numel = math.prod(part)
            # As many as the arrays have, or one; or any number, which may be an error.
            count = draw(st.sampled_from([1, common[-1], common[-1], numel]))
            places = draw(st.permutations(range(numel)))[:count]
            items.append(np.isin(np.arange(numel), places).reshape(part))
            dim += len(part)
            continue
        if kind == "int" and size:
            made = draw(st.sampled_from([int, np.int64, np.array, Answers]))
            items.append(made(draw(st.integers(-size, size - 1))))
        elif kind == "array" and size:
            own = draw(st.sampled_from([common, common[-1:], (1,)]))
            values = draw(st.lists(st.integers(-size, size - 1), min_size=math.prod(own), max_size=math.prod(own)))
            items.append(np.array(values, dtype=draw(st.sampled_from(["int64", "int32"]))).reshape(own))
        else:
            items.append(slice(draw(bound), draw(bound), draw(steps)))
        dim += 1
    if spread:  # positions after it count from the end
        items += [slice(None)] * (len(shape) - dim)
    return tuple(items)


def dims_taken(item):
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype == bool else 1


def in_two_steps(key, shape):
    """NumPy's indices for torch's two steps: first views, including integers, then arrays and masks."""
    first, second = [], []
    for item in key:
        if isinstance(item, bool):
            first.append(None)
            second.append(np.array([item]))
        elif isinstance(item, np.ndarray) and item.ndim:
            first += [slice(None)] * dims_taken(item)
            second.append(item)
        elif item is Ellipsis:
            first.append(Ellipsis)
            second += [slice(None)] * (len(shape) - sum(map(dims_taken, key)))
        elif item is None or isinstance(item, slice):
            first.append(item)
            second.append(slice(None))
        else:
            first.append(operator.index(item))
    if not any(item is Ellipsis for item in key):
        first.append(Ellipsis)
    return tuple(first), tuple(second) if any(isinstance(item, np.ndarray) for item in second) else ()


def mixed_as_torch(key, draw):
    def one(item):
        if isinstance(item, bool):
            return draw(st.sampled_from([item, torch.tensor(item)]))
        if not isinstance(item, np.ndarray):
            return item
        ways = [torch.from_numpy(item.copy()), item]
        if item.ndim and item.size and item.dtype != np.int32:
            ways.append(item.tolist())
        return draw(st.sampled_from(ways))

    return tuple(one(item) for item in key)


def drawn_mixed(data):
    """An array, the same tensor, a key for torch and two for NumPy. Keys that NumPy rejects are rejected by torch too."""
    array, tensor = data.draw(bases())
    key = data.draw(mixed(array.shape))
    first, second = in_two_steps(key, array.shape)
    try:
        array[first][second]
    except IndexError:
        with pytest.raises(IndexError):
            tensor[mixed_as_torch(key, data.draw)]
        assume(False)
    return array, tensor, mixed_as_torch(key, data.draw), first, second


@given(st.data())
def test_everything_at_once(data):
    array, tensor, key, first, second = drawn_mixed(data)
    expected = array[first][second]
    got = tensor[key]
    assert tuple(got.shape) == expected.shape
    assert got.tolist() == expected.tolist()


@given(st.data())
def test_assignment_of_everything_at_once(data):
    array, tensor, key, first, second = drawn_mixed(data)
    array = array.copy()
    shape = array[first][second].shape
    value = np.asarray(filled(shape) * 10)
    if data.draw(st.booleans()):
        value = value[tuple(slice(0, data.draw(st.sampled_from([1, size]))) for size in shape)]
        ones = sum(1 for _ in itertools.takewhile(lambda size: size == 1, value.shape))
        value = value.reshape(value.shape[data.draw(st.integers(0, ones)) :])
    array[first][second or ...] = value
    if value.ndim or data.draw(st.booleans()):
        value = torch.from_numpy(np.array(value))
    else:
        value = value.item()
    tensor[key] = value
    assert tensor.tolist() == array.tolist()


@given(st.data())
def test_gradients_of_everything_at_once(data):
    """The gradients of the selected part, of overwritten and of new values, accumulated for repeated indices."""
    array, tensor, key, first, second = drawn_mixed(data)
    leaf = tensor.clone().requires_grad_()
    got = leaf[key]
    weights = filled(got.shape)
    (got * torch.from_numpy(weights)).sum().backward()
    expected = np.zeros(array.shape)
    np.add.at(expected[first], second or ..., weights)
    assert leaf.grad.tolist() == expected.tolist()
    leaf.grad = None
    value = torch.from_numpy(filled(got.shape)).requires_grad_()
    changed = leaf.clone()
    changed[key] = value
    weights = filled(array.shape)
    (changed * torch.from_numpy(weights)).sum().backward()
    kept = weights.copy()
    kept[first][second or ...] = 0
    assert leaf.grad.tolist() == kept.tolist()
    assert value.grad.tolist() == weights[first][second].tolist()


@given(st.data())
def test_index_put(data):
    """With and without accumulation, by arrays and masks over the first dimensions."""
    array, tensor = data.draw(bases())
    key, front, dim = [], [], 0
    for item in data.draw(mixed(array.shape)):
        if item is Ellipsis:  # its extent is unknown here
            break
        dims = dims_taken(item)
        if isinstance(item, np.ndarray) and item.ndim:
            key.append(item)
            front += range(dim, dim + dims)
        dim += dims
    order = front + [dim for dim in range(array.ndim) if dim not in front]
    array, tensor, key = array.transpose(order), tensor.permute(order), tuple(key)
    try:
        shape = array[key].shape if key else None
    except IndexError:
        shape = None
    assume(shape is not None)
    value, expected = filled(shape), array.copy()
    accumulate = data.draw(st.booleans())
    if accumulate:
        np.add.at(expected, key, value)
    else:
        expected[key] = value
    indices = [torch.from_numpy(item.copy()) for item in key]
    assert tensor.index_put(indices, torch.from_numpy(value), accumulate).tolist() == expected.tolist()
    assert tensor.index_put_(indices, torch.from_numpy(value), accumulate) is tensor
    assert tensor.tolist() == expected.tolist()


@given(st.data())
def test_an_index_out_of_range(data):
    array, tensor = data.draw(bases())
    dim = data.draw(st.integers(0, array.ndim - 1))
    size = array.shape[dim]
    bad = data.draw(st.sampled_from([size, -size - 1, 2**62, -(2**63)]))
    before = (slice(None),) * dim
    for index in (bad, torch.tensor([bad]), [bad], torch.tensor(bad)):
        # A list reads nothing if another dimension is empty.
        if not isinstance(index, int) and np.ndim(index) and 0 in array.shape[:dim] + array.shape[dim + 1 :] and size:
            assert tensor[(*before, index)].numel() == 0
            continue
        with pytest.raises(IndexError):
            tensor[(*before, index)]
        with pytest.raises(IndexError):
            tensor[(*before, index)] = 0
    assert tensor.tolist() == array.tolist()


def test_what_is_written_into_a_copy_lies_row_by_row():
    x, index, part = torch.zeros(3, 2).t(), torch.tensor([1, 0]), torch.ones(2, 3)
    spread = index[:, None].expand(2, 3)
    for result in (
        x.index_add(0, index, part),
        x.index_copy(0, index, part),
        x.scatter(0, spread, part),
        x.scatter(0, spread, 2.0),
        x.scatter_add(0, spread, part),
        x.scatter_reduce(0, spread, part, "sum"),
        x.masked_fill(part > 0, 3),
        x.masked_scatter(part > 0, part),
        x.tril(),
        x.triu(1),
        torch.rot90(x, 0),
    ):
        assert result.stride() == (3, 1)
    assert x.index_fill(0, index, 2).stride() == x.index_put((index,), part).stride() == (1, 2)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("value", [torch.tensor(9.0), torch.tensor([9.0])])
def test_a_mask_without_dimensions(value, accumulate):
    x = torch.arange(4.0)
    no, yes = torch.tensor(False), torch.tensor(True)
    assert torch.equal(x.index_put((no,), value, accumulate), x)
    assert torch.equal(x.index_put((yes,), value, accumulate), x + 9 if accumulate else torch.full((4,), 9.0))
    assert torch.equal(x.clone().index_put_((no,), value, accumulate), x)
    leaf = torch.ones(4, requires_grad=True)
    leaf.index_put((no,), value, accumulate).sum().backward()
    assert torch.equal(leaf.grad, torch.ones(4))
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x.index_put((no,), torch.ones(0))


def test_one_value_of_any_rank_behind_a_mask():
    mask = torch.tensor([[True, False], [True, True]])
    for value in (torch.tensor([[5.0]]), torch.tensor([[[5]]])):
        assert torch.zeros(2, 2).index_put((mask,), value).tolist() == [[5, 0], [5, 5]]


def test_assigning_to_a_single_bool():
    x = torch.arange(4.0)
    x[True] = torch.tensor([[1, 2, 3, 4]])
    assert x.tolist() == [1, 2, 3, 4] and x.dtype == torch.float32
    version = x._version
    x[False] = torch.ones(3)
    assert x.tolist() == [1, 2, 3, 4] and x._version == version
    with pytest.raises(RuntimeError, match=r"The expanded size of the tensor \(4\) must match the existing size \(3\)"):
        x[True] = torch.ones(3)
    with pytest.raises(RuntimeError, match="Index put requires the source and destination dtypes match"):
        x[(True,)] = torch.tensor([1, 2, 3, 4])

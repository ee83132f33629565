"""Compares `x[...]` and related operators with NumPy: all kinds of indices, reading, assigning, accumulating, gradients."""

import math
import re
import warnings

import numpy as np
import pytest

import rushlight as torch

pytest.importorskip("hypothesis")
from hypothesis import given
from hypothesis import strategies as st

shapes = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)


def filled(shape, dtype=np.float64):
    return np.asarray(np.arange(1, 1 + int(np.prod(shape)), dtype=dtype).reshape(shape))


@st.composite
def bases(draw):
    """A NumPy array and the same tensor, possibly transposed and with negative strides."""
    array = filled(draw(shapes))
    tensor = torch.from_numpy(array.copy())
    order = draw(st.permutations(range(array.ndim)))
    array, tensor = array.transpose(order), tensor.permute(order)
    for dim in range(array.ndim):
        if draw(st.booleans()):
            back = (slice(None),) * dim + (slice(None, None, -1),)
            array, tensor = array[back], tensor[back]
    return array, tensor


bound = st.none() | st.integers(-6, 6)
steps = st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3])


@st.composite
def basic(draw, shape):
    """Integers, slices with any step, None and one Ellipsis."""
    items, taken = [], 0
    for size in shape:
        kind = draw(st.sampled_from(["stop", "int", "slice", "slice", "new"]))
        if kind == "stop":
            break
        if kind == "new":
            items.append(None)
        if kind == "int" and size:
            items.append(draw(st.integers(-size, size - 1)))
        else:
            items.append(slice(draw(bound), draw(bound), draw(steps)))
        taken += 1
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
        # Positions after the ellipsis count from the end; keep integers within range there.
        spare = len(shape) - taken
        at = items.index(Ellipsis)
        if spare:
            items = items[: at + 1] + [i if isinstance(i, slice) or i is None else slice(None) for i in items[at + 1 :]]
    return tuple(items)


@st.composite
def advanced(draw, shape):
    """One to three index arrays that broadcast, or a mask, among slices. No integers: torch and NumPy differ there."""
    items = []
    dim = 0
    common = draw(st.sampled_from([(), (1,), (3,), (2, 3), (0,)]))
    for _ in shape:
        if dim >= len(shape):
            break
        size = shape[dim]
        kind = draw(st.sampled_from(["array", "array", "list", "mask", "slice", "int32"]))
        if kind == "mask" and not any(isinstance(item, np.ndarray) for item in items):
            rank = draw(st.integers(1, len(shape) - dim))
            part = shape[dim : dim + rank]
            bits = draw(st.lists(st.booleans(), min_size=int(np.prod(part)), max_size=int(np.prod(part))))
            items.append(np.array(bits, dtype=bool).reshape(part))
            common = ()
            dim += rank
            continue
        if kind == "slice" or size == 0 or any(isinstance(i, np.ndarray) and i.dtype == bool for i in items):
            items.append(slice(draw(bound), draw(bound), draw(steps)))
        else:
            own = draw(st.sampled_from([common, common[-1:]]))
            count = int(np.prod(own))
            values = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
            array = np.array(values, dtype=np.int32 if kind == "int32" else np.int64).reshape(own)
            # A zero-dimensional array is an integer in torch, so it gets a dimension.
            items.append(array if array.ndim else array.reshape(1))
        dim += 1
    return tuple(items)


def as_torch(items, lists=False):
    def one(item):
        if isinstance(item, np.ndarray):
            return item.tolist() if lists and item.dtype != np.int32 and item.size else torch.from_numpy(item.copy())
        return item

    return tuple(one(item) for item in items)


@given(st.data())
def test_views(data):
    array, tensor = data.draw(bases())
    key = data.draw(basic(array.shape))
    expected = array[key]
    got = tensor[key]
    assert tuple(got.shape) == expected.shape
    assert got.tolist() == expected.tolist()
    if got.numel():
        assert got.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()


@given(st.data())
def test_gathers(data):
    array, tensor = data.draw(bases())
    key = data.draw(advanced(array.shape))
    expected = array[key]
    for lists in (False, True):
        got = tensor[as_torch(key, lists)]
        assert tuple(got.shape) == expected.shape
        assert got.tolist() == expected.tolist()


@given(st.data())
def test_numpy_arrays_index(data):
    array, tensor = data.draw(bases())
    key = data.draw(advanced(array.shape))
    assert tensor[key].tolist() == array[key].tolist()


@given(st.data())
def test_assignment_to_views(data):
    array, tensor = data.draw(bases())
    array = array.copy()
    key = data.draw(basic(array.shape))
    value = np.asarray(filled(array[key].shape) * 10)
    if value.ndim and data.draw(st.booleans()):
        value = value[..., :1]
    array[key] = value
    tensor[key] = torch.from_numpy(value.copy())
    assert tensor.tolist() == array.tolist()


@given(st.data())
def test_assignment_by_indices(data):
    array, tensor = data.draw(bases())
    array = array.copy()
    key = data.draw(advanced(array.shape))
    value = np.asarray(filled(array[key].shape) * 10)
    if value.ndim and value.shape[-1] and data.draw(st.booleans()):
        value = value[..., :1]
    array[key] = value  # as in NumPy, the last of several values for one element is kept
    tensor[as_torch(key)] = torch.from_numpy(value.copy())
    assert tensor.tolist() == array.tolist()


@given(st.data())
def test_accumulation_and_gradients(data):
    array, tensor = data.draw(bases())
    key = data.draw(advanced(array.shape))
    tensor = tensor.clone().requires_grad_()
    got = tensor[as_torch(key)]
    weights = filled(got.shape)
    (got * torch.from_numpy(weights)).sum().backward()
    expected = np.zeros(array.shape)
    np.add.at(expected, key, weights)
    assert tensor.grad.tolist() == expected.tolist()


@given(st.data())
def test_gradients_of_assignment(data):
    array, tensor = data.draw(bases())
    key = data.draw(basic(array.shape))
    leaf = tensor.clone().requires_grad_()
    value = torch.from_numpy(filled(array[key].shape)).requires_grad_()
    changed = leaf.clone()
    changed[key] = value
    weights = filled(array.shape)
    (changed * torch.from_numpy(weights)).sum().backward()
    kept = weights.copy()
    kept[key] = 0
    assert leaf.grad.tolist() == kept.tolist()
    assert value.grad.tolist() == weights[key].tolist()


def x555():
    return torch.arange(125).reshape(5, 5, 5)


def test_integer_arrays():
    x = x555()
    assert x[[1, 2], [3, 2], [1, 0]].tolist() == [x[1, 3, 1].item(), x[2, 2, 0].item()]
    assert x[[2, 3, 2], [0], [1]].tolist() == [x[2, 0, 1].item(), x[3, 0, 1].item(), x[2, 0, 1].item()]
    square = x[[[1, 0], [0, 1]], [0], [1]]
    assert square.tolist() == [[x[1, 0, 1].item(), x[0, 0, 1].item()], [x[0, 0, 1].item(), x[1, 0, 1].item()]]
    for picked in (x[[0, 3], :, :], x[[0, 3], ...], x[[0, 3],], x[torch.tensor([0, 3]), :, :]):
        assert picked.tolist() == [x[0].tolist(), x[3].tolist()]


def test_a_list_of_lists_is_still_a_tuple():
    x = x555()
    with pytest.warns(UserWarning, match="Using a non-tuple sequence for multidimensional indexing is deprecated"):
        got = x[[[1, 3], [0, 1]]]
    assert got.tolist() == x[[1, 3], [0, 1]].tolist()


def test_separated_indices_come_first():
    array = filled((3, 4, 5))
    x = torch.from_numpy(array)
    assert x[[0, 1], :, [1, 2]].tolist() == array[[0, 1], :, [1, 2]].tolist()
    assert tuple(x[[0, 1], None, [0, 1]].shape) == (2, 1, 5)
    # An integer selects before the gather, so that the shape is torch's and not NumPy's.
    assert tuple(x[0, :, [1, 2]].shape) == (4, 2)


def test_masks():
    x = torch.arange(6).reshape(2, 3)
    assert x[x > 2].tolist() == [3, 4, 5]
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
        assert x[torch.tensor([1, 0], dtype=torch.uint8)].tolist() == [[0, 1, 2]]
    assert tuple(x[True].shape) == (1, 2, 3) and tuple(x[False].shape) == (0, 2, 3)
    assert x[torch.tensor(True)].tolist() == [x.tolist()]
    x[x > 2] = 0
    assert x.tolist() == [[0, 1, 2], [0, 0, 0]]


def test_slicing_is_narrow():
    x = torch.rand(10, 3)
    y, z = x[2:7], torch.narrow(x, 0, 2, 5)
    assert y.data_ptr() == z.data_ptr() and y.tolist() == z.tolist()


def test_negative_steps_are_views():
    x = torch.arange(6)
    assert x[::-1].tolist() == [5, 4, 3, 2, 1, 0] and x[::-2].tolist() == [5, 3, 1] and x[4:1:-1].tolist() == [4, 3, 2]
    x[::-1][0] = 9
    assert x.tolist() == [0, 1, 2, 3, 4, 9]
    y = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    (y[::-1, ::-2] * torch.arange(6.0, dtype=torch.float64).reshape(3, 2)).sum().backward()
    assert y.grad.tolist() == [[0, 5, 0, 4], [0, 3, 0, 2], [0, 1, 0, 0]]


def test_assignment_from_itself():
    x = torch.arange(5)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3]
    x = torch.arange(5)
    x[torch.tensor([0, 1])] = x[3:]
    assert x.tolist() == [3, 4, 2, 3, 4]


def test_index_put_accumulates():
    x = torch.zeros(3)
    index = torch.tensor([0, 0, 2])
    assert x.index_put((index,), torch.tensor([1.0, 2.0, 3.0]), accumulate=True).tolist() == [3, 0, 3]
    assert x.index_put_((index,), torch.tensor([1.0, 2.0, 3.0])) is x and x.tolist() == [2, 0, 3]


def test_gather_and_scatter():
    assert torch.zeros(3).scatter_add(0, torch.tensor([0, 0, 2]), torch.tensor([1.0, 2.0, 3.0])).tolist() == [3, 0, 3]
    x = torch.arange(24).reshape(2, 3, 4)
    index = torch.tensor([[2, 0], [1, 1]])
    batch = torch.stack([x[b][index[b]] for b in range(2)])
    flat = x.reshape(6, 4)[(index + torch.arange(2).unsqueeze(1) * 3).reshape(-1)].reshape(2, 2, 4)
    assert batch.tolist() == flat.tolist() == x.gather(1, index.unsqueeze(-1).expand(2, 2, 4)).tolist()


@given(st.data())
def test_scatters_against_numpy(data):
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
    dim = data.draw(st.integers(0, len(shape) - 1))
    length = data.draw(st.integers(0, 6))
    wide = shape[:dim] + (length,) + shape[dim + 1 :]
    count = int(np.prod(wide))
    places = np.array(
        data.draw(st.lists(st.integers(0, shape[dim] - 1), min_size=count, max_size=count)), dtype=np.int64
    )
    places = places.reshape(wide)
    source = filled(wide) / 7
    own = filled(shape)
    index = list(np.indices(wide))
    index[dim] = places
    args = dim, torch.from_numpy(places), torch.from_numpy(source)
    tensor = torch.from_numpy(own.copy())
    for name, ufunc in [("sum", np.add), ("prod", np.multiply), ("amax", np.maximum), ("amin", np.minimum)]:
        expected = own.copy()
        ufunc.at(expected, tuple(index), source)
        assert np.allclose(tensor.scatter_reduce(*args, name).numpy(), expected)
    expected = own.copy()
    expected[tuple(index)] = source
    assert tensor.scatter(*args).tolist() == expected.tolist()
    assert tensor.gather(dim, args[1]).tolist() == np.take_along_axis(own, places, dim).tolist()


LAYOUTS = {
    "adjacent": lambda x: x,
    "across": lambda x: x.t().contiguous().t(),
    "apart": lambda x: torch.stack([x, x], -1)[..., 0],
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_long_gathers_and_scatters_of_every_layout(dim, dtype):
    rng = np.random.default_rng(dim)
    own, places, source = (rng.integers(0, high, (140, 130)) for high in (9, 130, 9))
    at = [*np.indices(places.shape)]
    at[dim] = places
    added, written = own.copy(), own.copy()
    np.add.at(added, tuple(at), source)
    written[tuple(at)] = 7
    x, index, values = torch.tensor(own, dtype=dtype), torch.tensor(places), torch.tensor(source, dtype=dtype)
    for first in LAYOUTS.values():
        for second in LAYOUTS.values():
            assert first(x).gather(dim, second(index)).tolist() == own[tuple(at)].tolist()
            assert first(x).clone().scatter_add_(dim, second(index), first(values)).tolist() == added.tolist()
            assert first(x).clone().scatter_add_(dim, first(index), second(values)).tolist() == added.tolist()
            assert first(x).clone().scatter_(dim, second(index), 7).tolist() == written.tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bad", [300, -1, 2**62, -(2**63)])
def test_an_index_far_behind_is_refused(bad, layout):
    x, index = torch.zeros(3, 300), torch.arange(300).repeat(3, 1)
    index[1, 299], index[2, 5] = bad, 301
    index = LAYOUTS[layout](index)
    for call in (lambda: x.gather(1, index), lambda: x.scatter_add_(1, index, torch.ones(3, 300))):
        with pytest.raises(RuntimeError, match=f"index ({bad}|301) is out of bounds for dimension 1 with size 300"):
            call()
    assert not x.any()


def test_index_functions_agree_with_brackets():
    x = torch.arange(12.0).reshape(3, 4)
    index = torch.tensor([2, 0])
    assert x.index_select(1, index).tolist() == x[:, index].tolist()
    source = torch.ones(3, 2)
    y = x.clone()
    y[:, index] += source
    assert x.index_add(1, index, source).tolist() == y.tolist()
    y[:, index] = source
    assert x.index_copy(1, index, source).tolist() == y.tolist()
    assert x.index_fill(1, index, 1).tolist() == y.tolist()
    assert x.take(torch.tensor([0, -1])).tolist() == [0, 11]
    assert x.put(torch.tensor([1, 1]), torch.tensor([5.0, 6.0]), accumulate=True)[0, 1] == 12


def test_one_number_behind_a_mask_takes_the_dtype():
    """As in torch, where such an assignment is `masked_fill`. Several numbers are converted to the tensor's dtype."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.complex64):
        for value in (torch.tensor(2), torch.tensor(2.0, dtype=torch.float64), torch.tensor([2], dtype=torch.uint8)):
            mask = torch.tensor([True, False, True])
            by_index, in_rows, by_put = (torch.zeros(shape, dtype=dtype) for shape in ((3,), (2, 3), (3,)))
            by_index[mask] = value
            in_rows[:, mask] = value
            by_put.index_put_((mask,), value)
            assert by_index.tolist() == by_put.tolist() == [2, 0, 2] and in_rows.tolist() == [[2, 0, 2]] * 2
    x = torch.zeros(3, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
        x[x == 0] = torch.tensor(300)
    with pytest.raises(RuntimeError, match="Index put requires the source and destination dtypes match"):
        x[x == 0] = torch.ones(3)
    leaf = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    y = torch.zeros(3)
    y[torch.tensor([True, False, True])] = leaf
    y.sum().backward()
    assert leaf.grad.item() == 2 and leaf.grad.dtype == torch.float64


def test_scale_of_added_rows_has_the_tensors_dtype():
    """A regression: a float was stored in another dtype and its bytes were then copied as integers."""
    count = 100_000
    index, ones = torch.zeros(count, dtype=torch.int64), torch.ones(count, dtype=torch.int64)
    assert torch.zeros(2, dtype=torch.int64).index_add(0, index, ones, alpha=2.7).tolist() == [2 * count, 0]
    assert torch.zeros(2).index_add(0, index, ones.float(), alpha=True).tolist() == [count, 0]
    for dtype, alpha in ((torch.int64, math.inf), (torch.uint8, 300), (torch.float32, 2j), (torch.float16, 1e9)):
        x = torch.zeros(2, dtype=dtype)
        with pytest.raises(RuntimeError, match="value cannot be converted to type .* without overflow"):
            x.index_add_(0, index[:2], x.clone(), alpha=alpha)


def test_masked():
    x = torch.zeros(2, 3)
    mask = torch.tensor([[True, False, True], [False, True, False]])
    assert x.masked_scatter_(mask, torch.tensor([1.0, 2.0, 3.0, 4.0])) is x
    assert x.tolist() == [[1, 0, 2], [0, 3, 0]]
    assert x.masked_select(mask).tolist() == [1, 2, 3]
    assert x.masked_fill(mask[0], 9).tolist() == [[9, 0, 9], [9, 3, 9]]
    assert torch.nonzero(x).tolist() == [[0, 0], [0, 2], [1, 1]]
    assert [t.tolist() for t in torch.where(mask)] == [[0, 0, 1], [0, 2, 1]]


FAILURES = [
    (lambda x: x[0, 0, 0, 0], IndexError, "too many indices for tensor of dimension 3"),
    (lambda x: x[5], IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    (lambda x: x[0, -5], IndexError, "index -5 is out of bounds for dimension 1 with size 4"),
    (lambda x: x[0, 0, 0][0], IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or"),
    (lambda x: x[0, 0, 0][:], IndexError, "slice() cannot be applied to a 0-dim tensor."),
    (
        lambda x: x[1.5],
        IndexError,
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got float)",
    ),
    (lambda x: x[1.0:2], TypeError, "slice indices must be integers or None or have an __index__ method"),
    (lambda x: x[::0], ValueError, "slice step cannot be zero"),
    (lambda x: x[torch.tensor([1.0])], IndexError, "tensors used as indices must be long, int, byte or bool tensors"),
    (
        lambda x: x[[0, 1], [0, 1, 2]],
        IndexError,
        "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]",
    ),
    (
        lambda x: x[torch.ones(4, dtype=torch.bool)],
        IndexError,
        "The shape of the mask [4] at index 0 does not match the shape of the indexed tensor [3, 4, 5] at index 0",
    ),
    (lambda x: x[:, [5]], IndexError, "index 5 is out of bounds for dimension 0 with size 4"),
    (
        lambda x: x.gather(0, torch.tensor([[[9]]])),
        RuntimeError,
        "index 9 is out of bounds for dimension 0 with size 3",
    ),
    (lambda x: x.index_select(0, torch.tensor([9])), IndexError, "index out of range in self"),
    (
        lambda x: x.__setitem__([0], torch.zeros(7)),
        RuntimeError,
        "shape mismatch: value tensor of shape [7] cannot be broadcast to indexing result of shape [1, 4, 5]",
    ),
    (lambda x: x.__setitem__(0, [1]), TypeError, "can't assign a list to a torch.FloatTensor"),
    (lambda x: x.__delitem__(0), TypeError, "Tensor does not support deleting items"),
]


@pytest.mark.parametrize("call, kind, sentence", FAILURES, ids=[sentence[:40] for *_, sentence in FAILURES])
def test_errors(call, kind, sentence):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(kind, match=re.escape(sentence)):
            call(torch.zeros(3, 4, 5))


def test_an_index_counts_only_where_something_is_read():
    x, far = torch.zeros(2, 3), torch.tensor([5])
    assert x[far, 5:].shape == (1, 0) and x[1:1, far].shape == (0, 1)
    x[far, 5:] = 7.0
    assert x.sum() == 0
    assert torch.empty(2, 0)[far].shape == (1, 0)
    for wrong in (lambda: torch.empty(0, 3)[far], lambda: torch.empty(0, 3).__setitem__(far, torch.ones(9))):
        with pytest.raises(IndexError, match="^index is out of bounds for dimension with size 0"):
            wrong()
    for key, place in (((None, 5), 1), ((True, -5), 1), ((slice(None), True, 5), 2)):
        with pytest.raises(IndexError, match=f"is out of bounds for dimension {place} with size"):
            x[key]
    for key in ((0,), (slice(None),)):
        with pytest.raises(IndexError, match="^too many indices for tensor of dimension 0"):
            torch.tensor(1.0)[key]


def test_what_is_gathered_lies_as_its_source():
    x = torch.arange(24.0).reshape(4, 3, 2).permute(2, 1, 0)
    assert x[[0, 1]].stride() == (12, 1, 3)
    assert x[:, [0, 1]].stride() == (1, 2, 4)
    for key in ([0, 1], (slice(None), [2, 0]), ([1, 0], [2, 0]), (torch.tensor([[0, 1], [1, 0]]).t(),)):
        assert np.array_equal(x[key].numpy(), x.numpy()[key if isinstance(key, (tuple, list)) else key.numpy()])


def test_a_failing_write_changes_nothing():
    x = torch.zeros(3)
    for write in (
        lambda: x.index_put_((torch.tensor([0, 7]),), torch.ones(2)),
        lambda: x.scatter_(0, torch.tensor([0, 7]), torch.ones(2)),
        lambda: x.index_add_(0, torch.tensor([0, 7]), torch.ones(2)),
    ):
        with pytest.raises((IndexError, RuntimeError)):
            write()
        assert x.tolist() == [0, 0, 0]


def test_the_bits_do_not_depend_on_threads():
    generator = np.random.default_rng(0)
    index = torch.from_numpy(generator.integers(0, 50, 200_000))
    rows = torch.from_numpy(generator.standard_normal((20_000, 64)).astype(np.float32))
    values = torch.from_numpy(generator.standard_normal(200_000).astype(np.float32))
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(
                [
                    torch.zeros(50).index_add(0, index, values).numpy().tobytes(),
                    torch.zeros(50, 64).index_add(0, index[:20_000], rows).numpy().tobytes(),
                    torch.zeros(50, 64)
                    .scatter_add(0, index[:20_000].unsqueeze(1).expand(-1, 64), rows)
                    .numpy()
                    .tobytes(),
                    torch.zeros(50).index_put((index,), values).numpy().tobytes(),
                ]
            )
    finally:
        torch.set_num_threads(before)
    assert results[0] == results[1]


def test_writing_into_expanded_tensors():
    def expanded():
        return torch.zeros(1).expand(3)

    indices = torch.tensor([0, 1])
    with pytest.warns(UserWarning, match=r"Use of index_put_ on expanded tensors .* tensor\[indices\] = tensor"):
        assert expanded().index_put_((indices,), torch.tensor([1.0, 2.0])).tolist() == [2, 2, 2]
    with pytest.warns(UserWarning, match="Use of index_put_"):
        assert expanded().index_put_((indices,), torch.tensor([1.0, 2.0]), accumulate=True).tolist() == [3, 3, 3]
    with pytest.warns(UserWarning, match=r"Use of index_fill_ on expanded tensors .* tensor\[mask\] = scalar"):
        assert torch.zeros(2, 1).expand(2, 3).index_fill_(0, torch.tensor([1]), 4).tolist() == [[0] * 3, [4] * 3]
    with pytest.warns(UserWarning, match="Use of masked_fill_"):
        assert expanded().masked_fill_(torch.tensor([True, False, False]), 5).tolist() == [5, 5, 5]
    with pytest.warns(UserWarning, match="Use of masked_fill_"):
        x = torch.zeros(2, 1).expand(2, 3)
        x[torch.tensor([[False, False, True], [False] * 3])] = 6.0
        assert x.tolist() == [[6] * 3, [0] * 3]
    # Several threads would write to one element, and the graph could not represent the result.
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"), pytest.warns(UserWarning):
        torch.zeros(2, 1).expand(2, 3)[torch.tensor([0])] = torch.ones(3)
    watched = (torch.ones(1, requires_grad=True) * 2).expand(3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        watched.masked_fill_(torch.tensor([True, False, False]), 5)
    assert torch.index_put(expanded(), (indices,), torch.tensor([1.0, 2.0])).tolist() == [1, 2, 0]


def test_one_value_behind_a_mask_of_bytes():
    mask = torch.tensor([0, 1, 1], dtype=torch.uint8)
    sentence = "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char"
    for call in (
        lambda x: x.__setitem__(mask, 11),
        lambda x: x.index_put_((mask,), torch.tensor(11.0)),
        lambda x: torch.index_put(x, (mask,), torch.tensor([11.0])),
    ):
        with pytest.raises(RuntimeError, match=sentence):
            call(torch.zeros(3))
    with pytest.warns(UserWarning, match=r"indexing with dtype torch\.uint8"):
        x = torch.zeros(3)
        x[mask] = torch.tensor([1.0, 2.0])
    assert x.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("write", "kind", "sentence"),
    [
        (lambda x: x.__setitem__(0, 2**63), ValueError, "Overflow when unpacking long long"),
        (lambda x: x.__setitem__(2**63, 1), ValueError, "Overflow when unpacking long long"),
        (lambda x: x[0, -(2**63) - 1], ValueError, "Overflow when unpacking long long"),
        (
            lambda x: x.__setitem__(0, np.float32(9)),
            TypeError,
            r"can't assign a numpy\.float32 to a torch\.FloatTensor",
        ),
        (lambda x: x.__setitem__(0, np.bool_(True)), TypeError, "can't assign a numpy"),
        (
            lambda x: x[0, 0].index_put_((torch.tensor(True),), torch.tensor(4.0)),
            IndexError,
            r"too many indices for tensor of dimension 0 \(got 1\)",
        ),
        (
            lambda x: torch.index_select(x[0, 0], 0, torch.tensor([0, 0])),
            RuntimeError,
            "Index to scalar can have only 1 value",
        ),
        (
            lambda x: x.index_put_([None, torch.tensor([0])], x),
            TypeError,
            "expected Tensor as element 0 in argument 0, but",
        ),
    ],
)
def test_what_cannot_be_written_or_read(write, kind, sentence):
    with pytest.raises(kind, match=sentence):
        write(torch.zeros(2, 2))


def test_masks_of_bytes_have_the_shape_of_what_they_index():
    mask = torch.ones(3, dtype=torch.uint8)
    for write in (
        lambda x: x.__setitem__(mask, 1),
        lambda x: x.index_put_((mask,), torch.tensor(1.0)),
    ):
        with pytest.raises(
            IndexError, match=re.escape("The shape of the mask [3] at index 0 does not match the shape")
        ):
            write(torch.ones(2))


def test_numbers_that_can_be_written():
    x = torch.zeros(4)
    x[0], x[1], x[2], x[3] = np.float64(1.5), np.int64(2), True, 2
    assert x.tolist() == [1.5, 2, 1, 2]

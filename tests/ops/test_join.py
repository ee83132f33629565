"""Concatenation, repetition, rotation and padding: compared with NumPy, with the gradients of their kernels."""

import contextlib

import numpy as np
import pytest

import rushlight as torch

pytest.importorskip("hypothesis")
from hypothesis import given
from hypothesis import strategies as st


def filled(shape):
    return np.arange(float(np.prod(shape))).reshape(shape)


def same(tensor, array):
    assert tuple(tensor.shape) == array.shape and tensor.tolist() == array.tolist()


@given(st.data())
def test_cat_and_stack(data):
    shape = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    arrays = []
    for _ in range(data.draw(st.integers(1, 4))):
        own = list(shape)
        own[dim] = data.draw(st.integers(0, 3))
        arrays.append(np.asfortranarray(filled(own)))
    leaves = [torch.from_numpy(a.copy(order="K")).requires_grad_() for a in arrays]
    joined = torch.cat(leaves, dim)
    same(joined, np.concatenate(arrays, dim))
    weights = filled(joined.shape)
    (joined * torch.from_numpy(weights)).sum().backward()
    start = 0
    for leaf, array in zip(leaves, arrays):
        own = np.take(weights, range(start, start + array.shape[dim]), dim)
        same(leaf.grad, own)
        start += array.shape[dim]
    same(torch.stack([torch.from_numpy(arrays[0].copy())] * 2, dim), np.stack([arrays[0]] * 2, dim))


def test_cat_promotes_and_skips_empty_vectors():
    joined = torch.cat([torch.tensor([1, 2]), torch.tensor([]), torch.tensor([0.5])])
    assert joined.dtype == torch.float32 and joined.tolist() == [1, 2, 0.5]
    b, f = torch.rand(5, 4, 3), torch.rand(5, 4, 3)
    assert tuple(torch.cat((f, b), dim=2).shape) == (5, 4, 6)


CASES = {
    "flip": (lambda t: t.flip(0, -1), lambda a: np.flip(a, (0, -1))),
    "flip twice": (lambda t: torch.flip(torch.flip(t, dims=[0]), dims=[0]), lambda a: a),
    "fliplr": (torch.fliplr, np.fliplr),
    "roll": (lambda t: t.roll((1, -5), (0, 1)), lambda a: np.roll(a, (1, -5), (0, 1))),
    "roll all": (lambda t: t.roll(4), lambda a: np.roll(a, 4)),
    "rot90": (lambda t: torch.rot90(t, -1), lambda a: np.rot90(a, -1)),
    "repeat": (lambda t: t.repeat(2, 1, 3), lambda a: np.tile(a, (2, 1, 3))),
    "tile": (lambda t: torch.tile(t, (2,)), lambda a: np.tile(a, (2,))),
    "repeat_interleave": (lambda t: t.repeat_interleave(2, 1), lambda a: np.repeat(a, 2, 1)),
    "repeat_interleave by": (
        lambda t: t.repeat_interleave(torch.tensor([2, 0, 1]), 0),
        lambda a: np.repeat(a, [2, 0, 1], 0),
    ),
    "tril": (lambda t: t.tril(1), lambda a: np.tril(a, 1)),
    "triu": (lambda t: t.triu(-1), lambda a: np.triu(a, -1)),
    "diag": (lambda t: torch.diag(t, 1), lambda a: np.diag(a, 1)),
    "diagflat": (torch.diagflat, np.diagflat),
    "pad": (
        lambda t: torch.nn.functional.pad(t, (1, 2, 0, 1), value=5),
        lambda a: np.pad(a, ((0, 1), (1, 2)), constant_values=5),
    ),
    "pad reflect": (
        lambda t: torch.nn.functional.pad(t, (1, 2), mode="reflect"),
        lambda a: np.pad(a, ((0, 0), (1, 2)), "reflect"),
    ),
    "pad replicate": (
        lambda t: torch.nn.functional.pad(t, (1, 2), mode="replicate"),
        lambda a: np.pad(a, ((0, 0), (1, 2)), "edge"),
    ),
    "pad circular": (
        lambda t: torch.nn.functional.pad(t, (1, 2), mode="circular"),
        lambda a: np.pad(a, ((0, 0), (1, 2)), "wrap"),
    ),
    "hstack": (lambda t: torch.hstack([t, t]), lambda a: np.hstack([a, a])),
    "vstack": (lambda t: torch.vstack([t, t]), lambda a: np.vstack([a, a])),
    "dstack": (lambda t: torch.dstack([t, t]), lambda a: np.dstack([a, a])),
    "column_stack": (lambda t: torch.column_stack([t, t]), lambda a: np.column_stack([a, a])),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("turned", [False, True])
def test_against_numpy(name, turned):
    of_tensor, of_array = CASES[name]
    array = filled((4, 3)).T if turned else filled((3, 4))
    leaf = torch.from_numpy(filled((4, 3)) if turned else array.copy())
    tensor = leaf.t() if turned else leaf
    same(of_tensor(tensor), of_array(array))
    # Every element of the result is an input element or a constant. The gradient counts how often each input is used.
    tensor = tensor.clone().requires_grad_()
    result = of_tensor(tensor)
    result.sum().backward()
    labels = np.arange(1.0, 13).reshape(3, 4)
    used = of_array(labels)
    counts = np.array([[np.sum(used == label) for label in row] for row in labels])
    if name == "pad":
        counts = np.ones_like(counts)
    same(tensor.grad, counts.astype(float))


@given(st.integers(-5, 5), st.integers(1, 5), st.integers(1, 5))
def test_triangles(k, rows, columns):
    array = filled((2, rows, columns)) + 1
    tensor = torch.from_numpy(array.copy())
    same(tensor.tril(k), np.tril(array, k))
    same(tensor.triu_(k), np.triu(array, k))
    turned = torch.from_numpy(array.copy()).transpose(1, 2)
    same(turned.tril(k), np.tril(array.swapaxes(1, 2), k))


def test_grids():
    x, y = torch.tensor([1, 2, 3]), torch.tensor([4, 5])
    for indexing in ("ij", "xy"):
        for got, expected in zip(
            torch.meshgrid(x, y, indexing=indexing), np.meshgrid([1, 2, 3], [4, 5], indexing=indexing)
        ):
            same(got, expected)
    assert torch.cartesian_prod(x, y).tolist() == [[a, b] for a in (1, 2, 3) for b in (4, 5)]
    a, b = torch.broadcast_tensors(x.unsqueeze(1), y)
    assert tuple(a.shape) == tuple(b.shape) == (3, 2)
    # A tensor of the common shape is returned itself, as in torch.
    whole = torch.ones(3, 2, requires_grad=True)
    first, second = torch.broadcast_tensors(whole, y)
    assert first is whole and second is not y
    assert torch.block_diag(torch.ones(1, 2), torch.tensor(3.0)).tolist() == [[1, 1, 0], [0, 0, 3]]


@pytest.mark.parametrize("widths, number", [((5, 0), 4), ((0, 0, 5, 0), 6), ((0, 0, 0, 0, 5, 0), 8)])
def test_widths_are_counted_from_the_last_dimension(widths, number):
    sentence = f"Argument #{number}: Padding size should be less than the corresponding input dimension"
    with pytest.raises(RuntimeError, match=sentence):
        torch.nn.functional.pad(torch.ones((1, 2, 3, 4, 5)[: 2 + len(widths) // 2]), widths, mode="reflect")


def test_slots():
    x = torch.zeros(3, 3)
    assert torch.slice_scatter(x, torch.ones(1, 3), 0, 1, 2).tolist() == [[0] * 3, [1] * 3, [0] * 3]
    assert torch.select_scatter(x, torch.ones(3), 1, -1).tolist() == [[0, 0, 1]] * 3
    assert torch.diagonal_scatter(x, torch.ones(3)).tolist() == np.eye(3).tolist()
    own, src = torch.rand(3, 3, requires_grad=True), torch.rand(3, requires_grad=True)
    weights = torch.arange(9.0).reshape(3, 3)
    (torch.diagonal_scatter(own, src) * weights).sum().backward()
    assert src.grad.tolist() == [0, 4, 8] and own.grad.tolist() == [[0, 1, 2], [3, 0, 5], [6, 7, 0]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", [(33, 70), (64, 64), (3, 40, 50), (7, 9), (130, 300)], ids=str)
def test_transposed_copies(dtype, shape):
    array = (np.arange(int(np.prod(shape))) % 200).reshape(shape)
    tensor = torch.from_numpy(array).to(dtype)
    turned = tensor.transpose(-1, -2)
    assert turned.contiguous().tolist() == torch.from_numpy(array.swapaxes(-1, -2).copy()).to(dtype).tolist()
    into = torch.zeros_like(tensor)
    into.transpose(-1, -2).copy_(turned)
    assert into.tolist() == tensor.tolist()


def test_the_gradient_beside_a_strided_slot_is_what_torch_gives():
    """The derivative would be the opposite: zero inside the slot, and the incoming gradient outside of it."""
    x, source = torch.zeros(4, requires_grad=True), torch.ones(2, requires_grad=True)
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0])
    (torch.as_strided_scatter(x, source, (2,), (2,)) * weights).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 3.0, 0.0]
    assert source.grad.tolist() == [1.0, 3.0]


def test_images_whose_channels_lie_last_stay_so():
    x = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    joined = torch.cat([x, x], 1)
    assert joined.stride() == (120, 1, 30, 6) and torch.equal(joined, torch.cat([x.contiguous()] * 2, 1))
    assert torch.cat([x, x.contiguous()]).stride() == (60, 20, 5, 1)


def test_empty_vectors_join_along_any_dimension():
    assert torch.cat([torch.empty(0), torch.empty(0)], dim=1).shape == (0,)
    assert torch.cat([torch.empty(0)], dim=-2).shape == (0,)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "complex128"])
@pytest.mark.parametrize("width", [1, 7, 16, 64, 300, 2000])
def test_repeated_slices_of_any_width(dtype, width):
    own = (np.arange(20 * width) % 101).reshape(20, width).astype(dtype)
    x = torch.from_numpy(own)
    assert np.array_equal(x.repeat_interleave(3, 0).numpy(), own.repeat(3, 0))
    assert np.array_equal(x[::2].repeat_interleave(2, 0).numpy(), own[::2].repeat(2, 0))
    assert np.array_equal(x[:, : width // 2 + 1].clone().numpy(), own[:, : width // 2 + 1])
    assert np.array_equal(x[:, None].expand(20, 4, width).contiguous().numpy(), own.repeat(4, 0).reshape(20, 4, width))


@pytest.mark.parametrize("copy", (torch.t_copy, torch.squeeze_copy, torch.alias_copy, torch.diag))
def test_copies_of_views_may_replace_what_they_copy(copy):
    x = torch.arange(6.0).reshape(2, 3)
    wanted = copy(x).tolist()
    with pytest.warns(UserWarning) if copy(x).shape != x.shape else contextlib.nullcontext():
        copy(x, out=x)
    assert x.tolist() == wanted


def test_repeats_of_a_scalar_along_a_dimension_are_refused():
    with pytest.raises(IndexError, match="^Dimension specified as 0 but tensor has no dimensions"):
        torch.tensor(3).repeat_interleave(torch.tensor([2, 3]), 0)
    assert torch.tensor(3).repeat_interleave(2).tolist() == [3, 3]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x: x.repeat(4, 1), "maximum size for tensor at dimension 0 is 0 but size is 4611686018427387904"),
        (
            lambda x: torch.tile(x, (4, 1)),
            "maximum size for tensor at dimension 0 is 0 but size is 4611686018427387904",
        ),
        (lambda x: x.T.repeat(1, 4), "maximum size for tensor at dimension 1 is 0 but size is 4611686018427387904"),
        (lambda x: x.repeat(5, 1), "numel: integer multiplication overflow"),
        (lambda x: x.repeat(2, 1), "Trying to create tensor with negative dimension -9223372036854775808"),
        (lambda x: x.unsqueeze(0).expand(4, -1, -1), None),
        (lambda x: x[:, None].expand(-1, 4, -1), "numel: integer multiplication overflow"),
        (lambda x: torch.broadcast_to(x[:, None], (2**62, 4, 0)), "numel: integer multiplication overflow"),
    ],
)
def test_sizes_of_more_than_64_bits(call, sentence):
    x = torch.empty(2**62, 0)
    with pytest.raises(RuntimeError) as raised:
        call(x)
    assert str(raised.value).startswith(sentence or "numel: integer multiplication overflow")


def test_joined_dimensions_of_more_than_64_bits():
    x = torch.empty(2**31, 0, 2**32).transpose(1, 2)
    for call in (lambda: x.flatten(0, 1), lambda: x @ torch.empty(0, 3)):
        with pytest.raises(RuntimeError, match="^numel: integer multiplication overflow"):
            call()
    assert x.flatten().shape == (0,)


@pytest.mark.parametrize("width", [2, 2**62])
def test_circular_padding_wraps_around_once(width):
    with pytest.raises(RuntimeError, match="^Padding value causes wrapping around more than once."):
        torch.nn.functional.pad(torch.ones(1, 1), (width, width), mode="circular")

"""Views: the same memory with another geometry, their gradients, and in-place changes through them."""

import itertools

import numpy as np
import pytest

import rushlight as torch

pytest.importorskip("hypothesis")
from hypothesis import given
from hypothesis import strategies as st

# A view, and the same view in NumPy.
VIEWS = {
    "transpose": (lambda t: t.transpose(0, -1), lambda a: a.swapaxes(0, -1)),
    "permute": (lambda t: t.permute(*reversed(range(t.ndim))), lambda a: a.transpose()),
    "movedim": (lambda t: t.movedim(0, -1), lambda a: np.moveaxis(a, 0, -1)),
    "unsqueeze": (lambda t: t.unsqueeze(1), lambda a: np.expand_dims(a, 1)),
    "squeeze": (lambda t: t.squeeze(), lambda a: a.squeeze()),
    "select": (lambda t: t.select(-1, -1), lambda a: a[..., -1]),
    "narrow": (lambda t: t.narrow(0, 1, t.shape[0] - 1), lambda a: a[1:]),
    "reverse": (lambda t: t[::-1], lambda a: a[::-1]),
    "stride": (lambda t: t[..., ::2], lambda a: a[..., ::2]),
    "diagonal": (lambda t: t.diagonal(1), lambda a: a.diagonal(1)),
    "unfold": (lambda t: t.unfold(0, 2, 1), lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, 0)),
    "expand": (lambda t: t.expand(2, *t.shape), lambda a: np.broadcast_to(a, (2, *a.shape))),
    "second chunk": (lambda t: t.chunk(2)[1], lambda a: a[-(-a.shape[0] // 2) :]),
    "unbind": (lambda t: t.unbind(-1)[0], lambda a: a[..., 0]),
}
NEEDS_TWO = {"diagonal"}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("shape", [(3,), (4, 3), (3, 1, 4), (2, 3, 4, 2)], ids=str)
def test_against_numpy(name, shape):
    if len(shape) == 1 and name in NEEDS_TWO:
        pytest.skip("needs a matrix")
    array = np.arange(float(np.prod(shape))).reshape(shape)
    tensor = torch.from_numpy(array)
    of_tensor, of_array = VIEWS[name]
    view, expected = of_tensor(tensor), of_array(array)
    assert tuple(view.shape) == expected.shape and view.tolist() == expected.tolist()
    assert view.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_to_second_order(name):
    leaf = torch.arange(12.0, dtype=torch.float64).reshape(3, 4).requires_grad_()
    view = VIEWS[name][0](leaf * leaf)
    weights = torch.arange(1.0, 1 + view.numel(), dtype=torch.float64).reshape(view.shape)
    (grad,) = torch.autograd.grad((view * weights).sum(), leaf, create_graph=True)
    counts = torch.zeros(3, 4, dtype=torch.float64).requires_grad_()
    (VIEWS[name][0](counts) * weights).sum().backward()
    assert grad.tolist() == (2 * leaf * counts.grad).tolist()
    (second,) = torch.autograd.grad(grad.sum(), leaf)
    assert second.tolist() == (2 * counts.grad).tolist()


@given(st.data())
def test_reshape_of_anything(data):
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    order = data.draw(st.permutations(range(len(shape))))
    array = np.arange(int(np.prod(shape))).reshape(shape).transpose(order)
    tensor = torch.from_numpy(np.arange(int(np.prod(shape))).reshape(shape)).permute(order)
    sizes = [-1, data.draw(st.sampled_from([n for n in range(1, array.size + 1) if array.size % n == 0]))]
    assert tensor.reshape(sizes).tolist() == array.reshape(sizes).tolist()
    try:
        assert tensor.view(sizes).data_ptr() == tensor.data_ptr()
    except RuntimeError as error:
        assert "Use .reshape(...) instead." in str(error)
    assert tensor.flatten().tolist() == array.ravel().tolist()


def test_view_chains_change_their_base():
    """Random programs of views and in-place changes. Values and gradients equal those of an out-of-place program."""
    rng = np.random.default_rng(0)
    names = ["transpose", "select", "narrow", "reverse", "stride", "unsqueeze", "diagonal"]
    for chain in itertools.product(names, repeat=2):
        if chain == ("select", "diagonal") or chain == ("diagonal", "diagonal"):
            continue
        start = rng.standard_normal((4, 5))
        base = torch.from_numpy(start.copy()).requires_grad_()
        factor = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
        changed = base.clone()
        view = changed
        for name in chain:
            view = VIEWS[name][0](view)
        view.mul_(factor)
        mask = np.ones_like(start)
        probe = torch.from_numpy(mask)
        for name in chain:
            probe = VIEWS[name][0](probe)
        probe.mul_(3.0)
        assert np.allclose(changed.detach().numpy(), start * mask), chain
        changed.sum().backward()
        assert np.allclose(base.grad.numpy(), mask), chain
        assert np.isclose(factor.grad.item(), start[mask == 3].sum()), chain


def test_siblings_see_a_change():
    x = torch.zeros(4, requires_grad=True)
    y = x.clone()
    first, second = y[:3], y[1:]
    first.mul_(2)
    assert first.grad_fn.name() == "AsStridedBackward0" and second._version == 1
    (second * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [0, 2, 20, 100]


@pytest.mark.parametrize("make", [lambda t: t.unbind(), lambda t: t.split(2), lambda t: t.chunk(2)])
def test_one_of_several_views_stays(make):
    y = torch.zeros(4, requires_grad=True).clone()
    with pytest.raises(
        RuntimeError,
        match=r"is a view and is being modified inplace. This view is the output of a function that returns multiple views",
    ):
        make(y)[0].add_(1)


def test_geometry_in_place():
    x = torch.arange(6.0).reshape(2, 3)
    assert x.t_() is x and tuple(x.shape) == (3, 2)
    assert x.transpose_(0, 1).unsqueeze_(0).squeeze_(0).tolist() == [[0, 1, 2], [3, 4, 5]]
    leaf = torch.arange(6.0, requires_grad=True)
    y = (leaf * 1).reshape(2, 3).clone()
    y.t_()
    assert y.grad_fn.name() == "TBackward1"
    (y * torch.arange(6.0).reshape(3, 2)).sum().backward()
    assert leaf.grad.tolist() == [0, 2, 4, 1, 3, 5]


def test_names_of_nodes():
    x = torch.ones(2, 3, requires_grad=True)
    for view, name in [
        (x.view(6), "ViewBackward0"),
        (x.t().reshape(6), "UnsafeViewBackward0"),
        (x.transpose(0, 1), "TransposeBackward0"),
        (x[0], "SelectBackward0"),
        (x[:, 1:], "SliceBackward0"),
        (x.unbind()[0], "UnbindBackward0"),
        (x.split(1)[0], "SplitBackward0"),
        (x.split([1, 1])[0], "SplitWithSizesBackward0"),
        (x.unsqueeze(0), "UnsqueezeBackward0"),
        (x.squeeze(), "SqueezeBackward0"),
        (x.squeeze(0), "SqueezeBackward1"),
        (x.permute(1, 0), "PermuteBackward0"),
        (x.expand(4, 2, 3), "ExpandBackward0"),
        (x[[0, 1]], "IndexBackward0"),
        (x[...], "AliasBackward0"),
    ]:
        assert view.grad_fn.name() == name


def test_complex_numbers_as_pairs():
    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    pairs = torch.view_as_real(z)
    assert pairs.tolist() == [[1, 2], [3, -1]] and torch.view_as_complex(pairs).tolist() == [1 + 2j, 3 - 1j]
    copy = z.clone()
    torch.view_as_real(copy)[:, 1].mul_(5)
    assert copy.tolist() == [1 + 10j, 3 - 5j]
    copy.real.sum().backward()
    assert z.grad.tolist() == [1, 1]


def test_strided_views_of_overlapping_places():
    x = torch.arange(4.0, requires_grad=True)
    x.as_strided((3, 2), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1, 2, 2, 1]
    wide = torch.ones(1, requires_grad=True).expand(3)
    (grad,) = torch.autograd.grad(wide.as_strided((2,), (0,)).sum(), wide)
    assert grad.sum().item() == 2


def test_unbind_adds_up():
    x = torch.rand(500, 10)
    views = torch.unbind(x)
    assert len(views) == 500 and np.allclose(sum(views).numpy(), torch.sum(x, 0).numpy())


def test_split_has_the_names_of_the_function_and_of_the_method():
    x = torch.arange(4)
    for parts in (
        torch.split(x, split_size_or_sections=2),
        torch.split(tensor=x, split_size_or_sections=[2, 2], dim=0),
        x.split(split_size=2),
    ):
        assert [part.tolist() for part in parts] == [[0, 1], [2, 3]]


def test_resizing_to_the_present_size_is_no_change():
    x = torch.ones(2)
    x.resize_(2).resize_as_(torch.zeros(2))
    assert x._version == 0
    assert x.resize_(3)._version == 1
    leaf = torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        assert leaf.resize_(3).shape == (3,)


def test_strides_of_new_dimensions_of_size_one():
    assert torch.rand(5).expand(1, 1, 5).stride() == (5, 5, 1)
    assert torch.rand(2, 5).expand(1, 2, 5).stride() == (10, 5, 1)
    assert torch.rand(5).expand(3, 5).stride() == (0, 1)


def test_a_tensor_of_one_index_splits_there():
    x = torch.arange(6)
    assert [part.tolist() for part in torch.tensor_split(x, torch.tensor([4]))] == [[0, 1, 2, 3], [4, 5]]
    assert [part.tolist() for part in torch.tensor_split(x, torch.tensor([0]))] == [[], [0, 1, 2, 3, 4, 5]]
    assert len(torch.tensor_split(x, torch.tensor(3))) == 3
    with pytest.raises(RuntimeError, match="zero-dimensional or one-dimensional tensor, but got a tensor with 2 dims"):
        torch.tensor_split(x, torch.tensor([[3]]))


def test_sizes_behind_a_size_of_zero_may_be_any():
    wide = torch.ones(0, 3).expand(2**62, 0, 3)
    assert (wide.shape, wide.stride(), wide.numel()) == ((2**62, 0, 3), (0, 3, 1), 0)
    assert wide.permute(0, 2, 1).shape == (2**62, 3, 0) and wide.sum().item() == 0
    assert torch.empty(2**62, 0, 3).stride() == (wide + 1).stride() == (3, 3, 1)
    assert torch.ones(0, 3).view(2**62, 0, 3).stride() == (3, 3, 1) and wide.clone().numel() == 0
    with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
        torch.empty(0, 2**62, 2**62)
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        wide.sum(1)

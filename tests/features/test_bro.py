"""BRO: broadcasting, and detection of accidental broadcasts."""

import sys
import traceback
import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.utils import backcompat


@pytest.fixture
def old_programs():
    """The two warnings for programs older than broadcasting."""
    backcompat.broadcast_warning.enabled = backcompat.keepdim_warning.enabled = True
    yield
    backcompat.broadcast_warning.enabled = backcompat.keepdim_warning.enabled = False


@pytest.fixture
def reductions():
    """The switch of the warning about reductions. It is restored after the test."""
    yield backcompat.ambiguous_reduction
    backcompat.ambiguous_reduction.enabled = False


def test_bro_1_no_data_is_copied(grows):
    """An operand is expanded with stride zero. A column plus a row needs only the memory of the result."""
    assert torch.ones(3, 1).expand(3, 4).stride() == (1, 0)
    column, row = np.arange(3.0)[:, None], np.arange(4.0)
    np.testing.assert_array_equal((torch.tensor(column) + torch.tensor(row)).numpy(), column + row)
    assert (torch.ones(0, 1) + torch.ones(3)).shape == (0, 3) and (torch.ones(()) + torch.ones(2, 2)).shape == (2, 2)
    grown = grows("a, b = torch.ones(5000, 1), torch.ones(1, 5000)", "c = a + b")
    assert 0.9 < grown / (5000 * 5000 * 4) < 1.1


def test_bro_2_equal_shapes():
    """Equal shapes are always compatible."""
    assert (torch.ones(5, 7, 3) + torch.ones(5, 7, 3)).shape == (5, 7, 3)


def test_bro_3_aligned_at_the_right():
    """Sizes are compared from the last one. A size of one is expanded, and so is a missing dimension."""
    assert (torch.empty(5, 3, 4, 1) + torch.empty(3, 1, 1)).shape == (5, 3, 4, 1)


def test_bro_4_what_does_not_fit():
    """Other sizes are an error, with torch's message first and both shapes below."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(5, 2, 4, 1) + torch.empty(3, 1, 1)
    lines = str(caught.value).split("\n")
    assert lines[0] == "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1"
    assert lines[2:5] == ["    (5, 2, 4, 1)", "    (   3, 1, 1)", "        ^ axis 1"]


def test_bro_5_the_shape_that_comes_out():
    """The result has the size that is not one, so that an empty dimension stays empty."""
    assert (torch.empty(5, 1, 4, 1) + torch.empty(3, 1, 1)).shape == torch.Size([5, 3, 4, 1])
    assert (torch.ones(1) + torch.ones(0)).shape == (0,)
    assert (torch.tensor(1.0) + torch.ones(2, 2)).shape == (2, 2)


def test_bro_6_in_place():
    """`x.add_(y)` keeps x's shape, or raises an error. Expanded memory cannot be written to."""
    x = torch.zeros(5, 3, 4, 1)
    assert x.add_(torch.ones(3, 1, 1)).shape == (5, 3, 4, 1) and bool((x == 1).all())
    small = torch.zeros(1, 3)
    with pytest.raises(RuntimeError, match=r"output with shape \[1, 3\] doesn't match the broadcast shape \[2, 3\]"):
        small.add_(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        small.expand(2, 3).add_(1)
    assert small.tolist() == [[0, 0, 0]]


def test_bro_7_every_function_says_what_broadcasts():
    """The operator table records which arguments broadcast, and each docstring states it."""
    meeting = []
    for op in torch._C._table():
        tensors = [param["name"] for param in op["params"] if param["kind"] in ("Operand", "Tensor")]
        if (
            op["implementation"] == "pointwise"
            and len(tensors) > 1
            and op["name"] == op["python_name"]
            and not op["namespace"]
        ):
            meeting.append(op["name"])
            function = getattr(torch, op["name"], None) or getattr(torch._C._functions, op["name"])
            names = ", ".join(f"`{name.replace('self', 'input')}`" for name in tensors)
            assert f"Broadcast together: {names}." in function.__doc__
    assert {"add", "atan2", "eq", "lerp", "maximum"} <= set(meeting)


def test_bro_7_composed_functions_say_it_too():
    """Composite operators broadcast too."""
    composed = "clamp complex dist float_power isclose ldexp max min normal polar rsub where"
    silent = [name for name in composed.split() if "roadcast" not in getattr(torch, name).__doc__]
    assert not silent
    functions = (torch.allclose, torch.addmv, torch.cdist, torch.cross, torch.linalg.solve, nn.functional.mse_loss)
    assert not [function.__name__ for function in functions if "roadcast" not in function.__doc__]
    # Each of them does.
    assert torch.allclose(torch.ones(2, 3), torch.ones(3))
    assert torch.addmv(torch.ones(1), torch.ones(2, 3), torch.ones(3)).tolist() == [4, 4]
    assert torch.cdist(torch.ones(2, 1, 4, 3), torch.ones(5, 4, 3)).shape == (2, 5, 4, 4)
    assert torch.cross(torch.ones(2, 3), torch.ones(1, 3), dim=1).shape == (2, 3)
    assert torch.linalg.solve(torch.eye(2).expand(3, 1, 2, 2), torch.ones(4, 2, 1)).shape == (3, 4, 2, 1)
    with pytest.warns(UserWarning, match="target size"):
        assert nn.functional.mse_loss(torch.ones(2, 3), torch.ones(3)).item() == 0


def test_bro_8_the_readers_example():
    """A matrix plus a column equals the matrix plus the repeated column."""
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0], [2.0]])
    assert (a + b).tolist() == [[2, 3], [5, 6]] == (a + b.repeat([1, 2])).tolist()
    assert (torch.ones(3, 2) + torch.ones(3, 1)).shape == (3, 2)
    with pytest.raises(RuntimeError, match=r"size of tensor a \(2\) must match the size of tensor b \(4\)"):
        torch.ones(3, 2) + torch.ones(3, 4)


def test_bro_9_tiles_or_two_layers():
    """A layer on concatenated tiles equals the broadcast sum of two layers, without tiles."""
    torch.manual_seed(0)
    a, b = torch.rand(5, 3, 5), torch.rand(5, 1, 6)
    whole = nn.Linear(11, 10)
    tiled = torch.relu(whole(torch.cat([a, b.repeat([1, 3, 1])], 2)))
    first, second = nn.Linear(5, 10), nn.Linear(6, 10)
    with torch.no_grad():
        first.weight.copy_(whole.weight[:, :5])
        second.weight.copy_(whole.weight[:, 5:])
        first.bias.copy_(whole.bias)
        second.bias.zero_()
    summed = torch.relu(first(a) + second(b))
    assert tiled.shape == summed.shape == torch.Size([5, 3, 10])
    assert torch.allclose(tiled, summed, atol=1e-6)


class Merge(nn.Module):
    def __init__(self, in_features1, in_features2, out_features, activation=None):
        super().__init__()
        self.linear1 = nn.Linear(in_features1, out_features)
        self.linear2 = nn.Linear(in_features2, out_features)
        self.activation = activation

    def forward(self, a, b):
        c = self.linear1(a) + self.linear2(b)
        return c if self.activation is None else self.activation(c)


@pytest.mark.parametrize("activation", [None, torch.relu])
@pytest.mark.parametrize(("first", "second"), [((5, 3), (5, 1)), ((5, 1), (3,)), ((), (4,)), ((2, 1, 3), (4, 1))])
def test_bro_10_merge(first, second, activation):
    """A module that combines two inputs accepts all leading shapes that broadcast. Gradients are summed accordingly."""
    torch.manual_seed(0)
    a = torch.rand(*first, 5, dtype=torch.float64, requires_grad=True)
    b = torch.rand(*second, 6, dtype=torch.float64, requires_grad=True)
    merge = Merge(5, 6, 10, activation).double()
    out = merge(a, b)
    assert out.shape == (*np.broadcast_shapes(first, second), 10)
    out.sum().backward()
    assert a.grad.shape == a.shape and b.grad.shape == b.shape
    if activation is None:
        repeated = out.numel() // 10 // (a.numel() // 5)
        expected = repeated * merge.linear1.weight.detach().sum(0)
        assert torch.allclose(a.grad, expected.expand_as(a))


def test_bro_11_the_pitfall():
    """A column plus a vector is a matrix, whose sum is unexpected. The strict mode gives a warning."""
    a, b = torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 2.0])
    assert repr(torch.sum(a + b)) == "tensor(12.)"
    assert repr(torch.sum(a + b, 0)) == "tensor([5., 7.])"
    with backcompat.strict_broadcast(1), pytest.warns(UserWarning, match=r"\[2, 1\] and \[2\] make \[2, 2\]"):
        a + b


def test_bro_12_reductions_without_a_dimension(reductions):
    """On request, a reduction or `squeeze` of several dimensions without `dim` gives a separate kind of warning."""
    x, flat = torch.ones(2, 3), torch.ones(3)
    silent = (
        lambda: x.sum(0),
        lambda: torch.mean(x, dim=(0, 1)),
        lambda: x.max(x),
        lambda: x.squeeze(0),
        flat.sum,
        lambda: nn.functional.mse_loss(x, x),
    )
    calls = (x.sum, x.mean, x.unsqueeze(0).squeeze, lambda: torch.max(x), lambda: torch.all(x, dim=None), x.norm)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in calls:
            call()
    reductions.enabled = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in silent:
            call()
        for call in calls:
            with pytest.raises(torch.AmbiguousReduction, match="reduces all dimensions of a tensor of shape"):
                call()


def test_bro_13_hint_for_equal_numbers_of_elements():
    """Elementwise operation regardless of shape is no longer supported. The error shows how to make the shapes equal."""
    with pytest.raises(RuntimeError, match=r"(?s)a \(4\) must match .* b \(2\).*same number of elements.*\.reshape"):
        torch.add(torch.ones(4), torch.ones(2, 2))


def test_bro_13_equal_numbers_of_elements():
    """Shapes with equal numbers of elements are not compatible for that reason."""
    with pytest.raises(RuntimeError, match=r"size of tensor a \(4\) must match the size of tensor b \(2\) at"):
        torch.add(torch.ones(4), torch.ones(2, 2))


def test_bro_14_a_column_and_a_vector():
    """A column of four and a vector of four give sixteen elements."""
    assert torch.add(torch.ones(4, 1), torch.ones(4)).shape == (4, 4)


def test_bro_15_broadcast_warning(old_programs):
    """The switch warns if shapes with equal numbers of elements broadcast, and only then."""
    with pytest.warns(UserWarning, match="same number of elements"):
        torch.add(torch.ones(4, 1), torch.ones(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.add(torch.ones(4, 1), torch.ones(2))
        backcompat.broadcast_warning.enabled = False
        torch.add(torch.ones(4, 1), torch.ones(4))


def test_bro_16_keepdim_warning(old_programs):
    """The switch warns if a dimension is reduced without `keepdim`."""
    with pytest.warns(UserWarning, match="default value for keepdim"):
        assert torch.sum(torch.ones(2, 3), 1).tolist() == [3, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.sum(torch.ones(2, 3), 1, keepdim=False)


def test_bro_17_warnings_with_a_stack(old_programs, monkeypatch, capsys):
    """A program that replaces `warnings.showwarning` gets its own file and line, and can print its stack."""

    def warn_with_traceback(message, category, filename, lineno, file=None, line=None):
        traceback.print_stack(file=sys.stderr)
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", warn_with_traceback)
        torch.add(torch.ones(4, 1), torch.ones(4))  # the mistake
    written = capsys.readouterr().err
    line = sys._getframe().f_lineno - 2
    assert f'File "{__file__}", line {line}, in test_bro_17' in written
    assert f"{__file__}:{line}: UserWarning: self and other do not have the same shape" in written


def test_bro_18_keepdim_decides():
    """With `keepdim`, a reduced dimension gives a column that broadcasts. Without it, two vectors are combined."""
    assert torch.add(torch.ones(4), torch.ones(4, 4).sum(dim=1, keepdim=True)).tolist() == [[5] * 4] * 4
    assert torch.add(torch.ones(4), torch.ones(4, 4).sum(dim=1, keepdim=False)).tolist() == [5] * 4


def test_bro_19_fuzzing():
    """The strategies and properties for hypothesis are part of the package. This runs a few examples."""
    hypothesis = pytest.importorskip("hypothesis")
    from rushlight.testing import properties, strategies

    assert {"contiguous", "expanded", "transposed", "sliced"} <= set(strategies.LAYOUTS)
    drawn = []

    @hypothesis.settings(max_examples=30)
    @hypothesis.given(strategies.operands("int", "float"))
    def agrees(arrays):
        drawn.append([array.shape for array in arrays])
        properties.assert_broadcasts(torch.add, np.add, arrays, in_place="add_")

    agrees()
    assert len({str(shapes) for shapes in drawn}) > 5
    with pytest.raises(AssertionError):  # it finds an error
        properties.assert_broadcasts(torch.add, np.subtract, [np.ones(2), np.ones((3, 1))])

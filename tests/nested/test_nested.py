"""`torch.nested`: properties that are not numbers: text, memory, gradients, copies, pickles."""

import copy
import gc
import io
import pickle
import re
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import nested
from rushlight.nn import functional as F

LAYOUTS = [torch.strided, torch.jagged]
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=str)


def pair(layout, **options):
    samples = [torch.arange(6.0).view(2, 3), torch.arange(3.0).view(1, 3) + 10]
    return nested.nested_tensor(samples, layout=layout, **options)


def samples(tensor):
    return [one.tolist() for one in tensor.detach().unbind()]


def test_text_of_the_strided_layout():
    tensor = pair(torch.strided)
    assert repr(tensor) == (
        "nested_tensor([\n  tensor([[0., 1., 2.],\n          [3., 4., 5.]]),\n  tensor([[10., 11., 12.]])\n])"
    )
    tensor.requires_grad_()
    assert repr(tensor).endswith("requires_grad=True)\n], requires_grad=True)")
    assert repr(tensor + 1).endswith("\n], grad_fn=<AddBackward0>)")
    assert f"{tensor}" == str(tensor)


def test_text_of_the_jagged_layout():
    tensor = pair(torch.jagged)
    text = re.sub(r"j\d+", "j", repr(tensor))
    assert text == "NestedTensor(size=(2, j, 3), offsets=tensor([0, 2, 3]), contiguous=True)"
    tensor.requires_grad_()
    assert "requires_grad=True, contiguous=True" in repr(tensor)
    assert re.search(r"grad_fn=<AddBackward0 object at 0x\w+>, contiguous=True\)$", repr(tensor + 1))
    assert "contiguous=False" in repr(tensor.transpose(1, 2))


@layouts
def test_views_share_memory(layout):
    tensor = pair(layout)
    tensor[1].zero_()
    tensor.transpose(1, 2)[0].add_(1)
    assert samples(tensor) == [[[1, 2, 3], [4, 5, 6]], [[0, 0, 0]]]


def test_values_and_offsets_are_shared():
    values, offsets = torch.zeros(3, 2), torch.tensor([0, 1, 3])
    tensor = nested.nested_tensor_from_jagged(values, offsets)
    values.fill_(7)
    assert samples(tensor) == [[[7, 7]], [[7, 7], [7, 7]]]
    assert tensor.offsets() is offsets
    assert tensor.values().data_ptr() == values.data_ptr()


@layouts
def test_construction_copies(layout):
    rows = [torch.zeros(2), torch.zeros(1)]
    tensor = nested.nested_tensor(rows, layout=layout)
    rows[0].fill_(1)
    assert samples(tensor) == [[0, 0], [0]]


@layouts
def test_gradients_reach_the_samples(layout):
    rows = [torch.ones(2, requires_grad=True), torch.full((1,), 3.0, requires_grad=True)]
    nested.as_nested_tensor(rows, layout=layout).to_padded_tensor(0).square().sum().backward()
    assert [row.grad.tolist() for row in rows] == [[2, 2], [6]]


@layouts
def test_gradient_of_a_leaf(layout):
    tensor = pair(layout, requires_grad=True)
    assert tensor.is_leaf
    (tensor * tensor).values().sum().backward()
    assert tensor.grad.is_nested
    assert tensor.grad.layout == layout
    assert samples(tensor.grad) == [[[0, 2, 4], [6, 8, 10]], [[20, 22, 24]]]
    (tensor * 1).values().sum().backward()
    assert samples(tensor.grad)[1] == [[21, 23, 25]]
    tensor.grad = None
    assert tensor.grad is None


@layouts
def test_hooks_get_nested_gradients(layout):
    tensor, seen = pair(layout, requires_grad=True), []

    def hook(gradient):
        seen.append(gradient)
        return gradient * 2

    tensor.register_hook(hook)
    tensor.values().sum().backward()
    assert seen[0].is_nested
    assert samples(tensor.grad)[1] == [[2, 2, 2]]


@layouts
def test_second_derivatives(layout):
    tensor = pair(layout, requires_grad=True)
    cubes = tensor * tensor * tensor
    (first,) = torch.autograd.grad(cubes.values().sum(), tensor, create_graph=True)
    (second,) = torch.autograd.grad(first.values().sum(), tensor)
    assert samples(second)[1] == [[60, 66, 72]]


def test_gradients_across_the_jagged_dimension():
    values = torch.arange(6.0, requires_grad=True)
    offsets = torch.tensor([0, 1, 4, 6])
    tensor = nested.nested_tensor_from_jagged(values, offsets)
    (tensor.sum(1) * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert values.grad.tolist() == [1, 10, 10, 10, 100, 100]
    for function in (
        lambda x: x.softmax(1).values(),
        lambda x: x.mean(1),
        lambda x: x.prod(1),
        lambda x: x.amax(1),
        lambda x: x.to_padded_tensor(0.5),
    ):
        inputs = torch.rand(6, 2, dtype=torch.float64, requires_grad=True)
        torch.autograd.gradcheck(lambda x, f=function: f(nested.nested_tensor_from_jagged(x, offsets)), (inputs,))


def test_attention_is_that_of_each_sample():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 7, 2, 4, dtype=torch.float64, requires_grad=True).unbind()
    offsets = torch.tensor([0, 3, 7])
    made = F.scaled_dot_product_attention(
        *[nested.nested_tensor_from_jagged(one, offsets).transpose(1, 2) for one in (q, k, v)]
    )
    for sample, low, high in zip(made.unbind(), [0, 3], [3, 7]):
        alone = F.scaled_dot_product_attention(*[one[low:high].transpose(0, 1) for one in (q, k, v)])
        torch.testing.assert_close(sample, alone)
    assert made.transpose(1, 2).is_contiguous()


@layouts
def test_pickles_and_copies(layout):
    tensor = pair(layout, requires_grad=True)
    for made in (pickle.loads(pickle.dumps(tensor)), copy.copy(tensor)):
        assert samples(made) == samples(tensor)
        assert made.layout == layout
        assert made.requires_grad
    part = tensor.detach().transpose(1, 2)
    assert samples(pickle.loads(pickle.dumps(part))) == samples(part)


@layouts
@pytest.mark.parametrize("requires_grad", [False, True])
def test_checkpoints(layout, requires_grad):
    tensor, file = pair(layout, requires_grad=requires_grad), io.BytesIO()
    torch.save({"a": tensor}, file)
    made = torch.load(io.BytesIO(file.getvalue()))["a"]
    assert samples(made) == samples(tensor) and made.layout == layout and made.requires_grad is requires_grad


def test_checkpoints_of_parts_that_do_not_fit_are_refused():
    from rushlight._utils import _rebuild_nested_tensor
    from rushlight.nested._internal.nested_tensor import _rebuild_njt

    values, ends = torch.ones(4), torch.tensor([0, 2, 4])

    def rebuilt(*parts):
        return _rebuild_njt(dict(zip(("values", "offsets", "lengths", "_ragged_idx"), parts)))

    assert len(rebuilt(values, ends, None, 1).unbind()) == 2
    for parts in (
        (values, torch.tensor([0, 2, 5]), None, 1),
        (values, torch.tensor([0, 3, 2]), None, 1),
        (values, torch.tensor([-1, 2, 4]), None, 1),
        (values, ends, torch.tensor([2, 3]), 1),
        (values, ends.float(), None, 1),
        (values, ends, None, 2),
        ("values", ends, None, 1),
    ):
        with pytest.raises(RuntimeError):
            rebuilt(*parts)
    sizes, steps, starts = torch.tensor([[2], [1]]), torch.tensor([[1], [1]]), torch.tensor([0, 3])
    assert len(_rebuild_nested_tensor(values, sizes, steps, starts).unbind()) == 2
    for other in (
        (values, sizes + 1, steps, starts),
        (values, sizes, -steps, starts),
        (values, sizes, steps[:1], starts),
        (values, sizes.float(), steps, starts),
        (values, sizes, steps, starts[:1]),
        (values.view(2, 2), sizes, steps, starts),
        (values, [2], steps, starts),
    ):
        with pytest.raises(RuntimeError):
            _rebuild_nested_tensor(*other)


def test_deep_copies():
    tensor = pair(torch.jagged, requires_grad=True)
    made = copy.deepcopy({"a": tensor, "b": tensor})
    assert made["a"] is made["b"]
    made["a"].values().detach().zero_()
    assert samples(tensor)[1] == [[10, 11, 12]]
    with pytest.raises(NotImplementedError, match="aten::new_empty"):
        copy.deepcopy(pair(torch.strided))


def test_the_size_of_a_jagged_dimension():
    offsets = torch.tensor([0, 1])
    first, second = (nested.nested_tensor_from_jagged(torch.ones(1), offsets).size(1) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != nested.nested_tensor_from_jagged(torch.ones(1), offsets.clone()).size(1)
    assert isinstance(first, torch.SymInt)
    name = str(first)
    del offsets
    gc.collect()
    assert str(nested.nested_tensor_from_jagged(torch.ones(1), torch.tensor([0, 1])).size(1)) != name


def test_wrong_offsets_are_errors_and_not_crashes():
    values = torch.ones(3, 2)
    for offsets in ([0, 2, 9], [-5, 1, 3], [2, 1, 3], [0, 0], [7]):
        tensor = nested.nested_tensor_from_jagged(values, torch.tensor(offsets))
        for use in (
            lambda x: x.unbind(),
            lambda x: x.sum(1),
            lambda x: x.softmax(1),
            lambda x: x.to_padded_tensor(0),
            lambda x: x[0],
            lambda x: repr(x + 1),
        ):
            try:
                use(tensor)
            except (RuntimeError, IndexError, ValueError):
                pass
    sizes, steps = torch.tensor([[2, 3]]), torch.tensor([[3, 1]])
    for buffer, start in (torch.ones(5), 0), (torch.ones(6), 1), (torch.ones(6), -1):
        with pytest.raises(RuntimeError):
            torch._nested_view_from_buffer(buffer, sizes, steps, torch.tensor([start]))


def test_plain_tensors_are_not_nested():
    assert not torch.ones(2).is_nested
    with pytest.raises(
        NotImplementedError, match="^Could not run 'aten::to_padded_tensor' with arguments from the 'CPU'"
    ):
        torch.ones(2).to_padded_tensor(0)
    with pytest.raises(RuntimeError, match="_nested_get_values"):
        torch._nested_get_values(torch.ones(2))


def test_parts_of_a_jagged_tensor():
    tensor = nested.nested_tensor_from_jagged(torch.ones(5), torch.tensor([0, 2, 5]), torch.tensor([1, 2]))
    assert torch._nested_get_offsets(tensor).tolist() == [0, 2, 5]
    assert torch._nested_get_lengths(tensor).tolist() == [1, 2]
    assert torch._nested_get_values(tensor).shape == (5,)
    assert torch._nested_get_ragged_idx(tensor) == 1
    assert torch._nested_get_min_seqlen(tensor).shape[0] == 1
    assert torch._nested_get_max_seqlen(tensor).shape[0] == 2


@pytest.mark.parametrize(("start", "length"), [(0, 4), (2, 2), (-1, 1), (0, -1)])
def test_a_part_stays_in_its_sample(start, length):
    rows, starts, lengths = torch.arange(6).view(2, 3), torch.tensor([start, 0]), torch.tensor([length, 1])
    with pytest.raises(
        RuntimeError, match=re.escape(f"start ({start}) + length ({length}) exceeds dimension size (3).")
    ):
        nested.narrow(rows, 1, starts, lengths, layout=torch.jagged)


def test_layers_take_jagged_tensors():
    tensor = pair(torch.jagged)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
    made = model(tensor)
    for found, sample in zip(made.unbind(), tensor.unbind()):
        torch.testing.assert_close(found, model(sample))
    made.sum().backward()
    assert all(one.grad is not None for one in model.parameters())


def test_dropout_draws_for_the_values():
    tensor = pair(torch.jagged)
    torch.manual_seed(3)
    made = F.dropout(tensor, 0.5)
    torch.manual_seed(3)
    assert torch.equal(made.values(), F.dropout(tensor.values(), 0.5))


@pytest.mark.parametrize("weights_only", [True, False])
def test_files_of_torch(weights_only):
    """`jagged.pt` was saved by torch 2.13: parts of two and four rows, of ones and of zeros."""
    made = torch.load(Path(__file__).parents[1] / "data" / "jagged.pt", weights_only=weights_only)
    assert made.layout == torch.jagged and not made.requires_grad
    assert samples(made) == [[[1.0] * 3] * 2, [[0.0] * 3] * 4]
    file = io.BytesIO()
    torch.save(made, file)
    assert samples(torch.load(io.BytesIO(file.getvalue()))) == samples(made)


def test_offsets_that_the_values_do_not_have():
    def made(*offsets):
        return nested.nested_tensor_from_jagged(torch.arange(1.0, 6), torch.tensor(offsets))

    # Padding takes what a slice of the values finds.
    for end in (7, 2**40):
        assert made(0, end).to_padded_tensor(0).tolist() == [[1, 2, 3, 4, 5]]
        assert made(0, end).sum(1).tolist() == [15]
    assert made(5, 0).to_padded_tensor(9).tolist() == [[9] * 5]
    for offsets, sizes in (
        ((0, 3, 2, 5), (4, 0)),
        ((0, 2, 9), (5, 3)),
        ((0, -1, 5), (5, 0)),
        ((-1, 5), (5, 0)),
    ):
        sentence = f"^The size of tensor a .{sizes[0]}. must match the size of tensor b .{sizes[1]}. at non-singleton dimension 0"
        with pytest.raises(RuntimeError, match=sentence):
            made(*offsets).to_padded_tensor(0)
    for offsets in ((0, 2**40), (0, 3, 2, 5), (0, -1, 5), (-1, 5), (5, 0)):
        for call in (lambda x: x.unbind(), lambda x: x[0], lambda x: [*x]):
            with pytest.raises(RuntimeError, match="^Expected cond to be True, but got False"):
                call(made(*offsets))

"""IDX: indexing and concatenation."""

import numpy as np
import pytest

import rushlight as torch


@pytest.fixture
def x():
    """A three-dimensional tensor whose element [i, j, k] is the number ijk."""
    i = torch.arange(5)
    return 100 * i[:, None, None] + 10 * i[:, None] + i


def test_idx_1_lists_of_integers(x):
    """One list per dimension selects one element per position in the lists."""
    assert x[[1, 2], [3, 2], [1, 0]].tolist() == [131, 220]


def test_idx_2_lists_broadcast(x):
    """Lists of different lengths broadcast, and may select an element twice."""
    assert x[[2, 3, 2], [0], [1]].tolist() == [201, 301, 201]


def test_idx_3_lists_of_any_shape(x):
    """The result has the shape of the lists."""
    assert x[[[1, 0], [0, 1]], [0], [1]].tolist() == [[101, 1], [1, 101]]


def test_idx_4_colon_and_ellipsis(x):
    """A colon selects a whole dimension, an ellipsis all remaining ones."""
    for part in (x[[0, 3], :, :], x[[0, 3], ...]):
        assert part.shape == (2, 5, 5) and torch.equal(part, torch.stack([x[0], x[3]]))


def test_idx_5_a_tensor_as_index(x):
    """A tensor of integers is an index like a list."""
    part = x[torch.LongTensor([0, 2, 4]), :, :]
    assert part.shape == (3, 5, 5) and torch.equal(part, x[::2])


def test_idx_6_the_comma(x):
    """A list followed by a comma indexes the first dimension. A list of lists without one is a tuple, with a warning."""
    assert torch.equal(x[[1, 3],], torch.stack([x[1], x[3]]))
    with pytest.warns(UserWarning, match="non-tuple sequence for multidimensional indexing"):
        part = x[[[1, 3], [0, 1]]]
    assert torch.equal(part, torch.stack([x[1, 0], x[3, 1]]))


def test_idx_7_lists_with_a_slice_between():
    """The dimensions of the lists are then first, as in NumPy."""
    block = torch.arange(120).reshape(2, 3, 4, 5)
    for index in ((slice(None), [0, 1], slice(None), [1, 4]), ([0, 1], slice(None), [1, 3])):
        wanted = block.numpy()[index]
        assert block[index].shape == wanted.shape
        np.testing.assert_array_equal(block[index].numpy(), wanted)
    assert block[:, [0, 1], :, [1, 4]].shape == (2, 2, 4)


def test_idx_8_assignment():
    """An assignment writes to the selected elements. With accumulation, repeated indices add. Derivatives are correct."""
    y = torch.zeros(4)
    y[[0, 2]] = torch.tensor([1.0, 2.0])
    assert y.tolist() == [1, 0, 2, 0]
    y.index_put_((torch.tensor([1, 1, 3]),), torch.tensor([1.0, 2.0, 5.0]), accumulate=True)
    assert y.tolist() == [1, 3, 2, 5]
    base, value = torch.ones(3, requires_grad=True), torch.tensor([5.0], requires_grad=True)
    changed = base * 2
    changed[[1]] = value
    changed.sum().backward()
    assert base.grad.tolist() == [2, 0, 2] and value.grad.tolist() == [1]


def test_idx_9_masks(x):
    """A bool mask selects the true elements in order. So does a mask of bytes, with a warning."""
    assert x[x > 440].tolist() == [441, 442, 443, 444]
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
        part = torch.tensor([1, 2, 3])[torch.tensor([1, 0, 1], dtype=torch.uint8)]
    assert part.tolist() == [1, 3]


def test_idx_10_slices_are_narrow(x):
    """A slice is `narrow`: a view of the same memory."""
    part, narrow = x[1:4], torch.narrow(x, 0, 1, 3)
    assert torch.equal(part, narrow) and part.stride() == narrow.stride() == x.stride()
    assert part.data_ptr() == narrow.data_ptr() == x.data_ptr() + x.stride(0) * x.element_size()
    part.zero_()
    assert not x[1:4].any()


def test_idx_11_unbind():
    """It returns a view of each row. Their sum equals the sum along the dimension."""
    torch.manual_seed(0)
    rows = torch.rand(500, 10)
    views = torch.unbind(rows)
    assert len(views) == 500 and all(v.data_ptr() == rows.data_ptr() + 40 * n for n, v in enumerate(views))
    z = torch.zeros(10)
    for view in views:
        z += view
    torch.testing.assert_close(z, torch.sum(rows, 0), rtol=1e-5, atol=1e-4)


def batch_gather(tensor, indices):
    """Selects the rows in `indices` from each matrix of a batch."""
    return torch.stack([rows[places] for rows, places in zip(tensor, indices)])


def batch_gather_at_once(tensor, indices):
    shape = list(tensor.shape)
    flat = tensor.reshape([shape[0] * shape[1], *shape[2:]])
    offset = torch.arange(shape[0]).reshape([shape[0]] + [1] * (indices.dim() - 1)) * shape[1]
    return flat[indices + offset]


def test_idx_12_gather_in_batches():
    """Four ways to select rows from each matrix of a batch agree exactly."""
    torch.manual_seed(0)
    tensor, indices = torch.rand(3, 5, 4), torch.tensor([[0, 4], [2, 2], [1, 0]])
    loop = batch_gather(tensor, indices)
    assert loop.shape == (3, 2, 4) and torch.equal(loop[1, 0], tensor[1, 2])
    assert torch.equal(loop, torch.jit.script(batch_gather)(tensor, indices))
    assert torch.equal(loop, batch_gather_at_once(tensor, indices))
    assert torch.equal(loop, torch.gather(tensor, 1, indices[:, :, None].expand(3, 2, 4)))


def test_idx_13_joined_and_turned():
    """`cat` joins along a dimension, `stack` creates a new one, `flip` reverses the order."""
    forward, backward = torch.ones(50, 50, 1024), torch.zeros(50, 50, 1024)
    joined = torch.cat((forward, backward), dim=2)
    assert joined.shape == (50, 50, 2048) and joined[0, 0, 1023] == 1 and joined[0, 0, 1024] == 0
    assert torch.stack([torch.ones(3), torch.full((3,), 2.0)]).sum(dim=0).tolist() == [3, 3, 3]
    y = torch.arange(6).reshape(3, 2)
    assert torch.flip(y, dims=[0]).tolist() == [[4, 5], [2, 3], [0, 1]]
    assert torch.equal(torch.flip(torch.flip(y, dims=[0]), dims=[0]), y)


def test_idx_14_other_shapes(x):
    """`repeat` copies, `expand_as` broadcasts without a copy, and the error of `view` suggests an alternative."""
    assert torch.tensor([[1], [2]]).repeat([1, 2]).tolist() == [[1, 1], [2, 2]]
    bias, output = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(4, 3)
    stretched = bias.unsqueeze(0).expand_as(output)
    assert stretched.shape == (4, 3) and stretched.stride() == (0, 1) and stretched.data_ptr() == bias.data_ptr()
    assert torch.zeros(2, 1, 3).squeeze().shape == torch.zeros(2, 1, 3).squeeze(1).shape == (2, 3)
    assert list(x.shape) == [5, 5, 5] and x.view(25, 5).data_ptr() == x.data_ptr()
    turned = x.transpose(0, 1)
    with pytest.raises(RuntimeError, match=r"Use \.reshape\(\.\.\.\) instead"):
        turned.view(25, 5)
    assert turned.reshape(25, 5)[1].tolist() == x[1, 0].tolist()


def test_idx_15_masked_scatter():
    """The masked elements get the source's elements in order. The old name works with a warning."""
    mask, source = torch.tensor([True, False, True]), torch.tensor([5.0, 6.0, 7.0])
    assert torch.zeros(3).masked_scatter_(mask, source).tolist() == [5, 0, 6]
    with pytest.warns(DeprecationWarning, match="masked_scatter_"):
        assert torch.zeros(3).masked_copy_(mask, source).tolist() == [5, 0, 6]


def test_idx_16_scatter_add():
    """Values with the same index are added. An invalid index is reported with torch's exception class."""
    ones = torch.tensor([1.0, 2.0, 3.0])
    assert torch.zeros(3).scatter_add(0, torch.tensor([0, 0, 2]), ones).tolist() == [3, 0, 3]
    with pytest.raises((IndexError, RuntimeError), match="index 7 is out of bounds for dimension 0 with size 3"):
        torch.zeros(3).scatter_add(0, torch.tensor([0, 0, 7]), ones)


def test_idx_17_functions_of_indices(x):
    """Functions with one index agree with indexing."""
    index = torch.tensor([3, 0, 3])
    for dim, part in enumerate((x[index], x[:, index], x[:, :, index])):
        assert torch.equal(torch.index_select(x, dim, index), part)
    added, copied, filled = x.clone(), x.clone(), x.clone()
    added.index_add_(0, torch.tensor([1, 1]), x[:2])
    assert torch.equal(added[1], x[1] + x[0] + x[1]) and torch.equal(added[2:], x[2:])
    copied.index_copy_(0, torch.tensor([4]), x[:1])
    assert torch.equal(copied[4], x[0])
    filled.index_fill_(1, torch.tensor([2]), -1)
    assert bool((filled[:, 2] == -1).all()) and torch.equal(filled[:, 3], x[:, 3])
    assert torch.equal(torch.take(x, torch.tensor([0, 6])), x.reshape(-1)[[0, 6]])


def test_idx_18_backwards(x):
    """Slices may have negative steps, without a copy."""
    assert torch.arange(5)[::-1].tolist() == [4, 3, 2, 1, 0] and torch.arange(5)[::-2].tolist() == [4, 2, 0]
    np.testing.assert_array_equal(x[3:0:-2, ::-1].numpy(), x.numpy()[3:0:-2, ::-1])
    turned = x[::-1]
    turned[0, 0, 0] = 999
    assert turned.stride(0) == -25 and x[4, 0, 0] == 999

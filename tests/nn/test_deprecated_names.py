"""Names that torch does not document but that programs import."""

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F


def test_reductions_as_numbers():
    assert [F._Reduction.get_enum(word) for word in ("none", "mean", "sum")] == [0, 1, 2]
    with pytest.warns(UserWarning, match="reduction='elementwise_mean' is deprecated. Please use reduction='mean'"):
        assert F._Reduction.get_enum("elementwise_mean") == 1
    with pytest.raises(ValueError, match="^x is not a valid value for reduction$"):
        F._Reduction.get_enum("x")


def test_masks_and_dimensions():
    hidden = torch.tensor([True, False])
    with pytest.warns(UserWarning, match="Support for mismatched one and other is deprecated"):
        mask = F._canonical_mask(hidden, "one", torch.float32, "other", torch.float64)
    assert mask.tolist() == [-torch.inf, 0] and mask.dtype == torch.float64
    assert F._canonical_mask(mask, "one", None, "", torch.float32) is mask
    with pytest.warns(UserWarning, match="Implicit dimension choice for mine has been deprecated"):
        assert F._get_softmax_dim("mine", 2, 5) == 1


def test_helpers_of_modules():
    assert nn.modules.utils._ntuple(3)(1) == (1, 1, 1) and nn.modules.utils._ntuple(2)([3, 4]) == (3, 4)
    assert nn.modules.module._addindent("a\nb", 2) == "a\n  b"
    assert nn.modules.transformer._get_activation_fn("gelu") is F.gelu
    copies = nn.modules.transformer._get_clones(nn.Linear(1, 1), N=2)
    assert isinstance(copies, nn.ModuleList) and copies[0].weight is not copies[1].weight
    x = torch.ones(2, requires_grad=True)
    assert nn.init._no_grad_fill_(x, 3.0) is x and x.tolist() == [3, 3]
    for name in ("uniform_", "normal_", "trunc_normal_"):
        getattr(nn.init, f"_no_grad_{name}")(x, 1.0, 2.0, *[0.0, 3.0] * (name == "trunc_normal_"))
        assert x.requires_grad and x.is_leaf and x.unique().numel() == 2


def test_many_tensors_in_one():
    given = [torch.arange(4.0).view(2, 2).t(), torch.tensor(5.0), torch.ones(1, 3)]
    flat = torch._utils._flatten_dense_tensors(given)
    assert flat.tolist() == [0, 2, 1, 3, 5, 1, 1, 1]
    back = torch._utils._unflatten_dense_tensors(flat, given)
    assert all(map(torch.equal, given, back))
    back[1].add_(1)
    assert flat[4] == 6 and given[1] == 5


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [(0, [[3], [1], [5], [1], [2], [4]]), (16, [[3, 1], [5], [1], [2], [4]]), (100, [[3, 1, 5, 1], [2], [4]])],
)
def test_chunks_of_tensors(limit, sizes):
    given = [
        torch.ones(3),
        torch.ones(2).double(),
        torch.ones(1),
        torch.ones(5),
        torch.eye(2).to_sparse(),
        torch.ones(1),
    ]
    chunks = list(torch._utils._take_tensors(given, limit))
    assert [[tensor.numel() for tensor in chunk] for chunk in chunks] == sizes
    assert all(len({(tensor.dtype, tensor.is_sparse) for tensor in chunk}) == 1 for chunk in chunks)

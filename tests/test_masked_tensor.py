"""`torch.masked.MaskedTensor`: memory, gradients, warnings, copies. Results are in `nested/test_nested_recorded.py`."""

import copy
import pickle
import warnings

import pytest

import rushlight as torch
from rushlight.masked import MaskedTensor, as_masked_tensor, masked_tensor

MASK = torch.tensor([[True, False, True], [False, True, False]])

pytestmark = [
    pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors"),
    pytest.mark.filterwarnings("ignore:It is not recommended to create"),
]


def data(**options):
    return torch.arange(6.0).view(2, 3).requires_grad_(**options) if options else torch.arange(6.0).view(2, 3)


def test_it_is_a_copy():
    plain = data()
    made = masked_tensor(plain, MASK)
    plain.zero_()
    assert made.sum().item() == 6
    assert isinstance(made, torch.Tensor)


def test_text():
    assert repr(masked_tensor(data(), MASK)) == (
        "MaskedTensor(\n  [\n    [  0.0000,       --,   2.0000],\n    [      --,   4.0000,       --]\n  ]\n)"
    )
    assert repr(masked_tensor(torch.ones(0), torch.ones(0) > 0)) == "MaskedTensor(\n  []\n)"


def test_warnings():
    with pytest.warns(UserWarning, match="prototype stage"):
        masked_tensor(data(), MASK)
    with pytest.warns(
        UserWarning, match="It is not recommended to create a MaskedTensor with a tensor that requires_grad"
    ):
        masked_tensor(data(requires_grad=True), MASK)
    made = masked_tensor(data(), MASK)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made + 1
        made.sum()


def test_gradients():
    leaf = masked_tensor(data(), MASK, requires_grad=True)
    assert leaf.is_leaf
    (leaf * leaf).sum().backward()
    assert isinstance(leaf.grad, MaskedTensor)
    assert leaf.grad.to_tensor(-1).tolist() == [[0, -1, 4], [-1, 8, -1]]
    plain = data(requires_grad=True)
    (as_masked_tensor(plain, MASK) * 3).mean().backward()
    assert plain.grad.tolist() == [[1, 0, 1], [0, 1, 0]]


def test_masked_elements_do_not_spoil_gradients():
    leaf = masked_tensor(torch.tensor([0.0, 4.0]), torch.tensor([False, True]), requires_grad=True)
    (1 / leaf).sum().backward()
    assert leaf.grad.to_tensor(0).tolist() == [0, -1 / 16]


def test_hooks_get_masked_gradients():
    leaf, seen = masked_tensor(data(), MASK, requires_grad=True), []
    leaf.register_hook(seen.append)
    leaf.sum().backward()
    assert isinstance(seen[0], MaskedTensor)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies(copied):
    made = copied(masked_tensor(data(), MASK, requires_grad=True))
    assert isinstance(made, MaskedTensor)
    assert made.requires_grad
    assert made.to_tensor(9).tolist() == [[0, 9, 2], [9, 4, 9]]


def test_sparse_layouts():
    made = masked_tensor(data(), MASK)
    for sparse in made.to_sparse(), made.to_sparse_csr():
        assert sparse.get_data().layout is sparse.layout is not torch.strided
        assert repr(sparse) == repr(made)
        assert sparse.sum().item() == 6
    with pytest.raises(TypeError, match="same layout"):
        masked_tensor(data(), MASK.to_sparse())


def test_functions_without_a_form_are_refused():
    made = masked_tensor(data(), MASK)
    for use, name in (
        (lambda: made.cumsum(0), "cumsum.default"),
        (lambda: made.max(1), "max.dim"),
        (lambda: torch.linalg.norm(made), "linalg_vector_norm.default"),
        (lambda: [*made], "unbind.int"),
    ):
        with pytest.raises(TypeError, match=rf"^Multiple dispatch failed for 'torch._ops.aten.{name}'"):
            use()


def test_functions_of_the_module_take_masked_tensors():
    assert torch.masked.sum(masked_tensor(data(), MASK), 1).tolist() == [2, 4]
    assert torch.masked.amax(masked_tensor(data(), MASK)).item() == 4

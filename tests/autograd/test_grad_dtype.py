"""`Tensor.grad_dtype`: the dtype that a leaf's gradient has."""

import copy

import pytest

import rushlight as torch


def leaf(dtype):
    x = torch.ones(2, requires_grad=True)
    x.grad_dtype = dtype
    return x


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad.double() * 2


def test_it_is_the_dtype_of_the_leaf_by_default():
    for dtype in (torch.float32, torch.complex64, torch.int64):
        assert torch.ones(2).to(dtype).grad_dtype == dtype
    x = torch.ones(2, requires_grad=True)
    x.data = torch.ones(2, dtype=torch.float64)
    assert x.grad_dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.complex64])
def test_backward_casts_the_gradient(dtype):
    x, seen = leaf(dtype), []
    x.register_hook(lambda grad: seen.append(grad.dtype))
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.dtype == dtype and x.grad.tolist() == [5, 5] and seen == [dtype, dtype]
    assert torch.autograd.grad((x * 2).sum(), x)[0].dtype == dtype


def test_a_leaf_may_take_gradients_of_any_dtype():
    x = leaf(None)
    assert x.grad_dtype is None
    Doubled.apply(x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.dtype == torch.float64 and x.grad.tolist() == [5, 5]
    x.grad = torch.ones(2, dtype=torch.float16)
    assert x.grad.dtype == torch.float16


def test_it_may_be_set_after_the_graph():
    x = torch.ones(2, requires_grad=True)
    y = Doubled.apply(x).sum()
    x.grad_dtype = None
    y.backward()
    assert x.grad.dtype == torch.float64


def test_complex_gradients_may_become_real():
    x = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    x.grad_dtype = torch.float32
    (x * 2).sum().abs().backward()
    assert x.grad.tolist() == [2, 2] and x.grad.dtype == torch.float32


def test_copies_have_the_default():
    x = leaf(torch.float64)
    assert x.detach().grad_dtype == copy.deepcopy(x).grad_dtype == torch.nn.Parameter(x).grad_dtype == torch.float32
    x.requires_grad_(False).requires_grad_()
    assert x.grad_dtype == torch.float64


def test_refusals():
    x = leaf(torch.float64)
    with pytest.raises(RuntimeError, match="gradient with dtype 'float' to a tensor with grad_dtype 'Double'"):
        x.grad = torch.ones(2)
    x.grad = torch.ones(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="Cannot set grad_dtype to 'Float' because there is already a gradient"):
        x.grad_dtype = torch.float32
    with pytest.raises(RuntimeError, match="grad_dtype must be a torch.dtype or None, but got int"):
        x.grad_dtype = 3
    with pytest.raises(RuntimeError, match=r"grad_dtype can only be accessed on leaf tensors\."):
        _ = (x * 2).grad_dtype
    with pytest.raises(RuntimeError, match=r"grad_dtype can only be set on leaf tensors\."):
        (x * 2).grad_dtype = None
    x = leaf(torch.int32)
    with pytest.raises(RuntimeError, match="INTERNAL ASSERT FAILED"):
        (x * 2).sum().backward()

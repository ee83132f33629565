"""TEN: creation, attributes and printing of tensors, and exchange with NumPy."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def test_ten_1_one_type_for_every_rank():
    """A number, a vector, a matrix and a three-dimensional array are all tensors."""
    assert repr(torch.tensor(3)) == "tensor(3)"
    assert torch.tensor(3).dtype is torch.int64 and torch.tensor(3).dim() == 0
    assert repr(torch.tensor([1, 2])) == "tensor([1, 2])"
    assert repr(torch.zeros([2, 2])) == "tensor([[0., 0.],\n        [0., 0.]])"
    block = torch.rand([2, 2, 2])
    assert block.shape == (2, 2, 2) and bool(((block >= 0) & (block < 1)).all())


def test_ten_2_tensor_from_data():
    """`torch.tensor` copies, infers a dtype, keeps NumPy's dtype, and warns if its argument is a tensor."""
    inferred = {torch.int64: [1, 2], torch.float32: [1, 2.5], torch.bool: [True], torch.complex64: [1j]}
    assert {torch.tensor(data).dtype: data for data in inferred.values()} == inferred
    array = np.ones(2, "float16")
    copied = torch.tensor(array)
    array[0] = 5
    assert copied.dtype is torch.float16 and copied.tolist() == [1, 1]
    chosen = torch.tensor([1, 2], dtype=torch.float64, device="cpu", requires_grad=True)
    assert (chosen.dtype, chosen.device.type, chosen.requires_grad) == (torch.float64, "cpu", True)
    source = torch.ones(2)
    with pytest.warns(UserWarning, match="To copy construct from a tensor") as caught:
        leaf = torch.tensor(source, requires_grad=True)
    source[0] = 5
    assert len(caught) == 1 and leaf.requires_grad and leaf.is_leaf and leaf.tolist() == [1, 1]


def test_ten_3_sizes_as_a_list_or_one_by_one():
    """The sizes of a new tensor are a list, a tuple, or separate arguments."""
    assert torch.randn([3, 5]).shape == torch.randn(3, 5).shape == (3, 5)
    assert torch.zeros((2, 2)).shape == torch.Size([2, 2]) == (2, 2)
    assert torch.Tensor(5, 5, 5).shape == (5, 5, 5)
    assert isinstance(torch.zeros(2).shape, tuple)


def test_ten_4_makers_of_tensors():
    """Ones, zeros, random numbers, ranges, an identity: values and dtypes are torch's."""
    assert torch.ones(2).tolist() == [1, 1] and torch.zeros(2).tolist() == [0, 0]
    assert torch.arange(10, dtype=torch.float32).tolist() == list(range(10)) and torch.arange(3).dtype is torch.int64
    hundredths = torch.arange(100, dtype=torch.float32) / 100
    assert hundredths.dtype is torch.float32
    np.testing.assert_array_equal(hundredths.numpy(), np.arange(100, dtype="float32") / np.float32(100))
    like = torch.ones_like(torch.zeros(2, 3, dtype=torch.float64), device="meta")
    assert (like.shape, like.dtype, like.device.type) == ((2, 3), torch.float64, "meta")
    assert torch.empty(2, 3).shape == (2, 3)
    assert torch.full((2,), 1.5).tolist() == [1.5, 1.5] and torch.full((2,), 7).dtype is torch.int64
    assert torch.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert 0 <= torch.rand(1000).min() and torch.rand(1000).max() < 1 and torch.randn(1000).min() < 0


def test_ten_5_no_sizes_make_one_number():
    """`torch.ones([])` has no dimensions, and can be passed to a forked task."""
    one = torch.ones([])
    assert one.shape == torch.Size([]) and one.item() == 1
    assert torch.jit.wait(torch.jit.fork(lambda x: x + 1, one)).item() == 2


def test_ten_6_constructors_of_old():
    """The legacy classes such as FloatTensor take sizes or data and determine the dtype. Those for CUDA need a GPU."""
    assert torch.FloatTensor(5, 7, 3).shape == (5, 7, 3) and torch.FloatTensor(5, 7, 3).dtype is torch.float32
    assert torch.LongTensor([0, 2, 4]).tolist() == [0, 2, 4] and torch.LongTensor([0]).dtype is torch.int64
    assert torch.ByteTensor([1, 2]).dtype is torch.uint8
    assert torch.Tensor(10).shape == (10,)
    if torch.cuda.is_available():
        assert torch.cuda.FloatTensor(1).device.type == "cuda"
    else:
        with pytest.raises((TypeError, RuntimeError), match="NVIDIA|not available"):
            torch.cuda.FloatTensor(1)


def test_ten_7_shape_and_size():
    """`x.shape` equals `x.size()`, and a single size is a plain int."""
    x = torch.zeros(4, 5)
    assert x.shape == x.size() == (4, 5)
    assert type(x.shape) is type(x.size()) is torch.Size
    assert type(x.size(0)) is int and x.size(-1) == 5


def test_ten_8_to_numpy():
    """The array shares the tensor's memory. A tensor that requires gradients raises an error with a hint."""
    x = torch.zeros(2, 3)
    array = x.t().numpy()
    array[2, 1] = 7
    assert x[1, 2] == 7
    x[0, 0] = 5
    assert array[0, 0] == 5
    with pytest.raises(RuntimeError, match=r"Use tensor\.detach\(\)\.numpy\(\) instead"):
        torch.ones(1, requires_grad=True).numpy()


def test_ten_9_tensor_of_an_array():
    """A float64 array stays float64, and the text shows the dtype."""
    x = torch.tensor(np.array([2.8194, 4.7365]))
    assert repr(x) == "tensor([2.8194, 4.7365], dtype=torch.float64)"


def test_ten_10_from_numpy():
    """The memory is shared, also for zero-dimensional and reversed arrays."""
    array = np.arange(4.0)
    x = torch.from_numpy(array)
    array[0] = 9
    x[1] = 8
    assert x.tolist() == array.tolist() == [9, 8, 2, 3]
    assert torch.from_numpy(np.array(3.0)).shape == ()
    backwards = torch.from_numpy(array[::-1])
    backwards[0] = 7
    assert backwards.stride() == (-1,) and array.tolist() == [9, 8, 2, 7]


def test_ten_11_text():
    """Tensors, parameters, devices and dtypes print as torch prints them."""
    leaf = torch.ones(2, requires_grad=True)
    assert repr(leaf) == "tensor([1., 1.], requires_grad=True)"
    assert repr(leaf + 2) == "tensor([3., 3.], grad_fn=<AddBackward0>)"
    assert repr(leaf * 2) == "tensor([2., 2.], grad_fn=<MulBackward0>)"
    assert repr(nn.Parameter(torch.ones(2))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert repr(torch.tensor([1.5], dtype=torch.float64)) == "tensor([1.5000], dtype=torch.float64)"
    assert repr(torch.device("cuda:0")) == "device(type='cuda', index=0)"
    assert (repr(torch.float64), repr(torch.Size([2]))) == ("torch.float64", "torch.Size([2])")


def test_ten_12_item():
    """A tensor with one element is converted to a Python number. More elements are an error."""
    items = [torch.tensor(value).item() for value in (1.5, 2, True, 1j)]
    assert [type(item) for item in items] == [float, int, bool, complex] and items == [1.5, 2, True, 1j]
    assert torch.ones(1, 1).item() == 1.0
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        torch.ones(2).item()


def test_ten_13_conversions():
    """Methods named after dtypes, and `.to`, which takes a device and a dtype."""
    x = torch.tensor([1.7])
    assert (x.double().dtype, x.long().dtype, x.long().item()) == (torch.float64, torch.int64, 1)
    assert x.double().float().dtype is torch.float32
    assert repr(torch.tensor([1.5]).to("cpu", torch.double)) == "tensor([1.5000], dtype=torch.float64)"


@pytest.mark.parametrize("device", DEVICES)
def test_ten_14_the_same_program_on_every_device(device):
    """A program sets its device in one place."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2, device=device)
    x = torch.ones(4, 3, device=device)
    model(x).sum().backward()
    assert model.weight.grad.device.type == device
    assert model.weight.grad.cpu().tolist() == [[4, 4, 4], [4, 4, 4]]


def test_ten_15_devices_as_objects_or_words():
    """A device and its name are accepted alike."""
    x = torch.ones(2)
    for kind in ("cpu", "meta"):
        assert x.to(kind).device == x.to(torch.device(kind)).device == torch.device(kind)
    second = torch.device("cuda:1")
    assert (second.type, second.index) == ("cuda", 1) and second == torch.device("cuda", 1)
    assert torch.device("cuda").index is None


def test_ten_16_names_of_arguments():
    """torch's argument names work everywhere, and NumPy's where torch accepts them."""
    x = torch.ones(2, 3)
    assert torch.sum(input=x, dim=1, keepdim=True).shape == (2, 1)
    assert torch.sum(x, axis=1, keepdims=True).shape == x.sum(axis=1, keepdims=True).shape == (2, 1)
    assert torch.flip(x, dims=[0]).shape == (2, 3)
    assert torch.add(x=x, other=x)[0, 0] == x.add(other=x)[0, 0] == 2
    out = torch.empty(2, 3)
    assert torch.mul(x, x, out=out) is out


def test_ten_17_misspelt_names():
    """The error for a missing name contains the owner and the nearest name."""
    for module, wrong, right in (
        (nn, "SeLU", "SELU"),
        (nn, "HardTanh", "Hardtanh"),
        (nn.functional, "cross_entropy_loss", "cross_entropy"),
        (nn.functional, "bce_with_logits", "binary_cross_entropy_with_logits"),
        (torch, "ones_lik", "ones_like"),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(module, wrong)
        assert f"has no attribute '{wrong}'" in str(caught.value) and f"'{right}'" in str(caught.value)
    # For objects the interpreter searches for the nearest name.
    done = subprocess.run(
        [sys.executable, "-c", "import rushlight as torch; torch.ones(2).sume"], capture_output=True, text=True
    )
    assert "'Tensor' object has no attribute 'sume'. Did you mean: 'sum'?" in done.stderr
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not hasattr(torch.ones(2), "sume")

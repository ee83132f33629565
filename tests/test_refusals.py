"""Calls that do not fit a signature are refused in torch's words, whose order depends on how torch writes the function."""

import pytest

import rushlight as torch


def sentence(call):
    """The class and the first line of a call's exception."""
    with pytest.raises(Exception) as caught:
        eval(call, {"torch": torch, "F": torch.nn.functional, "x": torch.ones(2, 3)})
    return f"{caught.type.__name__}: {str(caught.value).splitlines()[0]}"


CASES = """
F.hardswish(axis=x)
TypeError: hardswish() got an unexpected keyword argument 'axis'
F.hardswish()
TypeError: hardswish() missing 1 required positional argument: 'input'
F.batch_norm(x, None)
TypeError: batch_norm() missing 1 required positional argument: 'running_var'
F.mse_loss()
TypeError: mse_loss() missing 2 required positional arguments: 'input' and 'target'
F.batch_norm()
TypeError: batch_norm() missing 3 required positional arguments: 'input', 'running_mean', and 'running_var'
F.mish(x=x)
TypeError: mish() got an unexpected keyword argument 'x'
F.elu(x, 1.0, False, 2)
TypeError: elu() takes from 1 to 3 positional arguments but 4 were given
F.max_pool2d(x, 2, input=x)
TypeError: _max_pool2d() got multiple values for argument 'input'
x.unflatten(1, (3, 1), dim=1)
TypeError: Tensor.unflatten() got multiple values for argument 'dim'
x.split(1, 0, 2)
TypeError: Tensor.split() takes from 2 to 3 positional arguments but 4 were given
torch.norm(x, 3, axis=1)
TypeError: norm() got an unexpected keyword argument 'axis'
torch.meshgrid(tensors=[x])
TypeError: meshgrid() got an unexpected keyword argument 'tensors'
torch.atleast_1d(x, self=x)
TypeError: atleast_1d() got an unexpected keyword argument 'self'
x.sigmoid(self=x)
TypeError: TensorBase.sigmoid() takes no keyword arguments
x.sigmoid(1, dtype=2)
TypeError: TensorBase.sigmoid() takes no keyword arguments
x.prelu(torch.ones(3), input=x)
TypeError: prelu() got an unexpected keyword argument 'input'
x.expand((2, 3), 2)
TypeError: expand() takes 1 positional argument but 2 were given
torch.special.xlog1py(x, x, out=[x])
TypeError: special_xlog1py() received an invalid combination of arguments - got (Tensor, Tensor, out=list), but expected one of:
torch.special.xlog1py(x, input=3, out=x)
TypeError: special_xlog1py() received an invalid combination of arguments - got (Tensor, out=Tensor, input=int), but expected one of:
torch.eye()
TypeError: eye() received an invalid combination of arguments - got (), but expected one of:
torch.mm(x, x, 2)
TypeError: mm() received an invalid combination of arguments - got (Tensor, Tensor, int), but expected one of:
torch.mm(x, 2)
TypeError: mm(): argument 'mat2' (position 2) must be Tensor, not int
torch.hann_window(4, 2)
TypeError: hann_window() received an invalid combination of arguments - got (int, int), but expected one of:
torch.floor(torch.Generator())
TypeError: floor(): argument 'input' (position 1) must be Tensor, not torch._C.Generator
torch.linalg.solve_triangular(x, x, 1, upper=True)
TypeError: linalg_solve_triangular() takes from 3 to 2 positional arguments but 3 were given
torch.linalg.eigh(A=x)
TypeError: linalg_eigh() missing 1 required positional arguments: "input"
torch.linalg.eigvals(2)
TypeError: linalg_eigvals(): argument 'input' (position 1) must be Tensor, not int
torch.conv1d(torch.ones(1, 2, 3), x)
RuntimeError: weight should have at least three dimensions
torch.conv2d(torch.ones(1, 2, 3, 3), torch.ones(2, 2, 1))
RuntimeError: expected stride to be a single integer value or a list of 1 values to match the convolution dimensions, but got stride=[1, 1]
torch.conv1d(torch.ones(1, 2, 3), torch.ones(2, 2, 1, 1), padding='same')
RuntimeError: Expected 4-dimensional input for 4-dimensional weight[2, 2, 1, 1], but got 3-dimensional input of size [1, 2, 3] instead
"""
LINES = CASES.split("\n")[1:-1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("call", "said"), list(zip(LINES[::2], LINES[1::2])), ids=LINES[::2])
def test_a_call_that_does_not_fit(call, said):
    assert sentence(call) == said


@pytest.mark.filterwarnings("ignore")
def test_names_of_functions_in_python_are_accepted():
    x = torch.ones(2, 3)
    assert torch.nn.functional.mish(input=x).equal(torch.nn.functional.mish(x))
    assert torch.split(tensor=x, split_size_or_sections=1)[1].equal(x[1:])
    assert torch.linalg.eigvalsh(input=torch.eye(2)).tolist() == [1.0, 1.0]
    assert [made.shape for made in torch.meshgrid(x[0], x[:, 0], indexing="ij")] == [(3, 2)] * 2

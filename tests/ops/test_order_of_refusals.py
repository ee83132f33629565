"""Which of several faults a call is told of: torch's first one, in torch's words."""

import pytest

import rushlight as torch

ones = torch.ones


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (
            lambda: torch.mean(ones(2, 3).short(), 2),
            RuntimeError,
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Short",
        ),
        (
            lambda: torch.std(ones(3).bool(), 2),
            RuntimeError,
            "std and var only support floating point and complex dtypes",
        ),
        (
            lambda: torch.var_mean(ones(3).int(), 2),
            RuntimeError,
            "var_mean only support floating point and complex dtypes",
        ),
        (
            lambda: torch.meshgrid([ones(2, 3, 4).bool(), ones(3, 2)], indexing="ij"),
            RuntimeError,
            "meshgrid expects all tensors to have the same dtype",
        ),
        (
            lambda: torch.tensordot(ones(2, 0).bool(), ones(2, 3).int()),
            RuntimeError,
            "both inputs should have same dtype",
        ),
        (
            lambda: torch.cdist(ones(3, 1).int(), ones(2, 0)),
            RuntimeError,
            "X1 and X2 must have the same number of columns. X1: 1 X2: 0",
        ),
        (
            lambda: torch.cdist(ones(3, 2).int(), ones(3).int()),
            RuntimeError,
            "cdist only supports at least 2D tensors, X2 got: 1D",
        ),
        (
            lambda: torch.remainder(ones(2, 3).int(), torch.zeros(2, 4).int()),
            RuntimeError,
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
        ),
        (lambda: torch.remainder(ones(3).int(), torch.zeros(3).int()), RuntimeError, "ZeroDivisionError"),
        (
            lambda: ones(3, 2).expand(2, 0),
            RuntimeError,
            "The expanded size of the tensor (0) must match the existing size (2) at non-singleton dimension 1.  "
            "Target sizes: [2, 0].  Tensor sizes: [3, 2]",
        ),
        (
            lambda: ones(3).short().expand_as(torch.tensor(1.0)),
            RuntimeError,
            "expand(torch.ShortTensor{[3]}, size=[]): the number of sizes provided (0) must be greater or equal to the "
            "number of dimensions in the tensor (1)",
        ),
        (
            lambda: ones(3, 1).copy_(ones(3, 3)),
            RuntimeError,
            "output with shape [3, 1] doesn't match the broadcast shape [3, 3]",
        ),
        (lambda: torch.unique(ones(2) * 1j), NotImplementedError, "\"unique\" not implemented for 'ComplexFloat'"),
        (lambda: torch.digamma(ones(2) * 1j), NotImplementedError, "\"digamma\" not implemented for 'ComplexFloat'"),
        (
            lambda: torch.lgamma(ones(2) * 1j),
            NotImplementedError,
            "\"lgamma_vml_cpu\" not implemented for 'ComplexFloat'",
        ),
        (
            lambda: torch.argmax(ones(2).to(torch.uint16)),
            NotImplementedError,
            "\"argmax_cpu\" not implemented for 'UInt16'",
        ),
        (
            lambda: torch.fmax(*[ones(2).to(torch.uint16)] * 2),
            NotImplementedError,
            "\"maximum_cpu\" not implemented for 'UInt16'",
        ),
    ],
)
def test_the_first_fault_is_torchs(call, kind, sentence):
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind and str(caught.value).split("\n")[0] == sentence

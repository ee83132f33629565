"""Calls with several errors report the same one as torch, with torch's message."""

import math
import warnings

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


U16 = torch.uint16


@pytest.mark.parametrize(
    ("call", "kernel", "dtype"),
    [
        (lambda: torch.clamp(ones(2).to(U16), 0, 1), "clamp_scalar_cpu", "UInt16"),
        (lambda: torch.clamp(ones(2).to(U16), 0), "clamp_min_scalar_cpu", "UInt16"),
        (lambda: torch.clamp(ones(2).to(U16), max=0), "clamp_max_scalar_cpu", "UInt16"),
        (lambda: torch.clamp(ones(2).to(U16), ones(2).to(U16)), "maximum_cpu", "UInt16"),
        (lambda: torch.clamp_max(ones(2) * 1j, ones(2)), "minimum_cpu", "ComplexFloat"),
        (lambda: torch.relu(ones(2).to(U16)), "clamp_min_scalar_cpu", "UInt16"),
        (lambda: torch.nn.functional.relu6(ones(2).to(U16)), "clamp_scalar_cpu", "UInt16"),
        (lambda: torch.nn.functional.softshrink(ones(2).int()), "softshrink_check", "Int"),
        (lambda: torch.round(ones(2) * 1j), "round_vml_cpu", "ComplexFloat"),
        (lambda: torch.i0(ones(2) * 1j), "i0_vml_cpu", "ComplexFloat"),
        (lambda: torch.polygamma(0, ones(2) * 1j), "digamma", "ComplexFloat"),
        (lambda: torch.polygamma(1, ones(2) * 1j), "trigamma", "ComplexFloat"),
        (lambda: torch.polygamma(2, ones(2) * 1j), "polygamma", "ComplexFloat"),
        (lambda: torch.softmax(ones(2, 2).long(), 0), "softmax_kernel_impl", "Long"),
        (lambda: torch.log_softmax(ones(2, 2).long(), 1), "log_softmax_lastdim_kernel_impl", "Long"),
        (lambda: torch.median(ones(2, 2).bool(), 1), "median_out", "Bool"),
        (lambda: torch.nanmedian(ones(2, 2) * 1j, 1), "median_out", "ComplexFloat"),
        (lambda: torch.median(ones(2, 2).bool()), "median_cpu", "Bool"),
        (lambda: torch.histc(ones(2) * 1j), "aminmax_cpu", "ComplexFloat"),
        (lambda: torch.histc(ones(2).bool()), "linspace_cpu", "Bool"),
        (lambda: torch.histc(ones(2).long(), 2, 0, 1), "histogram_cpu", "Long"),
        (lambda: torch.index_add(ones(2).to(U16), 0, torch.tensor([0]), ones(1).to(U16)), "index_add_", "UInt16"),
        (lambda: torch.addr(ones(2).to(U16), ones(2).to(U16), ones(2).to(U16)), "addr_cpu", "UInt16"),
        (lambda: torch.inner(ones(2).bool(), ones(2).bool()), "dot", "Bool"),
        (lambda: torch.linalg.cross(ones(3).bool(), ones(3).bool()), "cross", "Bool"),
        (lambda: torch.native_group_norm(ones(2, 4).int(), None, None, 2, 4, 1, 2, 0.1), "GroupNormKernelImpl", "Int"),
        (lambda: torch.nn.functional.avg_pool3d(ones(1, 2, 2, 2).int(), 2), "avg_pool3d_out_frame", "Int"),
        (lambda: torch.nn.functional.adaptive_avg_pool3d(ones(1, 2, 2, 2).int(), 2), "adaptive_avg_pool3d_cpu", "Int"),
        (lambda: torch.nn.functional.adaptive_max_pool2d(ones(1, 2, 2).int(), 2), "adaptive_max_pool2d", "Int"),
        (lambda: torch.max_pool1d_with_indices(ones(1, 2).bool(), 2), "max_pool2d", "Bool"),
        (lambda: torch.nn.functional.multi_margin_loss(ones(3, 4).int(), torch.tensor([0, 1, 2])), "multi_margin_loss_cpu_kernel", "Int"),
        (lambda: torch.nn.functional.grid_sample(ones(1, 1, 2, 2, 2).int(), ones(1, 2, 2, 2, 3).int(), align_corners=True), "grid_sampler3d_cpu", "Int"),
    ],
)  # fmt: skip
def test_a_dtype_is_refused_by_the_kernel_that_torch_names(call, kernel, dtype):
    with pytest.raises(NotImplementedError) as caught:
        call()
    assert str(caught.value).split("\n")[0] == f"\"{kernel}\" not implemented for '{dtype}'"


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda: torch.addmm(ones(2, 2).double(), ones(2, 3), ones(2, 2)), RuntimeError, "self and mat2 must have the same dtype, but got Double and Float"),
        (lambda: torch.addmm(ones(3, 3), ones(2, 3).double(), ones(3, 2)), RuntimeError, "mat1 and mat2 must have the same dtype, but got Double and Float"),
        (lambda: torch.index_add(ones(2), 0, torch.tensor([0, 1, 5]), ones(2, 2).double()), RuntimeError, "index_add_(): self (Float) and source (Double) must have the same scalar type"),
        (lambda: torch.index_add(ones(2, 2), 0, torch.tensor([0, 5]), ones(1, 3)), RuntimeError, "index_add_(): Number of indices (2) should be equal to source.size(dim): (1), for dim: 0"),
        (lambda: torch.index_add(torch.tensor(1.0), 0, torch.tensor([0]), ones(1)), RuntimeError, "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = [] source.shape = [1]"),
        (lambda: torch.index_add(ones(2, 2), 1, torch.tensor([2]), ones(2, 1)), RuntimeError, "index 2 is out of bounds for dimension 1 with size 2"),
        (lambda: torch.index_add(ones(2, 2), 1, torch.tensor([2]), ones(2, 1), alpha=2), IndexError, "index out of range in self"),
        (lambda: torch.index_add(ones(2, 2, 2), 1, torch.tensor([2]), ones(2, 1, 2)), IndexError, "index out of range in self"),
        (lambda: torch.linalg.eigvals(ones(2, 3)), RuntimeError, "linalg.eigvals: A must be batches of square matrices, but they are 2 by 3 matrices"),
        (lambda: torch.empty_strided((2,), (-1,)), RuntimeError, "Storage size calculation overflowed with sizes=[2] and strides=[-1]"),
        (lambda: torch.empty_strided((2**33, 2**33), (2**33, 1)), RuntimeError, "Storage size calculation overflowed with sizes=[8589934592, 8589934592] and strides=[8589934592, 1]"),
        (lambda: torch.empty_strided((-1, 2**33), (0, 0)), RuntimeError, "Trying to create tensor with negative dimension -1: [-1, 8589934592]"),
        (lambda: torch.as_strided(ones(2), (3, 2), (2**62, 1)), RuntimeError, "Storage size calculation overflowed with sizes=[3, 2] and strides=[4611686018427387904, 1]"),
        (lambda: torch.as_strided(ones(2), (2,), (1,), 2**62), RuntimeError, "Storage size calculation overflowed with sizes=[2] and strides=[1]"),
        (lambda: torch.split_copy(ones(4), 2, out=[ones(2)]), RuntimeError, "split_copy() expected an out= argument of size 2, got size 1"),
    ],
)  # fmt: skip
def test_the_first_fault_of_several_tensors(call, kind, sentence):
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind and str(caught.value).split("\n")[0] == sentence


def test_the_place_of_a_result_is_checked_before_the_dtype():
    integers, floats = torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        integers.gcd_(floats)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        floats.bitwise_and_(torch.ones(3, 2, 3))
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.hypot(floats.bool(), floats.bool(), out=torch.empty(1, dtype=torch.bool).expand(2, 3))
    with pytest.raises(NotImplementedError, match="\"gcd_cpu\" not implemented for 'Float'"):
        torch.gcd(floats, floats)


def test_an_operand_is_not_resized_as_the_result():
    x = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match=r"output with shape \[2, 3\] doesn't match the broadcast shape"):
        torch.eq(x.expand(2, 2, 3), x, out=x)
    assert x.tolist() == [[1.0] * 3] * 2


def test_a_resized_result_has_the_order_of_the_operands():
    x = torch.arange(6.0).reshape(2, 3).t()
    for out in (torch.empty(0), torch.empty(5, 3, 3)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.add(x, x, out=out)
        assert out.stride() == (1, 3) and out.tolist() == (2 * x).tolist()


def test_out_may_require_gradients_where_nothing_is_recorded():
    out = torch.empty(2, requires_grad=True)
    assert torch.eq(torch.ones(2), torch.ones(2), out=out) is out
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.add(torch.ones(2), torch.ones(2), out=out)


@pytest.mark.parametrize("function", (torch.block_diag, torch.broadcast_tensors, torch.cartesian_prod))
def test_separate_tensors_are_not_a_list(function):
    x = torch.ones(2)
    for arguments, sentence in (
        (([x, x],), "expected Tensor as element 0 in argument 0, but got list"),
        ((x, 3), "expected Tensor as element 1 in argument 0, but got int"),
    ):
        with pytest.raises(TypeError, match=sentence):
            function(*arguments)
    with pytest.raises(TypeError, match="unexpected keyword argument 'tensors'"):
        function(tensors=[x, x])


def test_a_list_of_results_wants_a_list_of_places():
    with pytest.raises(TypeError, match="argument 'out' must be tuple of Tensors, not Tensor"):
        torch.split_copy(torch.ones(2), 1, out=torch.ones(2))


def test_isin_and_windows_take_the_names_of_one_form():
    x = torch.tensor([1, 2])
    assert torch.isin(x, test_element=2).tolist() == [False, True]
    assert torch.isin(element=2, test_elements=x).item()
    for wrong in ({"test_elements": 2}, {"test_element": x}):
        with pytest.raises(TypeError, match="^isin\\(\\) received an invalid combination of arguments"):
            torch.isin(x, **wrong)
    with pytest.raises(TypeError, match="^kaiser_window\\(\\) received an invalid combination of arguments"):
        torch.kaiser_window(5, beta=1.0)
    assert torch.kaiser_window(5, True, beta=1.0).shape == (5,)


def test_the_order_of_the_checks_of_histc():
    for own in (torch.tensor([True]), torch.tensor([1j])):
        with pytest.raises(RuntimeError, match="bins must be > 0, but got 0 for dimension 0"):
            torch.histc(own, 0)
    with pytest.raises(RuntimeError, match=r"^torch.histc: range of \[nan, 2\] is not finite"):
        torch.histc(torch.ones(2), 2, min=math.nan, max=2)


def test_the_order_of_the_checks_of_ctc_loss():
    """Each call has a fault, and all faults that torch finds later."""
    faults = [
        ("log_probs tensor must not be empty", {"logs": torch.zeros(0, 2, 4)}),
        (
            "Expected 3-dimensional tensor, but got 2-dimensional tensor for argument #1 'log_probs'",
            {"logs": torch.zeros(5)},
        ),
        (
            "Expected 1 to 2 dimensions, but got 3-dimensional tensor for argument #2 'targets'",
            {"targets": torch.ones(1, 2, 3)},
        ),
        ("blank must be in label range", {"blank": 4}),
        ("input_lengths must be of size batch_size", {"steps": [5, 6, 5]}),
        ("target_lengths must be of size batch_size", {"counts": [3]}),
        ("Expected target_lengths to have value at least 0, but got value -1", {"counts": [9, -1]}),
        ("Expected tensor to have size at least 9 at dimension 1, but got size 3 for argument #2", {"counts": [9, 1]}),
        ("Expected input_lengths to have value at least 0, but got value -1", {"steps": [-1, 6]}),
        ("Expected input_lengths to have value at most 5, but got value 6", {"steps": [5, 6]}),
    ]
    for place, (sentence, _) in enumerate(faults):
        call = {
            "logs": torch.zeros(5, 2, 4),
            "targets": torch.ones(2, 3),
            "steps": [5, 5],
            "counts": [3, 3],
            "blank": 0,
        }
        for _, fault in reversed(faults[place:]):
            call.update(fault)
        for lengths in (list, torch.tensor):
            with pytest.raises(RuntimeError) as caught:
                torch.ctc_loss(
                    call["logs"], call["targets"], lengths(call["steps"]), lengths(call["counts"]), call["blank"]
                )
            assert str(caught.value).startswith(sentence), caught.value
    logs, rows = torch.zeros(5, 2, 4), torch.ones(2, 3)
    with pytest.raises(
        RuntimeError, match="Expected tensor to have size 2 at dimension 0, but got size 3 for argument #2 'targets'"
    ):
        torch.ctc_loss(logs, torch.ones(3, 3), [5, 6], [3, 3])
    # The public function takes labels of any dtype, the operator behind it those of two, which it checks early.
    assert torch.equal(torch.ctc_loss(logs, rows, [5, 5], [3, 3]), torch.ctc_loss(logs, rows.long(), [5, 5], [3, 3]))
    sentence = "^Expected tensor for argument #2 'targets' to have scalar type Int; but got torch.FloatTensor instead"
    with pytest.raises(RuntimeError, match=sentence):
        torch._ctc_loss(logs, rows, [5], [3])
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.ctc_loss(torch.zeros(()), rows, [5, 5], [3, 3])

"""Corners in which torch's answer is not the obvious one: what changes in place require, `out=` of factories, the order of
checks, and functions of several modules that refuse their arguments."""

import math

import pytest

import rushlight as torch
import rushlight.nn.functional as F

COMPARISONS = ("eq_", "ne_", "lt_", "le_", "gt_", "ge_")


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_in_place_gives_gradients_of_zero(name):
    weight, other = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)
    changed = weight * 1
    getattr(changed, name)(other)
    changed.sum().backward()
    assert weight.grad.tolist() == [0, 0] and other.grad.tolist() == [0]


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_in_place_with_a_tensor_that_requires_grad_is_recorded(name):
    x = torch.ones(2)
    getattr(x, name)(torch.ones(2, requires_grad=True))
    assert x.requires_grad and not x.is_leaf
    y = torch.ones(2)
    getattr(y, name)(1)
    assert not y.requires_grad
    assert not getattr(torch.ones(2, requires_grad=True), name.rstrip("_"))(1).requires_grad


FACTORIES = {
    "empty": lambda **more: torch.empty(2, **more),
    "zeros": lambda **more: torch.zeros(2, **more),
    "full": lambda **more: torch.full((2,), 3.0, **more),
    "arange": lambda **more: torch.arange(2, **more),
    "eye": lambda **more: torch.eye(2, **more),
    "rand": lambda **more: torch.rand(2, **more),
    "randint": lambda **more: torch.randint(3, (2,), **more),
    "linspace": lambda **more: torch.linspace(0, 1, 2, **more),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_the_keywords_of_a_factory_agree_with_out(name):
    out = torch.ones(2)
    made = FACTORIES[name](out=out, requires_grad=True)
    assert made is out and out.requires_grad
    with pytest.raises(RuntimeError, match=r"^device type meta does not match device type of out parameter \(cpu\)"):
        FACTORIES[name](out=torch.ones(2), device="meta")
    with pytest.raises(RuntimeError, match=r"^layout Sparse does not match layout of out parameter \(Strided\)"):
        FACTORIES[name](out=torch.ones(2), layout=torch.sparse_coo)


def test_empty_only_resizes_out():
    out = torch.arange(4.0)
    assert torch.empty(2, out=out).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="^'memory_format' argument is incompatible with 'out' tensor argument"):
        torch.empty(2, out=out, memory_format=torch.contiguous_format)


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


whole = torch.ones(2, 2, dtype=torch.int64)
WRONG_DTYPES = [
    (lambda: torch.linalg.tensorinv(torch.ones(2, 3), ind=1, out=whole), "tensorinv: Expected result to be safely"),
    (lambda: torch.linalg.tensorsolve(torch.ones(2, 2), torch.ones(2), out=whole), "tensorsolve: Expected result to"),
    (lambda: torch.linalg.cond(torch.ones(2, 3), 1, out=whole), "linalg.cond: Expected result to be safely castable"),
    (lambda: torch.linalg.pinv(torch.tensor(1.0), out=whole), "linalg.pinv: Expected result to be safely castable"),
    (lambda: torch.linalg.matrix_power(torch.ones(2, 2), -1, out=whole), "matrix_power: Expected result to be safely"),
    (
        lambda: torch.linalg.inv(torch.zeros(2, 2), out=whole),
        "Expected out tensor to have dtype float, but got long int",
    ),
    (lambda: torch.linalg.cholesky(torch.zeros(2, 2), out=whole), "Expected out tensor to have dtype float, but got"),
    (
        lambda: torch.linalg.solve(torch.zeros(2, 2), torch.ones(2), out=whole),
        "Expected out tensor to have dtype float",
    ),
    (lambda: torch.linalg.vecdot(torch.ones(2), torch.ones(3), out=whole), "linalg.vecdot: Expected out of dtypeFloat"),
    (lambda: torch.linalg.svdvals(torch.full((2, 2), math.nan), out=whole), "Expected out tensor to have dtype float"),
    (
        lambda: torch.linalg.eigvals(torch.full((2, 2), math.nan), out=whole),
        "torch.linalg.eigvals: Expected eigenvalues",
    ),
    (lambda: torch.histc(torch.ones(2), 0, out=whole), "torch.histogram: input tensor and hist tensor should have the"),
]


@pytest.mark.parametrize(("call", "sentence"), WRONG_DTYPES)
def test_the_dtype_of_out_is_compared_before_anything_is_computed(call, sentence):
    with pytest.raises(RuntimeError) as raised:
        call()
    assert str(raised.value).startswith(sentence)


def test_the_order_of_the_checks_of_histc():
    for own in (torch.tensor([True]), torch.tensor([1j])):
        with pytest.raises(RuntimeError, match="bins must be > 0, but got 0 for dimension 0"):
            torch.histc(own, 0)
    with pytest.raises(RuntimeError, match=r"^torch.histc: range of \[nan, 2\] is not finite"):
        torch.histc(torch.ones(2), 2, min=math.nan, max=2)


def test_a_bias_of_linear_spreads_over_the_rows_of_all_sequences():
    x, weight, bias = torch.ones(2, 2, 3), torch.ones(2, 3), torch.arange(4.0).reshape(4, 1)
    assert F.linear(x, weight, bias)[..., 0].tolist() == [[3, 4], [5, 6]]
    with pytest.raises(
        RuntimeError, match=r"^The expanded size of the tensor \(4\) must match the existing size \(2\)"
    ):
        F.linear(x, weight, torch.ones(2, 1))


def test_long_steps_of_max_pool1d():
    x = torch.arange(4.0).reshape(1, 1, 4)
    assert torch.equal(F.max_pool1d(x, 1, dilation=2**62), x)
    assert F.max_pool1d(x, 1, stride=2**62).tolist() == [[[0]]]
    with pytest.raises(RuntimeError, match="^value cannot be converted to type int without overflow"):
        F.max_pool1d(x.clone().requires_grad_(), 1, dilation=2**62)


def test_affine_grid_shows_the_size_as_it_was_given():
    theta = torch.ones(1, 2, 3)
    with pytest.raises(ValueError, match=r"^Expected non-zero, positive output size. Got \[1, 1, 0, 2\]"):
        F.affine_grid(theta, [1, 1, 0, 2], False)
    with pytest.raises(
        TypeError, match=r"^affine_grid_generator\(\): argument 'size' \(position 2\) must be tuple of ints"
    ):
        F.affine_grid(theta, torch.tensor([1, 1, 2, 2]), False)
    with pytest.raises(TypeError, match="^object of type 'int' has no len"):
        F.affine_grid(theta, 4, False)


def test_parts_of_sparse_complex_tensors():
    values = torch.tensor([1 + 2j, 3j])
    x = torch.sparse_coo_tensor([[0, 2]], values, (3,))
    assert x.real.to_dense().tolist() == [1, 0, 0] and x.imag.to_dense().tolist() == [2, 0, 3]
    assert torch.view_as_real(x).shape == (3, 2)
    with pytest.raises(NotImplementedError):
        x.to_dense().reshape(1, 3).to_sparse_csr().real


def test_kin_of_sparse_tensors():
    coo, csr, bsr = torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr(), torch.eye(2).to_sparse_bsr((1, 1))
    assert csr.new_ones(2, 2)._nnz() == 0 and csr.new_full((2, 2), 3.0).layout == torch.sparse_csr
    with pytest.raises(RuntimeError, match="^empty_sparse_compressed expected sparse compressed"):
        bsr.new_ones(2, 2)
    for call in (lambda: csr.new(2, 2), lambda: csr.new_tensor([1.0])):
        with pytest.raises(RuntimeError, match="^Cannot map DispatchKey SparseCsrCPU to a unique layout"):
            call()
    assert torch.full_like(csr, 2.0).values().tolist() == [2, 2]
    assert torch.ones_like(coo, layout=torch.strided).tolist() == [[1, 1], [1, 1]]
    with pytest.raises(
        RuntimeError, match=r"^empty_like with different sparse layout is not supported \(self is SparseCsr"
    ):
        torch.zeros_like(csr, layout=torch.strided)
    for call, name in ((torch.rand_like, "uniform_"), (lambda x: torch.full_like(x, 1.0), "fill_.Scalar")):
        with pytest.raises(
            NotImplementedError, match=f"^Could not run 'aten::{name}' with arguments from the 'SparseCPU'"
        ):
            call(coo)


def test_norms_of_sparse_tensors():
    coo, csr = torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr()
    with pytest.raises(ValueError, match="^dtype argument is not supported in frobenius norm"):
        coo.norm("fro", dtype=torch.float64)
    with pytest.raises(RuntimeError, match="^norm_sparse currently only supports full reductions"):
        coo.norm(2, dim=0, keepdim=True)
    with pytest.raises(RuntimeError, match="^only valid string values are 'fro' and 'nuc', found x"):
        coo.norm("x")
    with pytest.raises(
        RuntimeError, match=r"^norm\(\): input dtype should be either floating point or complex. Got Long"
    ):
        coo.long().norm(2)
    with pytest.raises(
        NotImplementedError, match="^Could not run 'aten::norm.out' with arguments from the 'SparseCsrCPU'"
    ):
        csr.norm(2)
    with pytest.raises(RuntimeError, match="^resize_reduction: support for output with SparseCsr layout"):
        csr.norm(2, dim=0)


def test_functions_of_modules_refuse_as_torch():
    with pytest.raises(TypeError, match="^expected Tensor as element 0 in argument 0, but got int"):
        torch.nn.utils.rnn.pad_sequence([1, 2])
    with pytest.raises(IndexError, match="^Dimension out of range"):
        torch.nn.utils.weight_norm(torch.nn.Linear(2, 3), dim=7)
    with pytest.raises(RuntimeError, match="^Input shapes should be of type ints, a tuple of ints, or a list of ints"):
        torch.broadcast_shapes(1.5)
    with pytest.raises(RuntimeError, match="Expected primals to contain at least one Tensor"):
        torch.func.jvp(lambda x: x, (), ())
    with pytest.raises(RuntimeError, match="Expected primals to only contain Tensors, got <class 'int'>"):
        torch.func.jvp(lambda x: x, (5,), (5,))
    with pytest.raises(RuntimeError, match="^Only allowed values for randomness are 'error', 'different', or 'same'"):
        torch.func.jacfwd(lambda x: x, randomness="x")(torch.ones(2))
    with pytest.raises(AttributeError, match="named_modules"):
        torch.nn.utils.prune.is_pruned(5)


def test_unpadded_sequences_are_copies():
    padded = torch.ones(3, 2)
    first, _ = torch.nn.utils.rnn.unpad_sequence(padded, torch.tensor([1, 3]))
    first.fill_(5)
    assert padded.sum() == 6

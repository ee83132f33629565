"""Compressed sparse tensors (CSR, CSC, BSR, BSC), compared with dense ones: creation, conversion, products, gradients, text,
files, and errors."""

import copy
import io
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rushlight as torch

LAYOUTS = [torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]
BLOCKS = (torch.sparse_bsr, torch.sparse_bsc)
WHOLE = torch.tensor([[1.0, 0, 2, 0], [0, 0, 0, 3], [0, 4, 0, 0], [0, 0, 0, 0]], dtype=torch.float64)
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=str)


def of(dense, layout):
    return dense.to_sparse(layout=layout, blocksize=(2, 2) if layout in BLOCKS else None)


def indices(tensor):
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices()
    return tensor.ccol_indices(), tensor.row_indices()


@st.composite
def matrices(draw):
    rows, columns = 2 * draw(st.integers(0, 3)), 2 * draw(st.integers(0, 3))
    values = [draw(st.sampled_from([0, 0, 0, 1, -2, 3])) for _ in range(rows * columns)]
    return torch.tensor(values, dtype=torch.float64).reshape(rows, columns)


@given(matrices(), st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS))
def test_conversions(dense, first, second):
    own = of(dense, first)
    assert own.layout is first and own.shape == dense.shape and own.dtype == dense.dtype
    assert torch.equal(own.to_dense(), dense) and torch.equal(own.to_sparse().to_dense(), dense)
    assert torch.equal(of(dense.to_sparse(), first).to_dense(), dense)
    rebuilt = torch.sparse_compressed_tensor(
        *indices(own), own.values(), own.shape, layout=first, check_invariants=True
    )
    assert torch.equal(rebuilt.to_dense(), dense)
    if (second in BLOCKS) or (first not in BLOCKS):
        assert torch.equal(of(own, second).to_dense(), dense)
    assert torch.equal(own.t().to_dense(), dense.t()) and own.t().layout is not first


@given(matrices(), st.sampled_from(LAYOUTS))
def test_arithmetic(dense, layout):
    own = of(dense, layout)
    factor = torch.arange(1.0, 1 + 3 * dense.shape[1], dtype=torch.float64).reshape(dense.shape[1], 3)
    assert torch.equal(own @ factor, dense @ factor) and torch.equal(torch.mm(own, factor), dense @ factor)
    assert torch.equal(own @ factor[:, 0], dense @ factor[:, 0])
    left = torch.arange(1.0, 1 + 2 * dense.shape[0], dtype=torch.float64).reshape(2, dense.shape[0])
    assert torch.equal(left @ own, left @ dense)
    added = torch.ones(dense.shape[0], 3, dtype=torch.float64)
    assert torch.equal(torch.addmm(added, own, factor, beta=2, alpha=3), 2 * added + 3 * (dense @ factor))
    assert torch.equal((own * 2).to_dense(), dense * 2) and torch.equal((-own).to_dense(), -dense)
    assert torch.equal(own.abs().to_dense(), dense.abs()) and torch.equal(own.sin().to_dense(), dense.sin())
    assert torch.equal((own + own).to_dense(), dense * 2) and torch.equal(own + dense, dense * 2)
    assert torch.equal((own * own).to_dense(), dense * dense) and torch.equal((own * dense).to_dense(), dense * dense)
    assert own.sum() == dense.sum() and (own * 2).layout is layout and (own + own).layout is layout
    assert torch.equal((own @ own.t()).to_dense(), dense @ dense.t())


@layouts
def test_text(layout):
    texts = {
        torch.sparse_csr: "tensor(crow_indices=tensor([0, 2, 3, 4, 4]),\n       col_indices=tensor([0, 2, 3, 1]),\n"
        "       values=tensor([1., 2., 3., 4.]), size=(4, 4), nnz=4,\n       dtype=torch.float64, layout=torch.sparse_csr)",
        torch.sparse_csc: "tensor(ccol_indices=tensor([0, 1, 2, 3, 4]),\n       row_indices=tensor([0, 2, 0, 1]),\n"
        "       values=tensor([1., 4., 2., 3.]), size=(4, 4), nnz=4,\n       dtype=torch.float64, layout=torch.sparse_csc)",
        torch.sparse_bsr: "tensor(crow_indices=tensor([0, 2, 3]),\n       col_indices=tensor([0, 1, 0]),\n"
        "       values=tensor([[[1., 0.],\n                       [0., 0.]],\n\n"
        "                      [[2., 0.],\n                       [0., 3.]],\n\n"
        "                      [[0., 4.],\n                       [0., 0.]]]), size=(4, 4), nnz=3, dtype=torch.float64,\n"
        "       layout=torch.sparse_bsr)",
        torch.sparse_bsc: "tensor(ccol_indices=tensor([0, 2, 3]),\n       row_indices=tensor([0, 1, 0]),\n"
        "       values=tensor([[[1., 0.],\n                       [0., 0.]],\n\n"
        "                      [[0., 4.],\n                       [0., 0.]],\n\n"
        "                      [[2., 0.],\n                       [0., 3.]]]), size=(4, 4), nnz=3, dtype=torch.float64,\n"
        "       layout=torch.sparse_bsc)",
    }
    assert repr(of(WHOLE, layout)) == texts[layout]


def test_text_of_short_tensors():
    short = torch.sparse_csr_tensor([[0, 1, 2], [0, 0, 2]], [[0, 1], [0, 1]], [[1, 2], [3, 4]])
    assert repr(short) == (
        "tensor(crow_indices=tensor([[0, 1, 2],\n                            [0, 0, 2]]),\n"
        "       col_indices=tensor([[0, 1],\n                           [0, 1]]),\n"
        "       values=tensor([[1, 2],\n                      [3, 4]]), size=(2, 2, 2), nnz=2, layout=torch.sparse_csr)"
    )
    assert repr(torch.eye(1).to_sparse_csr().requires_grad_()) == (
        "tensor(crow_indices=tensor([0, 1]),\n       col_indices=tensor([0]),\n"
        "       values=tensor([1.]), size=(1, 1), nnz=1, layout=torch.sparse_csr,\n       requires_grad=True)"
    )


@layouts
def test_facts(layout):
    own = of(WHOLE, layout)
    assert not own.is_sparse and own.is_sparse_csr == (layout is torch.sparse_csr)
    assert (own.sparse_dim(), own.dense_dim(), own._nnz()) == (2, 0, 3 if layout in BLOCKS else 4)
    assert own.to(torch.float32).dtype == torch.float32 and own.to(torch.float32).layout is layout
    assert own.clone().layout is own.detach().layout is layout
    assert torch.zeros_like(own)._nnz() == own.clone().zero_()._nnz() == 0
    assert own.clone().copy_(own * 3).to_dense().sum() == 30
    assert own.clone().mul_(2).to_dense().sum() == 20
    own.values()[0] = 9.0
    assert own.to_dense()[0, 0] == 9
    name = str(layout)[-3:].upper()
    with pytest.raises(RuntimeError, match=f"^Sparse {name} tensors do not have strides"):
        own.stride()
    with pytest.raises(
        RuntimeError, match=f"^indices expected sparse coordinate tensor layout but got Sparse{name.title()}"
    ):
        own.indices()
    with pytest.raises(TypeError, match=f"^can't convert Sparse{name.title()} layout tensor to numpy"):
        own.numpy()
    with pytest.raises(RuntimeError, match=f"^unsupported tensor layout: Sparse{name.title()}"):
        own.exp()


def test_batches_and_dense_dimensions():
    both = torch.stack([WHOLE, WHOLE.t().contiguous()])
    for layout in LAYOUTS[:2]:
        batch = both.to_sparse(layout=layout)
        assert batch.shape == (2, 4, 4) and batch._nnz() == 4 and batch.values().shape == (2, 4)
        assert torch.equal(batch.to_dense(), both) and torch.equal(batch[1].to_dense(), both[1])
        assert torch.equal(batch.transpose(1, 2).to_dense(), both.transpose(1, 2)) and batch.sum() == 20
        assert torch.equal(batch.to_sparse().to_dense(), both)
    blocks = WHOLE.repeat(2, 1, 1).to_sparse_bsr((2, 2))
    assert blocks.values().shape == (2, 3, 2, 2) and torch.equal(blocks.to_dense(), WHOLE.repeat(2, 1, 1))
    hybrid = WHOLE.reshape(2, 4, 2).to_sparse_csr(dense_dim=1)
    assert hybrid.dense_dim() == 1 and torch.equal(hybrid.to_dense(), WHOLE.reshape(2, 4, 2))
    assert torch.equal(hybrid.to_sparse_csc().to_dense(), WHOLE.reshape(2, 4, 2))
    with pytest.raises(RuntimeError, match=r"^Expect the same number of specified elements per batch\."):
        torch.stack([WHOLE, WHOLE * 0]).to_sparse_csr()
    with pytest.raises(RuntimeError, match=r"^transpose\(\): can only transpose dimensions of the same type"):
        both.to_sparse_csr().transpose(0, 1)


@layouts
def test_gradients(layout):
    own = of(WHOLE, layout)
    factor = torch.arange(8.0, dtype=torch.float64).reshape(4, 2).requires_grad_()
    values = own.values().clone().requires_grad_()
    compressed, plain = indices(own)

    def made(values):
        return torch.sparse_compressed_tensor(compressed, plain, values, (4, 4), layout=layout)

    for path in (
        lambda x, b: x.to_dense() * 2,
        lambda x, b: x @ b,
        lambda x, b: torch.sparse.mm(x, b),
        lambda x, b: torch.addmm(torch.ones(4, 2, dtype=b.dtype), x, b),
        lambda x, b: b.t() @ x,
        lambda x, b: (x * 3).values(),
        lambda x, b: x.t().to_dense() * 2,
        lambda x, b: x.to_sparse().to_dense() ** 2,
        lambda x, b: (x + x * 2).to_dense(),
    ):
        assert torch.autograd.gradcheck(lambda v, b, path=path: path(made(v), b), (values, factor))


@layouts
def test_gradients_of_leaves_have_their_layout(layout):
    leaf = of(WHOLE, layout).requires_grad_()
    for path in (lambda x: x.to_dense(), lambda x: torch.sparse.mm(x, torch.eye(4, dtype=torch.float64))):
        leaf.grad = None
        weights = torch.arange(1.0, 17.0, dtype=torch.float64).reshape(4, 4)
        (path(leaf) * weights).sum().backward()
        assert leaf.grad.layout is layout
        assert torch.equal(leaf.grad.values(), weights.sparse_mask(leaf.detach()).values())
    leaf.grad = None
    (leaf @ torch.eye(4, dtype=torch.float64)).sum().backward()
    assert leaf.grad.layout is torch.strided and torch.equal(leaf.grad, torch.ones(4, 4, dtype=torch.float64))
    dense = WHOLE.clone().requires_grad_()
    (of(dense, layout) * 3).to_dense().sum().backward()
    assert dense.grad.layout is torch.strided


def test_gradients_accumulate():
    leaf = torch.eye(2).to_sparse_csr().requires_grad_()
    for _ in range(2):
        leaf.to_dense().sum().backward()
    assert leaf.grad.layout is torch.sparse_csr and leaf.grad.values().tolist() == [2.0, 2.0]


@layouts
def test_pickles_and_files(layout):
    own = of(WHOLE, layout)
    buffer = io.BytesIO()
    torch.save({"x": own}, buffer)
    buffer.seek(0)
    for twin in (pickle.loads(pickle.dumps(own)), copy.deepcopy(own), torch.load(buffer)["x"]):
        assert twin.layout is layout and torch.equal(twin.to_dense(), WHOLE)
        assert twin.values().data_ptr() != own.values().data_ptr()
    assert pickle.loads(pickle.dumps(layout)) is layout


INVALID = [
    ("c=torch.tensor(0)", "crow_indices must have dimensionality >= 1 but got 0"),
    ("p=torch.tensor(0)", "crow_indices and col_indices dimensionalities must be equal but got 1 and 0, respectively"),
    (
        "v=torch.tensor(1.)",
        "values must have dimensionality > sum of batch and block dimensionalities (=0 + 0) but got 0",
    ),
    (
        "size=(1,)",
        "tensor dimensionality must be sum of batch, base, and dense dimensionalities (=0 + 2 + 0) but got 1",
    ),
    ("size=(2, 1)", "crow_indices.shape[-1] must be equal to the number of rows + 1 (=3), but got 2"),
    ("p=[0, 1]", "col_indices.shape[-1] must be equal to nnz (=1) as defined by values.shape[0], but got 2"),
    ("c=[1, 1]", "`crow_indices[..., 0] == 0` is not satisfied."),
    ("c=[0, 2]", "`crow_indices[..., -1] == nnz` is not satisfied."),
    (
        "c=[0, 2, 1], size=(2, 1)",
        "`0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols` is not satisfied.",
    ),
    ("p=[-1]", "`0 <= col_indices < ncols` is not satisfied."),
    ("p=[1]", "`0 <= col_indices < ncols` is not satisfied."),
    (
        "c=[0, 2], p=[1, 0], v=[1., 2.], size=(1, 2)",
        "`col_indices[..., crow_indices[..., i - 1]:crow_indices[..., i]] for all i = 1, ..., nrows are sorted and "
        "distinct along the last dimension values` is not satisfied.",
    ),
    ("c=[0., 1.]", "crow_indices and col_indices must have the same dtype, bot got Float and Long, respectively"),
    (
        "layout=torch.sparse_bsr, v=[[[1., 2.]]], size=(1, 3)",
        "tensor shape[1] (=3) must be divisible with blocksize[1] (=2) as defined by values shape",
    ),
    (
        "layout=torch.sparse_bsc, v=[[[1.]]], size=(1, 3)",
        "ccol_indices.shape[-1] must be equal to the number of column blocks + 1 (=4), but got 2",
    ),
    ("layout=torch.sparse_csc, p=[3]", "`0 <= row_indices < nrows` is not satisfied."),
]


def construct(c=(0, 1), p=(0,), v=(1.0,), size=(1, 1), layout=torch.sparse_csr):
    return torch.sparse_compressed_tensor(c, p, v, size, layout=layout, check_invariants=True)


@pytest.mark.parametrize(("arguments", "sentence"), INVALID)
def test_invalid_parts(arguments, sentence):
    with pytest.raises(RuntimeError) as error:
        eval(f"construct({arguments})")
    assert str(error.value).splitlines()[0] == sentence


def test_columns_of_a_row_may_be_in_any_order():
    mixed = torch.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], (1, 2))
    assert mixed.to_dense().tolist() == [[2.0, 1.0]] and (mixed @ torch.eye(2)).tolist() == [[2.0, 1.0]]
    assert mixed.to_sparse().coalesce().values().tolist() == [2.0, 1.0]


CONVERSIONS = [
    (
        "WHOLE.to_sparse(layout=torch.sparse_bsr)",
        "dense_to_sparse: conversion from Strided to SparseBsr without blocksize",
    ),
    (
        "WHOLE.to_sparse_bsr((3, 2))",
        "dense_to_sparse_bsr: tensor sparse size (4,4) must be divisible by given blocksize (3,2)",
    ),
    (
        "WHOLE.to_sparse_bsr((2, 2)).to_sparse_csr()",
        "sparse_compressed_to_sparse_csr: expected SparseCsr or SparseCsc layout",
    ),
    (
        "WHOLE.to_sparse_bsr((2, 2)).to_sparse_bsr((1, 2))",
        "to_sparse_bsr: conversion from SparseBsr to SparseBsr with blocksize changed from [2, 2] to [1, 2]",
    ),
    (
        "WHOLE.to_sparse_csr().to_sparse(1)",
        "sparse_compressed_to_sparse: conversion from SparseCsr to Sparse with sparse_dim argument !=2",
    ),
    (
        "WHOLE.to_sparse().to_sparse(1)",
        "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim()",
    ),
    (
        "WHOLE.to_sparse(1).to_sparse_csr()",
        "coo_to_sparse_csr: conversion from Sparse to SparseCsr for input tensors with sparse_dim()!=2",
    ),
    ("WHOLE.crow_indices()", "crow_indices expected sparse row compressed tensor layout but got Strided"),
    (
        "WHOLE.to_sparse_csc().col_indices()",
        "col_indices expected sparse row compressed tensor layout but got SparseCsc",
    ),
    (
        "torch.sparse_csr_tensor([0], [], [], (0, 0), layout=torch.sparse_csc)",
        "sparse_csr_tensor: layout must be SparseCsr but got SparseCsc",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), CONVERSIONS)
def test_refused_conversions(call, sentence):
    with pytest.raises(RuntimeError) as error:
        eval(call)
    assert str(error.value).startswith(sentence)


def test_changed_indices_are_found():
    own = WHOLE.to_sparse_csr()
    own.col_indices()[0] = 100
    with pytest.raises(RuntimeError, match="no longer describe a sparse tensor"):
        own.to_dense()
    own = WHOLE.to_sparse_csc()
    own.ccol_indices()[1] = -5
    with pytest.raises(RuntimeError, match="no longer describe a sparse tensor"):
        own @ WHOLE


def test_sums_along_dimensions():
    own = WHOLE.to_sparse_csr()
    for dim in (0, 1, (0, 1)):
        assert torch.equal(own.sum(dim, keepdim=True).to_dense(), WHOLE.sum(dim, keepdim=True))
    with pytest.raises(RuntimeError, match="reduction operations on CSR tensors with keepdim=False is unsupported"):
        own.sum(0)


def test_sampled_addmm():
    pattern = WHOLE.to_sparse_csr().requires_grad_()
    a = torch.arange(8.0, dtype=torch.float64).reshape(4, 2).requires_grad_()
    b = torch.arange(8.0, dtype=torch.float64).reshape(2, 4).requires_grad_()
    result = torch.sparse.sampled_addmm(pattern, a, b, beta=2.0, alpha=0.5)
    assert torch.equal(result.to_dense(), WHOLE * 2 + 0.5 * (a @ b) * (WHOLE != 0))
    result.to_dense().sum().backward()
    assert pattern.grad.values().tolist() == [2.0] * 4 and a.grad[3].tolist() == [0.0, 0.0]
    assert torch.equal(a.grad, 0.5 * (WHOLE != 0).double() @ b.t()) and torch.equal(
        b.grad, 0.5 * a.t() @ (WHOLE != 0).double()
    )
    with pytest.raises(
        RuntimeError, match=r"^sampled_addmm: mat1 and mat2 shapes cannot be multiplied \(4x2 and 4x2\)"
    ):
        torch.sparse.sampled_addmm(pattern, a, a)


def test_numpy_values_agree():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(6, 8)) * (rng.random((6, 8)) < 0.3)
    own, factor = torch.from_numpy(dense).to_sparse_csr(), rng.normal(size=(8, 3))
    assert np.allclose((own @ torch.from_numpy(factor)).numpy(), dense @ factor)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "bsc"])
def test_a_dense_tensor_takes_no_compressed_product(kind):
    block = (1, 1) if kind.startswith("bs") else None
    compressed = torch.eye(2).to_sparse(layout=getattr(torch, f"sparse_{kind}"), blocksize=block)
    dense = torch.ones(2, 2)
    for call in (
        dense.mul_,
        dense.__imul__,
        lambda other: torch.mul(dense, other, out=dense),
        torch.ones(2, 2).long().mul_,
        *([lambda other: torch.mul(other, other, out=dense)] if kind == "csr" else []),
    ):
        with pytest.raises(RuntimeError, match="^Expected result Tensor to be of format CSR"):
            call(compressed)
    with pytest.raises(RuntimeError, match=f"^unsupported tensor layout: Sparse{kind.title()}"):
        dense.sub_(compressed)
    assert torch.equal(dense, torch.ones(2, 2))

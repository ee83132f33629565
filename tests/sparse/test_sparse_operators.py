"""Operators and functions of sparse tensors, compared with dense ones: functions of the values, sums, products, softmax,
constructors."""

import pytest

import rushlight as torch

WHOLE = torch.tensor([[1.0, 0, 2], [0, 0, -3], [0, 0.5, 0]])
REPEATED = torch.sparse_coo_tensor([[0, 0, 1, 2], [0, 0, 2, 1]], [0.25, 0.25, -0.75, 0.5], (3, 3))

UNARY = """abs absolute angle arcsin arcsinh arctan arctanh asin asinh atan atanh ceil deg2rad erf erfinv expm1 fix floor frac
    isinf isnan isneginf isposinf log1p nan_to_num neg negative positive rad2deg relu round sgn sign signbit sin sinh sqrt
    square tan tanh trunc""".split()


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_the_values(name):
    for own in (REPEATED, REPEATED.to_sparse_csr(), REPEATED.to_dense().to_sparse_bsr((1, 3))):
        result, expected = getattr(torch, name)(own), getattr(torch, name)(own.to_dense())
        assert result.layout is own.layout and result.dtype == expected.dtype
        assert torch.equal(torch.nan_to_num(result.to_dense()), torch.nan_to_num(expected))


@pytest.mark.parametrize("name", ["abs", "neg", "relu", "sgn"])
def test_their_gradients(name):
    for layout in (torch.sparse_coo, torch.sparse_csr):
        leaf = WHOLE.to_sparse(layout=layout).requires_grad_()
        weights = torch.arange(1.0, 10.0).reshape(3, 3)
        (getattr(torch, name)(leaf).to_dense() * weights).sum().backward()
        dense = WHOLE.clone().requires_grad_()
        (getattr(torch, name)(dense) * weights).sum().backward()
        assert torch.equal(leaf.grad.to_dense(), dense.grad * (WHOLE != 0))


def test_functions_that_change_the_tensor():
    own = WHOLE.to_sparse()
    assert own.sin_() is own and torch.equal(own.to_dense(), WHOLE.sin())
    whole = WHOLE.to_sparse().int()
    assert whole.copy_(WHOLE.to_sparse()) is whole and whole.dtype == torch.int32
    assert torch.equal(whole.to_dense(), WHOLE.int())


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1, (0, 1), 2, (1, 2), (0, 1, 2)])
def test_sums_along_dimensions(dim, keepdim):
    whole = torch.arange(12).reshape(2, 3, 2)
    for own in (whole.to_sparse(), whole.to_sparse(2)):
        result = torch.sum(own, dim, keepdim=keepdim)
        assert torch.equal(result.to_dense(), whole.sum(dim, keepdim=keepdim))
    assert torch.sum(whole.int().to_sparse(), dim).dtype == torch.int64
    assert torch.sum(whole.to_sparse(), dim, dtype=torch.float32).dtype == torch.float32
    # A dimension of entries that are blocks, and one of the blocks alone.
    assert torch.sum(whole.to_sparse(1), 0).layout is torch.strided
    assert torch.equal(torch.sum(whole.to_sparse(1), 2).to_dense(), whole.sum(2))


def test_further_operators():
    own = WHOLE.to_sparse()
    assert own.any() and not torch.zeros_like(own).any()
    assert torch.equal(own.unsqueeze(1).to_dense(), WHOLE.unsqueeze(1))
    assert torch.equal(own[None].to_dense(), WHOLE[None])
    assert torch.equal((own // 2).to_dense(), WHOLE // 2)
    assert torch.equal((own * WHOLE[0]).to_dense(), WHOLE * WHOLE[0])
    assert torch.equal(torch.dist(own, own * 3), torch.dist(WHOLE, WHOLE * 3))
    assert own.new_zeros(2, 3).layout is torch.sparse_coo and own.new_zeros(2, 3).shape == (2, 3)
    assert torch.ones_like(own.to_sparse_csr()).values().tolist() == [1.0] * 4
    assert own.type() == "torch.sparse.FloatTensor"


def test_products():
    both = torch.stack([WHOLE, WHOLE.t() + 1])
    factor = torch.arange(12.0).reshape(2, 3, 2)
    assert torch.equal(torch.bmm(both.to_sparse(), factor), torch.bmm(both, factor))
    own = WHOLE.to_sparse()
    for weight in (own, own.to_sparse_csr()):
        assert torch.equal(torch.nn.functional.linear(WHOLE, weight), WHOLE @ WHOLE.t())
        assert torch.equal(torch.nn.functional.linear(both, weight), both @ WHOLE.t())
    biased = torch.nn.functional.linear(WHOLE, own.to_sparse_csr(), WHOLE[0])
    assert torch.equal(biased, WHOLE @ WHOLE.t() + WHOLE[0])
    for product in (torch.spmm, torch.dsmm, torch.hspmm, torch.smm):
        assert torch.equal(product(own, WHOLE).to_dense(), WHOLE @ WHOLE)
    for product in (torch.spmm, torch.dsmm):
        out = torch.empty(0)
        assert product(own, WHOLE, out=out) is out and torch.equal(out, WHOLE @ WHOLE)
        with pytest.raises(
            NotImplementedError, match="Could not run 'aten::mm.dtype' with arguments from the 'SparseCPU'"
        ):
            product(own, WHOLE, torch.float32)
    assert torch.hspmm(own, WHOLE).dense_dim() == 1 and torch.smm(own, WHOLE)._nnz() == 9
    added = torch.sspaddmm(own, own, WHOLE, beta=2, alpha=3)
    assert added.is_sparse and torch.equal(added.to_dense(), 2 * WHOLE + 3 * (WHOLE @ WHOLE))


def test_gradients_of_batched_products():
    values = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    factor = torch.arange(8.0, dtype=torch.float64).reshape(2, 2, 2).requires_grad_()
    places = torch.tensor([[0, 0, 1], [0, 1, 0], [1, 1, 0]])

    def product(values, factor):
        return torch.bmm(torch.sparse_coo_tensor(places, values, (2, 2, 2)), factor)

    assert torch.autograd.gradcheck(product, (values, factor))


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("sparse_dim", [1, 2, 3])
def test_softmax(dim, sparse_dim):
    whole = torch.arange(12.0, dtype=torch.float64).reshape(2, 3, 2) + 1
    values = whole.to_sparse(sparse_dim).values().clone().requires_grad_()
    indices = whole.to_sparse(sparse_dim).indices()

    def own(values):
        return torch.sparse_coo_tensor(indices, values, (2, 3, 2))

    for function, dense in ((torch.sparse.softmax, torch.softmax), (torch.sparse.log_softmax, torch.log_softmax)):
        result = function(own(values), dim)
        assert result.sparse_dim() == sparse_dim and torch.allclose(result.to_dense(), dense(whole, dim))
    assert torch.autograd.gradcheck(lambda values: torch.sparse.softmax(own(values), dim).to_dense(), values)


def test_softmax_is_over_the_stored_elements():
    result = torch.sparse.softmax(WHOLE.to_sparse(), 1)
    assert torch.equal(result.indices(), WHOLE.to_sparse().indices())
    assert torch.allclose(result.values(), torch.tensor([0.26894143, 0.73105860, 1.0, 1.0]))
    assert torch.equal(torch.sparse.softmax(WHOLE.to_sparse(), 1, half_to_float=False).values(), result.values())
    with pytest.raises(RuntimeError, match="^softmax: with half to float conversion is not supported on cpu$"):
        torch.sparse.softmax(input=WHOLE.to_sparse(), dim=1, half_to_float=True)
    assert torch.sparse.softmax(REPEATED, 1).values().tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(NotImplementedError, match="\"softmax\" not implemented for 'Int'"):
        torch.sparse.softmax(WHOLE.int().to_sparse(), 1)
    with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"):
        torch.sparse.softmax(WHOLE.to_sparse(), 2)
    with pytest.raises(
        NotImplementedError, match="Could not run 'aten::_sparse_softmax' with arguments from the 'CPU'"
    ):
        torch.sparse.softmax(WHOLE, 1)


def test_spdiags():
    diagonals, offsets = torch.arange(9.0).reshape(3, 3), torch.tensor([0, -1, 1])
    made = torch.sparse.spdiags(diagonals, offsets, (3, 3))
    assert made._indices().tolist() == [[0, 1, 2, 1, 2, 0, 1], [0, 1, 2, 0, 1, 1, 2]]
    assert made._values().tolist() == [0, 1, 2, 3, 4, 7, 8]
    for layout in (torch.sparse_csr, torch.sparse_csc):
        other = torch.sparse.spdiags(diagonals, offsets, (3, 3), layout)
        assert other.layout is layout and torch.equal(other.to_dense(), made.to_dense())
    wide = torch.sparse.spdiags(torch.arange(1.0, 9.0).reshape(2, 4), torch.tensor([2, -2]), (3, 5))
    assert wide._indices().tolist() == [[0, 1, 2], [2, 3, 0]] and wide._values().tolist() == [3, 4, 5]
    with pytest.raises(RuntimeError, match=r"^Number of diagonals \(3\) does not match the number of offsets \(1\)"):
        torch.sparse.spdiags(diagonals, torch.tensor([0]), (3, 3))
    with pytest.raises(
        RuntimeError, match=r"^Only output layouts \(Sparse, SparseCsc, SparseCsr\) are supported, got SparseBsr"
    ):
        torch.sparse.spdiags(diagonals, offsets, (3, 3), torch.sparse_bsr)


def test_norms_and_conjugates():
    own = torch.tensor([[3.0, 0.0], [0.0, 4.0]]).to_sparse()
    for norm in (own.norm(), own.norm("fro"), torch.norm(own, 2, (0, 1)), torch.frobenius_norm(own, (0, 1))):
        assert norm.item() == 5.0
    with pytest.raises(RuntimeError, match="^norm_sparse currently only supports full reductions"):
        torch.norm(own, "fro", 0)
    with pytest.raises(RuntimeError, match="^norm_sparse currently does not support keepdim=True"):
        torch.frobenius_norm(own, (0, 1), True)
    own = (own * 1j).conj()
    assert not own.is_conj() and own.to_dense().tolist() == [[-3j, 0], [0, -4j]]


def test_few_entries_are_coalesced():
    for count in (0, 1):
        own = torch.sparse_coo_tensor(torch.ones(2, count, dtype=torch.int64), torch.ones(count), (2, 3))
        assert own.is_coalesced() and own.indices().shape == (2, count) and own.values().shape == (count,)
    assert not torch.sparse_coo_tensor(torch.tensor([[0, 0]]), torch.ones(2), (2,)).is_coalesced()


def test_new_tensors_have_the_layout():
    own = torch.eye(2).to_sparse()
    for made in (
        own.new_empty((2, 3)),
        own.new_zeros((2, 3)),
        torch.ones(1).new_empty((2, 3), layout=torch.sparse_coo),
    ):
        assert made.layout == torch.sparse_coo and made.shape == (2, 3) and made._nnz() == 0
    assert own.to_sparse_csr().new_empty((2, 3)).layout == torch.sparse_csr
    assert own.new_ones((2,), layout=torch.strided).tolist() == [1.0, 1.0]
    assert (
        own.new(2, 3).layout == torch.sparse_coo
        and own.new().shape == (0,)
        and own.double().new(1).dtype == torch.float64
    )
    assert torch.equal(own.new(own._indices(), own._values()).to_dense(), torch.eye(2))
    with pytest.raises(TypeError, match=r"^SparseTensor.new\(sequence\) only accepts sizes"):
        own.new([1, 2])
    with pytest.raises(RuntimeError, match="^expected scalar type Long but found Float"):
        own.new(torch.zeros(1, 1), torch.ones(1))
    for make in (own.new_ones, lambda size: own.new_full(size, 2.0)):
        with pytest.raises(
            NotImplementedError, match="^Could not run 'aten::fill_.Scalar' with arguments from the 'SparseCPU'"
        ):
            make((2,))


def test_legacy_types_are_deprecated():
    torch.set_warn_always(True)
    try:
        for arguments in (
            (2, 3),
            (torch.tensor([[0, 1]]), torch.ones(2)),
            (torch.tensor([[0, 1]]), torch.ones(2), (3,)),
        ):
            with pytest.warns(UserWarning, match=r"^torch.sparse.SparseTensor\(.*\) is deprecated"):
                torch.sparse.FloatTensor(*arguments)
    finally:
        torch.set_warn_always(False)


@pytest.mark.filterwarnings("ignore:torch.sparse.SparseTensor")
def test_legacy_types():
    indices, values = torch.tensor([[0, 1]]), torch.tensor([1.0, 2.0])
    assert torch.sparse.FloatTensor(indices, values, (3,)).to_dense().tolist() == [1.0, 2.0, 0.0]
    assert torch.sparse.FloatTensor(indices, values).shape == (2,)
    assert torch.sparse.DoubleTensor(2, 3).shape == (2, 3) and torch.sparse.LongTensor(2).dtype == torch.int64
    assert torch.sparse.FloatTensor(torch.Size([2, 3]))._nnz() == 0 and torch.sparse.FloatTensor().shape == (0,)
    with pytest.raises(RuntimeError, match="^legacy constructor expects device type: cpu but device type: meta"):
        torch.sparse.FloatTensor(indices, values, device="meta")
    own = WHOLE.to_sparse()
    assert isinstance(own, torch.sparse.FloatTensor) and not isinstance(own, torch.sparse.DoubleTensor)
    assert not isinstance(own, torch.FloatTensor) and not isinstance(WHOLE, torch.sparse.FloatTensor)
    assert own.type(torch.sparse.DoubleTensor).dtype == torch.float64
    assert repr(torch.sparse.FloatTensor) == "<class 'torch.sparse.FloatTensor'>"
    with pytest.raises(TypeError, match=r"^torch.sparse.SparseTensor\(sequence\) only accepts sizes"):
        torch.sparse.FloatTensor([1, 2])
    with pytest.raises(TypeError, match="^only dense types are supported as the default type"):
        torch.set_default_tensor_type(torch.sparse.FloatTensor)
    with pytest.raises(AttributeError):
        torch.sparse.BoolTensor


def test_constructors_with_a_layout():
    for make in (torch.zeros, torch.empty):
        coo = make(2, 3, layout=torch.sparse_coo, dtype=torch.int64, requires_grad=False)
        assert coo.layout is torch.sparse_coo and (coo.shape, coo._nnz(), coo.dtype) == ((2, 3), 0, torch.int64)
        for layout in (torch.sparse_csr, torch.sparse_csc):
            made = make(2, 3, layout=layout)
            assert made.layout is layout and made._nnz() == 0 and torch.equal(made.to_dense(), torch.zeros(2, 3))
    with pytest.raises(RuntimeError, match="expected sparse compressed .non-block. tensor layout but got SparseBsr"):
        torch.zeros(2, 4, layout=torch.sparse_bsr)
    with pytest.raises(RuntimeError, match=r"^torch.empty: Only batched sparse compressed .* but got size \[2\]"):
        torch.zeros(2, layout=torch.sparse_csr)


def test_zeros_like_in_a_layout():
    x = torch.ones(2, 3, dtype=torch.int64)
    for layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
        made = torch.zeros_like(x, layout=layout)
        assert made.layout is layout and (made.shape, made.dtype, made._nnz()) == (x.shape, x.dtype, 0)
        if layout is torch.sparse_coo:
            dense = torch.zeros_like(made, layout=torch.strided, dtype=torch.float32)
            assert dense.layout is torch.strided and torch.equal(dense, torch.zeros(2, 3))
    assert torch.zeros_like(WHOLE.to_sparse_csr(), layout=torch.sparse_csc).layout is torch.sparse_csc
    assert torch.zeros_like(WHOLE.to_sparse(), layout=torch.sparse_csr).layout is torch.sparse_csr
    with pytest.raises(RuntimeError, match="expected sparse compressed .non-block. tensor layout but got SparseBsr"):
        torch.zeros_like(x, layout=torch.sparse_bsr)
    for make in (
        torch.empty_like,
        torch.ones_like,
        torch.rand_like,
        lambda x, layout: torch.full_like(x, 1, layout=layout),
    ):
        with pytest.raises(NotImplementedError, match="Could not run 'aten::empty_strided' .* the 'SparseCPU' backend"):
            make(torch.ones(2, 3), layout=torch.sparse_coo)


def test_sparse_tensors_on_meta_have_no_entries():
    for own in (REPEATED, REPEATED.to_sparse_csr()):
        moved = own.to("meta")
        assert moved.device.type == "meta" and moved.layout is own.layout and moved.shape == own.shape
        assert moved._nnz() == 0 and moved.values().device.type == "meta" and own.device.type == "cpu"
        assert moved.to(torch.float64).dtype == torch.float64 and moved.clone().device == moved.device
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            moved.cpu()
    made = torch.zeros(2, 3, layout=torch.sparse_coo, device="meta")
    assert made.device.type == "meta" and torch.zeros_like(made).device.type == "meta"
    assert torch.zeros_like(REPEATED, device="meta").device.type == "meta"


def test_principal_components_of_sparse_matrices():
    torch.manual_seed(0)
    x = torch.rand(12, 7, dtype=torch.float64)
    x = x * (x > 0.5)
    mean = x.mean(0, keepdim=True)
    for own, whole in ((x, x), (x.T, x.T)):
        for center, shift in ((True, whole.mean(0, keepdim=True)), (False, 0)):
            u, s, v = torch.pca_lowrank(own.to_sparse(), q=7, center=center)
            assert torch.allclose(u @ torch.diag(s) @ v.mT, whole - shift)
            assert u.layout is torch.strided
    u, s, v = torch.svd_lowrank(x.to_sparse(), 7, M=mean.expand(12, 7))
    assert torch.allclose(u @ torch.diag(s) @ v.mT, x - mean)
    with pytest.raises(ValueError, match="pca_lowrank input is expected to be 2-dimensional tensor"):
        torch.pca_lowrank(torch.ones(2, 3, 4).to_sparse(), 2)


@pytest.mark.parametrize("convert", [lambda a: a.to_sparse(), lambda a: a.to_sparse_csr()])
def test_eigenvalues_of_sparse_matrices(convert):
    torch.manual_seed(0)
    a = torch.diag(torch.arange(1.0, 13.0, dtype=torch.float64))
    values, vectors = torch.lobpcg(convert(a), 2)
    assert torch.allclose(values, torch.tensor([12.0, 11.0], dtype=torch.float64), atol=1e-5)
    assert torch.allclose(a @ vectors, vectors * values, atol=1e-4)
    values, _ = torch.lobpcg(convert(a), 2, B=convert(torch.eye(12, dtype=torch.float64) * 2), largest=False)
    assert torch.allclose(values, torch.tensor([0.5, 1.0], dtype=torch.float64), atol=1e-5)


def test_norm_of_all_elements():
    x = torch.tensor([[3.0, 0.0], [0.0, -4.0]]).to_sparse()
    assert torch.native_norm(x).item() == torch.native_norm(x, 2, [0, 1], False, None).item() == 5
    assert torch.native_norm(x, 1).item() == torch.native_norm(x + x, 1).item() / 2 == 7
    for arguments, sentence in (
        ((2, [0], False, None), "only supports full reductions"),
        ((2, [], True, None), "does not support keepdim=True"),
        ((None, [], False, torch.float32), "does not support 'dtype' argument"),
    ):
        with pytest.raises(RuntimeError, match=f"norm_sparse currently {sentence}"):
            torch.native_norm(x, *arguments)
    with pytest.raises(NotImplementedError, match="native_norm"):
        torch.native_norm(x.to_dense())


def test_products_as_methods():
    x, y = torch.tensor([[1.0, 2.0], [0.0, 3.0]]), torch.tensor([[1.0, 0.0], [2.0, 1.0]])
    sparse = x.to_sparse()
    assert torch.equal(sparse.smm(y).to_dense(), x @ y)
    assert torch.equal(sparse.sspaddmm(sparse, y, beta=2, alpha=3).to_dense(), 2 * x + 3 * (x @ y))


def test_products_into_given_tensors():
    x = torch.arange(6.0).reshape(2, 3) + 1
    for shape in ((2, 2), (5, 5)):
        out = torch.zeros(shape).to_sparse()
        assert torch.hspmm(x.to_sparse(), x.T, out=out) is out
        assert torch.equal(out.to_dense(), x @ x.T)
        assert torch.sspaddmm(torch.eye(2).to_sparse(), x.to_sparse(), x.T, alpha=2, out=out) is out
        assert torch.equal(out.to_dense(), torch.eye(2) + 2 * (x @ x.T))
    with pytest.raises(RuntimeError, match=r"dtype of values \(Float\) must match dtype of sparse tensor \(Double\)"):
        torch.hspmm(x.to_sparse(), x.T, out=torch.zeros(2, 2).double().to_sparse())
    rows = torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.ones(2, 3), (3, 3))
    with pytest.raises(RuntimeError, match="^hspmm: Argument #2: matrices expected, got 1D tensor$"):
        torch.hspmm(rows, torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="must be a sparse tensor"):
        torch.hspmm(x.to_sparse(), x.T, out=torch.zeros(2, 2))


def test_classes_see_sparse_functions_under_torchs_names():
    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    x = torch.ones(2, 2).as_subclass(Named)
    assert (torch.sparse.mm(x, x), torch.sparse.addmm(x, x, x), torch.sparse.sum(x)) == (
        "_sparse_mm",
        "_sparse_addmm",
        "_sparse_sum",
    )
    assert (torch.spmm(x, x), torch.dsmm(x, x), torch.hsmm(x, x)) == ("mm", "mm", "hspmm")
    with pytest.raises(TypeError, match=r"_sparse_mm\(\) missing 1 required positional arguments"):
        torch.sparse.mm(x, unknown=1)


def test_results_of_products_in_a_given_layout():
    a, b = WHOLE, WHOLE.t().contiguous()
    expected = WHOLE + 2 * (a @ b)
    for first in (a.to_sparse(), a.to_sparse_csr(), a.to_sparse_csc(), a.to_sparse_bsr((1, 3))):
        own = WHOLE.clone()
        assert own.addmm_(first, b, alpha=2) is own and torch.equal(own, expected)
        out = torch.empty(3, 3)
        assert torch.addmm(WHOLE, first, b, alpha=2, out=out) is out and torch.equal(out, expected)
    both = [a.to_sparse_csr(), b.to_sparse_csr()]
    out = torch.zeros(3, 3).to_sparse_csr()
    assert torch.mm(*both, out=out) is out and torch.equal(out.to_dense(), a @ b)
    assert torch.addmm(WHOLE.to_sparse_csr(), *both, alpha=2, out=out) is out and torch.equal(out.to_dense(), expected)
    whole = torch.empty(3, 3)
    assert torch.mm(*both, out=whole) is whole and torch.equal(whole, a @ b)
    assert torch.equal(torch.sparse.addmm(WHOLE.to_sparse_csr(), *both, alpha=2).to_dense(), expected)
    assert torch.equal(torch.sparse.addmm(WHOLE, b, a.to_sparse_csr()), WHOLE + b @ a)
    leaf = WHOLE.clone().requires_grad_()
    (leaf * 1).addmm_(a.to_sparse(), leaf).sum().backward()
    assert torch.equal(leaf.grad, torch.ones(3, 3) + a.t() @ torch.ones(3, 3))


def test_products_that_torch_lacks_are_refused_in_its_words():
    own, rows = WHOLE.to_sparse(), WHOLE.to_sparse_csr()
    with pytest.raises(RuntimeError, match="computation on CPU is not implemented for SparseCsr . Sparse @ Strided"):
        torch.mm(own, WHOLE, out=rows.clone())
    with pytest.raises(RuntimeError, match="expected strided result tensor, got tensor with layout Sparse"):
        torch.mm(own, WHOLE, out=own.clone())
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        torch.addmm(own, own, torch.ones(2, 3))
    batch = torch.stack([WHOLE, WHOLE])
    with pytest.raises(NotImplementedError, match="'aten::bmm.out' with arguments from the 'SparseCsrCPU' backend"):
        torch.bmm(batch.to_sparse_csr(), batch)
    with pytest.raises(RuntimeError, match="unsupported tensor layout: SparseCsr"):
        rows / WHOLE
    with pytest.raises(RuntimeError, match="sparse_mm_reduce: expect self to be SparseCsr, got SparseCsc"):
        torch.sparse.mm(WHOLE.to_sparse_csc(), WHOLE, "sum")
    for made, given in (
        (rows.to_sparse_csc, "sparse_compressed_to_sparse_csc: conversion from SparseCsr to SparseCsc"),
        (
            rows.to_sparse_csr,
            "to_sparse_csr: conversion from SparseCsr to SparseCsr",
        ),
    ):
        with pytest.raises(RuntimeError, match=f"{given} with dense_dim argument given is not supported"):
            made(dense_dim=0)


def test_products_with_vectors():
    vector = torch.tensor([1.0, -2, 4])
    for own in (WHOLE.to_sparse_csr(), WHOLE.to_sparse_csc(), WHOLE.to_sparse_bsr((1, 3))):
        expected = 2 * vector + 3 * (WHOLE @ vector)
        assert torch.equal(torch.addmv(vector, own, vector, beta=2, alpha=3), expected)
        assert torch.equal(torch.addmv(vector[0], own, vector), vector[0] + WHOLE @ vector)
        out = torch.empty(3)
        assert torch.addmv(vector, own, vector, beta=0, out=out) is out and torch.equal(out, WHOLE @ vector)
    with pytest.raises(RuntimeError, match="operation not supported for mat with SparseBsc layout"):
        torch.addmv(vector, WHOLE.to_sparse_bsc((1, 3)), vector)
    with pytest.raises(NotImplementedError, match="'aten::addmv' with arguments from the 'SparseCPU' backend"):
        torch.addmv(vector, WHOLE.to_sparse(), vector)


@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
def test_triangular_systems_of_rows():
    matrix = torch.tensor([[2.0, 1, 0], [0, 4, 1], [0, 0, 3]])
    right = torch.arange(6.0).reshape(3, 2)
    for options in ({}, {"transpose": True}, {"unitriangular": True}, {"upper": False}):
        expected = torch.triangular_solve(right, matrix, **options).solution
        for own in (matrix.to_sparse_csr(), matrix.to_sparse_bsr((1, 1))):
            solution, rest = torch.triangular_solve(right, own, **options)
            assert torch.allclose(solution, expected) and solution.stride() == (2, 1) and rest.shape == (0,)
    with pytest.raises(ValueError, match="triangular_solve: unsupported sparse layout"):
        torch.triangular_solve(right, matrix.to_sparse_csc())
    with pytest.raises(NotImplementedError, match="'aten::triangular_solve' with arguments from the 'SparseCPU'"):
        torch.triangular_solve(right, matrix.to_sparse())


def test_extremes_of_products_have_the_gradient_of_the_first():
    own = torch.tensor([[0.0, 3], [2, 2]]).to_sparse_csr().requires_grad_()
    other = torch.tensor([[0.0, 1], [0, 1]], requires_grad=True)
    result = torch.sparse.mm(own, other, "amax")
    result.sum().backward()
    assert result.tolist() == [[0, 3], [0, 2]] and other.grad.tolist() == [[2, 2], [3, 3]]


@pytest.mark.parametrize(("name", "other"), [("amax", "max"), ("amin", "min")])
def test_extremes_of_products_have_two_names(name, other):
    own, dense = torch.tensor([[0.0, 3], [2, -2]]).to_sparse_csr(), torch.tensor([[0.0, 1], [4, 1]])
    assert torch.equal(torch.sparse.mm(own, dense, name), torch.sparse.mm(own, dense, other))
    with pytest.raises(RuntimeError, match="^reduce argument must be either sum, prod, mean, amax or amin, got most$"):
        torch.sparse.mm(own, dense, "most")


def test_a_single_element_is_a_number():
    twice = torch.sparse_coo_tensor([[0, 0]], [1.5, 2.0], (1,))
    assert twice.item() == 3.5 and float(twice) == 3.5 and int(twice) == 3 and twice
    assert not torch.sparse_coo_tensor(size=(1, 1)) and torch.sparse_coo_tensor([[0]], [[2j]], (1, 1)).item() == 2j
    assert [5, 6][torch.sparse_coo_tensor([[0]], [1], (1,))] == 6
    with pytest.raises(RuntimeError, match="a Tensor with 9 elements cannot be converted to Scalar"):
        torch.eye(3).to_sparse().item()
    with pytest.raises(NotImplementedError):
        torch.eye(1).to_sparse_csr().item()


def test_tensors_without_data_have_parts():
    made = torch.sparse_coo_tensor(torch.zeros(2, 3), torch.ones(3), (2, 2), device="meta", dtype=torch.float64)
    assert made.device.type == "meta" and made._nnz() == 3 and made.dtype == torch.float64
    assert "indices=tensor(..., size=(2, 3))" in str(made) and "device='meta', size=(2, 2)" in str(made)
    rows = torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (2, 2), device="meta")
    assert rows.layout is torch.sparse_csr and rows._nnz() == 2 and "device='meta'" in str(rows)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], device="meta")
    with pytest.raises(RuntimeError, match="indices and values must have same nnz"):
        torch.sparse_coo_tensor(torch.zeros(2, 3), torch.ones(2), (2, 2), device="meta")
    with pytest.raises(RuntimeError, match="backend of indices .CPU. must match backend of values .Meta."):
        torch.sparse_coo_tensor(torch.zeros(2, 3), torch.ones(3, device="meta"), (2, 2))


def test_a_sum_over_no_dimensions_is_the_tensor():
    assert torch.equal(REPEATED.sum(()).to_dense(), REPEATED.to_dense())
    assert (WHOLE != 0).to_sparse().sum(()).dtype == torch.int64


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


def test_a_dense_tensor_is_multiplied_by_a_sparse_one_in_place():
    own = torch.arange(9.0).reshape(3, 3)
    assert own.mul_(REPEATED) is own and torch.equal(own, torch.arange(9.0).reshape(3, 3) * REPEATED.to_dense())
    leaf, other = torch.ones(3, 3, requires_grad=True), REPEATED.clone().requires_grad_()
    (leaf * 1).mul_(REPEATED).sum().backward()
    assert torch.equal(leaf.grad.to_dense(), REPEATED.to_dense())
    torch.full((3, 3), 2.0).mul_(other).sum().backward()
    assert other.grad.to_dense()[0, 0] == 2
    with pytest.raises(RuntimeError, match="result type Float can't be cast"):
        torch.ones(3, 3, dtype=torch.int64).mul_(REPEATED)
    with pytest.raises(RuntimeError, match="Sparse division requires a scalar or zero-dim dense tensor divisor"):
        torch.ones(3, 3).div_(REPEATED)
    with pytest.raises(NotImplementedError, match="Could not run 'aten::pow'|unsupported"):
        torch.ones(3, 3).pow_(REPEATED)


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_tensors_made_of_sparse_ones_are_copies(layout):
    own = WHOLE.to_sparse(layout=layout)
    made = torch.tensor(own, requires_grad=True)
    assert made.layout is layout and made.requires_grad and torch.equal(made.to_dense(), WHOLE)
    made.values().detach().zero_()
    assert torch.equal(own.to_dense(), WHOLE)
    assert torch.ones(1).new_tensor(own).layout is layout
    assert torch.tensor(own, dtype=torch.float64).dtype is torch.float64


def test_embeddings_of_a_sparse_weight():
    weight = WHOLE.to_sparse()
    rows = torch.nn.functional.embedding(torch.tensor([2, 0, 2]), weight)
    assert rows.layout is torch.sparse_coo and torch.equal(rows.to_dense(), WHOLE[[2, 0, 2]])
    layer = torch.nn.Embedding(3, 3, _weight=weight)
    assert layer(torch.tensor([1])).grad_fn.name() == "EmbeddingBackward0"
    with pytest.raises(
        NotImplementedError, match="Could not run 'aten::view' with arguments from the 'SparseCPU' backend"
    ):
        layer(torch.tensor([[1]]))
    with pytest.raises(IndexError, match="contains 3 that is out of range"):
        layer(torch.tensor([3]))
    csr = WHOLE.to_sparse_csr()
    with pytest.raises(
        NotImplementedError, match="Could not run 'aten::index_select' with arguments from the 'SparseCsrCPU'"
    ):
        torch.embedding(csr, torch.tensor([0]))

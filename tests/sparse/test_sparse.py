"""Compares sparse tensors with dense ones: creation, conversion, arithmetic, gradients, text, files, and errors."""

import copy
import io
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch

PLACES, VALUES = [[0, 2, 0], [1, 0, 1]], [3.0, 4.0, 5.0]


def made(**options):
    return torch.sparse_coo_tensor(PLACES, VALUES, (3, 3), **options)


@st.composite
def sparse_tensors(draw, sizes=None, inner=None):
    """Indices, values and sizes. Indices may be repeated, in any order, with up to two dense dimensions."""
    sizes = sizes or draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    inner = inner or draw(st.integers(1, len(sizes)))
    count = draw(st.integers(0, 6))
    indices = [[draw(st.integers(0, size - 1)) for _ in range(count)] for size in sizes[:inner]]
    block = sizes[inner:]
    values = np.array(
        [draw(st.integers(-5, 5)) for _ in range(count * int(np.prod(block, dtype=int)))], dtype=np.float64
    ).reshape(count, *block)
    return np.array(indices, dtype=np.int64).reshape(inner, count), values, sizes


def sparse_matrices(rows=None):
    """The same with two dimensions, both sparse."""
    sizes = st.tuples(st.just(rows) if rows else st.integers(1, 4), st.integers(1, 4))
    return sizes.flatmap(lambda sizes: sparse_tensors(list(sizes), 2))


def of(parts):
    indices, values, sizes = parts
    return torch.sparse_coo_tensor(torch.from_numpy(indices), torch.from_numpy(values), sizes)


def whole(parts):
    indices, values, sizes = parts
    array = np.zeros(sizes)
    np.add.at(array, tuple(indices), values)
    return array


@given(sparse_tensors())
def test_dense_and_coalesced(parts):
    tensor, array = of(parts), whole(parts)
    assert np.array_equal(tensor.to_dense().numpy(), array)
    one = tensor.coalesce()
    assert one.is_coalesced() and np.array_equal(one.to_dense().numpy(), array)
    keys = [tuple(place) for place in one.indices().t().tolist()]
    assert keys == sorted(set(keys))
    assert one._nnz() == len({tuple(place) for place in parts[0].T.tolist()})
    back = torch.from_numpy(array).to_sparse(tensor.sparse_dim())
    assert np.array_equal(back.to_dense().numpy(), array) and back.is_coalesced()


@given(st.data())
def test_arithmetic(data):
    a = data.draw(sparse_tensors())
    b = data.draw(sparse_tensors(sizes=a[2]))
    x, y, dense = of(a), of(b), torch.ones(a[2], dtype=torch.float64)
    assert np.array_equal((dense + x).numpy(), 1 + whole(a))
    assert np.array_equal(torch.sub(dense, x, alpha=2).numpy(), 1 - 2 * whole(a))
    assert np.array_equal((x * 3).to_dense().numpy(), 3 * whole(a))
    assert np.array_equal((-x / 2).to_dense().numpy(), -whole(a) / 2)
    assert np.array_equal((x * (dense + 1)).to_dense().numpy(), 2 * whole(a))
    assert x.sum().item() == whole(a).sum()
    assert np.isclose(x.norm().item(), np.linalg.norm(whole(a)))
    assert np.array_equal(dense.add_(x, alpha=2).numpy(), 1 + 2 * whole(a))
    if x.sparse_dim() == y.sparse_dim():
        assert np.array_equal((x + y).to_dense().numpy(), whole(a) + whole(b))
        assert np.array_equal((x * y).to_dense().numpy(), whole(a) * whole(b))
        assert np.array_equal(x.clone().sub_(y).to_dense().numpy(), whole(a) - whole(b))
        both = x.coalesce() + y.coalesce()
        assert both.is_coalesced() and np.array_equal(both.to_dense().numpy(), whole(a) + whole(b))


@given(st.data())
@settings(max_examples=50)
def test_sums_along_dimensions(data):
    parts = data.draw(sparse_tensors())
    dims = data.draw(st.sets(st.integers(0, len(parts[2]) - 1), min_size=1))
    result = torch.sparse.sum(of(parts), tuple(dims))
    assert np.array_equal(result.to_dense().numpy(), whole(parts).sum(tuple(dims)))


def test_sums_stand_as_in_torch():
    """The entries of both operands are in the order of a merge of two sorted lists."""
    a = torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (5,))
    b = torch.sparse_coo_tensor([[3, 1]], [1.0, 2.0], (5,))
    assert (a + b)._indices().tolist() == (b + a)._indices().tolist() == [[0, 2, 3, 1]]
    assert (made() + made())._values().tolist() == [6.0, 8.0, 10.0]


def test_powers():
    twice = torch.sparse_coo_tensor([[1, 1, 3]], [2.0, 3.0, 4.0], (4,))
    assert (twice**2).to_dense().tolist() == [0, 25, 0, 16] and torch.pow(twice, 0.5).to_dense()[3] == 2
    with pytest.raises(RuntimeError, match="pow: cannot raise to zeroth power on sparse tensor"):
        twice**0


def test_adding_touches_only_its_places():
    weight = torch.full((4, 2), float("inf"))
    weight[1] = 1.0
    shared = weight.share_memory_()
    shared.add_(torch.sparse_coo_tensor([[1, 1]], [[1.0, 2.0], [1.0, 2.0]], (4, 2)), alpha=-1)
    assert shared[1].tolist() == [-1.0, -3.0] and shared.is_shared()
    columns = torch.zeros(3, 3).t()
    columns.add_(made())
    assert columns.tolist() == made().to_dense().tolist()


def test_facts():
    s = made()
    assert s.layout is torch.sparse_coo and s.is_sparse and not torch.ones(1).is_sparse
    assert (s.sparse_dim(), s.dense_dim(), s._nnz(), s.is_coalesced()) == (2, 0, 3, False)
    assert (torch.ones(2, 2).sparse_dim(), torch.ones(2, 2).dense_dim()) == (0, 2)
    assert s.shape == (3, 3) and s.numel() == 9 and s.dtype == torch.float32 and s.device.type == "cpu"
    one = s.coalesce()
    assert one.indices().tolist() == [[0, 2], [1, 0]] and one.values().tolist() == [8.0, 4.0]
    assert one.coalesce() is one
    assert s.to(torch.float64)._values().dtype == torch.float64 and s.cpu() is s
    assert torch.zeros_like(s)._nnz() == 0 and s.clone().zero_()._nnz() == 0
    assert torch.sparse_coo_tensor((2, 3))._nnz() == 0
    assert torch.ones(3, 3).sparse_mask(one)._values().tolist() == [1.0, 1.0]
    assert s.clone().copy_(one)._nnz() == 2
    assert [type(x) for x in (s.detach(), s.requires_grad_())] == [torch.Tensor] * 2


def test_text():
    assert repr(made(dtype=torch.float64, requires_grad=True)) == (
        "tensor(indices=tensor([[0, 2, 0],\n                       [1, 0, 1]]),\n       values=tensor([3., 4., 5.]),\n"
        "       size=(3, 3), nnz=3, dtype=torch.float64, layout=torch.sparse_coo,\n       requires_grad=True)"
    )
    assert repr(torch.sparse_coo_tensor(torch.zeros(1, 0), torch.zeros(0, 3, 2), (3, 3, 2))) == (
        "tensor(indices=tensor([], size=(1, 0)),\n       values=tensor([], size=(0, 3, 2)),\n"
        "       size=(3, 3, 2), nnz=0, layout=torch.sparse_coo)"
    )
    assert "grad_fn=<MulBackward0>" in repr(made(requires_grad=True) * 1)


@pytest.mark.parametrize(
    "again",
    [
        copy.deepcopy,
        copy.copy,
        lambda tensor: pickle.loads(pickle.dumps(tensor)),
        lambda tensor: through_file(tensor),
    ],
    ids=["deepcopy", "copy", "pickle", "file"],
)
@pytest.mark.parametrize("coalesced", [False, True])
def test_copies(again, coalesced):
    tensor = made().coalesce() if coalesced else made()
    twin = again(tensor)
    assert twin is not tensor and twin.is_coalesced() == coalesced and twin.shape == (3, 3)
    assert twin._indices().tolist() == tensor._indices().tolist()
    assert twin._values().tolist() == tensor._values().tolist()


def through_file(tensor):
    file = io.BytesIO()
    torch.save({"x": tensor}, file)
    file.seek(0)
    return torch.load(file)["x"]


BAD = [
    (([[0, -2]], [1.0, 2.0], (3,)), "found negative index -2 for dim 0"),
    (([[0, -2]], [1.0, 2.0]), "found negative index -2 for dim 0"),
    (([[0, 3]], [1.0, 2.0], (3,)), "size is inconsistent with indices: for dim 0, size is 3 but found index 3"),
    (
        (PLACES, VALUES, (3,)),
        "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = 1, sparse_dim = 2, dense",
    ),
    (
        (PLACES, VALUES[:2], (3, 3)),
        "indices and values must have same nnz, but got nnz from indices: 3, nnz from values: 2",
    ),
    ((PLACES, 1.0, (3, 3)), "indices and values must have same nnz, but got nnz from indices: 3, nnz from values: 1"),
    ((PLACES, [[1.0, 2.0]] * 3, (3, 3, 4)), "values has incorrect size, expected [3, 4], got [3, 2]"),
    ((PLACES, VALUES, (2**62, 2**62)), "numel: integer multiplication overflow"),
    ((1, VALUES, (3,)), "indices must be sparse_dim x nnz, but got: []"),
    (([[2**63 - 1]], [1.0]), ""),
    ((PLACES, VALUES, (3, -3)), "negative"),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD)
def test_parts_that_do_not_fit(arguments, sentence):
    with pytest.raises(RuntimeError) as error:
        torch.sparse_coo_tensor(*arguments)
    assert sentence in str(error.value)


def test_a_false_word_about_order_is_refused():
    with pytest.raises(RuntimeError, match="cannot set is_coalesced to true"):
        made(is_coalesced=True)
    with pytest.raises(RuntimeError, match="cannot set is_coalesced to true"):
        made()._coalesced_(True)


@pytest.mark.parametrize("place", [7, -1, 2**62, -(2**63)])
def test_indices_that_were_changed_are_checked_again(place):
    """A program may change the indices. Functions that read them then raise an exception or use the new ones."""
    calls = [
        lambda s: s.to_dense(),
        lambda s: s.coalesce(),
        lambda s: torch.zeros(3, 3) + s,
        lambda s: torch.zeros(3, 3).sparse_mask(s),
        lambda s: torch.sparse.mm(s, torch.ones(3, 3)),
        lambda s: s * s,
    ]
    for call in calls:
        s = made()
        s._indices()[0, 0] = place
        try:
            call(s)
        except (IndexError, RuntimeError):
            continue
        assert place == -1, "a place outside was taken"


def test_rows_refuse_sparse_operands():
    s = made()
    for call in [
        torch.exp,
        lambda s: torch.softmax(s, 0),
        lambda s: s.view(9),
        lambda s: s == s,
        lambda s: s.cumsum(0),
    ]:
        with pytest.raises(NotImplementedError, match="with arguments from the 'SparseCPU' backend"):
            call(s)
    for call in [lambda s: s.untyped_storage(), lambda s: s.share_memory_()]:
        with pytest.raises(NotImplementedError, match="Cannot access storage of SparseTensorImpl"):
            call(s)
    with pytest.raises(TypeError, match="can't convert Sparse layout tensor to numpy"):
        s.numpy()
    with pytest.raises(RuntimeError, match="Cannot access data pointer"):
        s.data_ptr()
    with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"):
        s + torch.ones(3, 3)
    with pytest.raises(RuntimeError, match="Sparse division requires a scalar"):
        s / s
    with pytest.raises(RuntimeError, match="dense-sparse addition does not currently support broadcasting"):
        torch.zeros(3, 4).add_(s)
    with pytest.raises(RuntimeError, match="between dense and sparse Tensors is not implemented"):
        torch.zeros(3, 3).copy_(s)
    for name in ("indices", "values"):
        with pytest.raises(RuntimeError, match=f"Cannot get {name} on an uncoalesced tensor"):
            getattr(s, name)()


def test_every_row_of_the_table_survives_sparse_operands():
    """With sparse tensors, every function of one or two tensors returns a result or raises an error."""
    s = made().coalesce()
    for name in dir(torch):
        function = getattr(torch, name)
        if type(function).__name__ != "builtin_function_or_method" or name.startswith("set_"):
            continue
        for arguments in [(s,), (s, s), (torch.ones(3, 3), s), (s, 1)]:
            try:
                function(*arguments)
            except Exception as error:
                assert "panic" not in str(error), (name, error)


@given(st.data())
def test_products_of_two_sparse_matrices(data):
    a = data.draw(sparse_matrices())
    b = data.draw(sparse_matrices(rows=a[2][1]))
    product = of(a) @ of(b)
    assert product.is_sparse and product.is_coalesced()
    assert np.array_equal(product.to_dense().numpy(), whole(a) @ whole(b))
    # An entry for each matching pair, as in torch, even if the sum is zero.
    met = {(i, j) for i, k in a[0].T.tolist() for other, j in b[0].T.tolist() if k == other}
    assert [tuple(place) for place in product.indices().t().tolist()] == sorted(met)
    leaves = [of(a).requires_grad_(), of(b).requires_grad_()]
    dense = [torch.from_numpy(whole(parts)).requires_grad_() for parts in (a, b)]
    weights = torch.arange(product.numel(), dtype=torch.float64).reshape(product.shape)
    found = torch.autograd.grad((torch.sparse.mm(*leaves).to_dense() ** 2 * weights).sum(), leaves, create_graph=True)
    wanted = torch.autograd.grad(((dense[0] @ dense[1]) ** 2 * weights).sum(), dense)
    for leaf, grad, of_dense in zip(leaves, found, wanted):
        assert torch.equal(grad.to_dense(), of_dense.sparse_mask(leaf.coalesce()).to_dense())


def test_products_of_two_sparse_matrices_to_second_order():
    places = [[0, 0, 1, 2, 2], [0, 2, 1, 0, 2]], [[0, 1, 2, 2], [1, 0, 0, 1]]
    sizes = (3, 3), (3, 2)

    def product(*values):
        made = [torch.sparse_coo_tensor(*each) for each in zip(places, values, sizes)]
        return torch.sparse.mm(*made).to_dense() ** 2

    for dtype in (torch.float64, torch.complex128):
        values = [torch.randn(len(of_one[0]), dtype=dtype, requires_grad=True) for of_one in places]
        assert torch.autograd.gradcheck(product, values) and torch.autograd.gradgradcheck(product, values)


def test_products_of_large_sparse_matrices_stay_sparse():
    size = 2**31
    ends = torch.tensor([[0, size - 1], [size - 1, 0]])
    swap = torch.sparse_coo_tensor(ends, torch.tensor([2.0, 3.0]), (size, size), requires_grad=True)
    product = torch.sparse.mm(swap, swap)
    assert product.indices().tolist() == [[0, size - 1]] * 2 and product.values().tolist() == [6, 6]
    product.coalesce().values().sum().backward()
    assert swap.grad.coalesce().values().tolist() == [6, 4]


@pytest.mark.parametrize(
    "a, b, error, sentence",
    [
        (
            "made()",
            "torch.ones(4, 2).to_sparse()",
            RuntimeError,
            r"mat1 and mat2 shapes cannot be multiplied \(3x3 and 4x2\)",
        ),
        ("made()", "made().double()", RuntimeError, "mat1 dtype Float does not match mat2 dtype Double"),
        ("made().half()", "made().half()", NotImplementedError, "\"sparse_matmul\" not implemented for 'Half'"),
        ("made()", "torch.ones(3, 2).to_sparse(1)", RuntimeError, "scalar values expected, got 2D values"),
    ],
)
def test_sparse_factors_that_do_not_fit(a, b, error, sentence):
    with pytest.raises(error, match=sentence):
        torch.sparse.mm(eval(a), eval(b))


def test_products():
    rng = np.random.default_rng(0)
    dense = torch.from_numpy(rng.normal(size=(3, 4)))
    s = made(dtype=torch.float64)
    expected = s.to_dense().numpy() @ dense.numpy()
    for product in (torch.sparse.mm(s, dense), s @ dense, torch.mm(s, dense)):
        assert np.allclose(product.numpy(), expected)
    assert np.allclose((s @ dense[:, 0]).numpy(), expected[:, 0])
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch.sparse.mm(s, dense.t())


def values():
    return torch.tensor(VALUES, dtype=torch.float64, requires_grad=True)


PATHS = [
    ("dense", lambda s, d: s.to_dense() * d),
    ("coalesced", lambda s, d: s.coalesce().to_dense() * d),
    ("values", lambda s, d: s.coalesce().values().sin()),
    ("product", torch.sparse.mm),
    ("matmul", lambda s, d: s @ d),
    ("sum", lambda s, d: torch.sparse.sum(s) * d.sum()),
    ("scaled", lambda s, d: (s * 3 / 2).to_dense() * d),
    ("negative", lambda s, d: (-s).to_dense() * d),
    ("added", lambda s, d: (d + s) ** 2),
    ("both", lambda s, d: (s + s * 2).to_dense() ** 2 + d),
    ("masked", lambda s, d: d.sparse_mask(s.detach().coalesce()).to_dense() * s.to_dense()),
]


@pytest.mark.parametrize(("name", "path"), PATHS, ids=[name for name, _ in PATHS])
def test_gradients(name, path):
    rng = np.random.default_rng(1)
    dense = torch.from_numpy(rng.normal(size=(3, 3))).requires_grad_()

    def run(values, dense):
        return path(torch.sparse_coo_tensor(PLACES, values, (3, 3)), dense)

    assert torch.autograd.gradcheck(run, (values(), dense))


def test_gradients_of_sparse_leaves():
    leaf = made(dtype=torch.float64).coalesce().requires_grad_()
    dense = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    torch.sparse.mm(leaf, dense).sum().backward()
    assert leaf.grad.is_sparse and leaf.grad._values().tolist() == [2.0, 2.0]
    assert dense.grad.tolist() == [[4.0, 4.0], [8.0, 8.0], [0.0, 0.0]]
    leaf.grad = None
    (leaf @ dense).sum().backward()
    assert not leaf.grad.is_sparse
    leaf.grad = None
    (leaf.to_dense() ** 2).sum().backward()
    assert leaf.grad._values().tolist() == [16.0, 8.0]
    x = torch.ones(2, 2, requires_grad=True)
    (x.to_sparse() * 3).to_dense().sum().backward()
    assert x.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr"])
def test_gradients_of_sparse_tensors(layout, masked):
    options = {"blocksize": (2, 2)} if layout == "sparse_bsr" else {}
    x = (
        torch.tensor([[0, 1.0, 0, 2], [2, 3, 0, 0]], dtype=torch.float64)
        .to_sparse(layout=getattr(torch, layout), **options)
        .requires_grad_()
    )
    check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    assert check.__name__ == "gradcheck_with_sparse_support"
    assert check(lambda x: x.to_dense(masked_grad=masked).sin(), x, masked=masked)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        check(lambda x: x.detach().to_dense() * x.to_dense(), x, masked=masked)

"""Compares operators that move entries of sparse tensors with the same operators on dense ones."""

import pytest

import rushlight as torch


def plain():
    return torch.sparse_coo_tensor([[0, 2, 0, 1], [1, 3, 1, 0]], [1.0, 2.0, 3.0, -4.0], (3, 4))


def cube():
    generator = torch.Generator().manual_seed(1)
    places = torch.randint(0, 3, (3, 9), generator=generator)
    return torch.sparse_coo_tensor(places, torch.rand(9, generator=generator), (3, 4, 5))


def blocks():
    return torch.sparse_coo_tensor([[0, 2, 0]], torch.arange(24.0).view(3, 2, 4), (3, 2, 4))


SOURCES = {"plain": plain, "ordered": lambda: plain().coalesce(), "cube": cube, "blocks": blocks}

CALLS = {
    "transpose": lambda x: x.transpose(0, 1),
    "back": lambda x: x.transpose(-1, -2),
    "not at all": lambda x: x.transpose(0, 0),
    "swapaxes": lambda x: x.swapaxes(1, 0),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "permute": lambda x: x.permute(*reversed(range(x.dim()))),
    "permute blocks": lambda x: x.permute(0, 2, 1),
    "select": lambda x: x[2],
    "select again": lambda x: x[0][1],
    "select inner": lambda x: x.select(-1, 1),
    "select nothing": lambda x: x[:, -2],
    "element": lambda x: x[0, 1],
    "slice": lambda x: x[1:],
    "steps": lambda x: x[::2, 1:3],
    "empty": lambda x: x[1:1],
    "backwards": lambda x: x[::-1],
    "narrow": lambda x: x.narrow(1, 0, 2),
    "index_select": lambda x: x.index_select(0, torch.tensor([2, 0, 0])),
    "index_select inner": lambda x: x.index_select(-1, torch.tensor([1, 0, 1])),
    "index_select nothing": lambda x: x.index_select(1, torch.tensor([], dtype=torch.int64)),
    "cat": lambda x: torch.cat([x, x]),
    "cat inner": lambda x: torch.cat([x, 2 * x, x], -1),
    "cat one": lambda x: torch.cat([x]),
    "vstack": lambda x: torch.vstack([x, x]),
    "stack": lambda x: torch.stack([x, x]),
    "stack last": lambda x: torch.stack([x, x], -1),
    "iterate": lambda x: list(x)[2],
}

# Calls that would exchange sparse and dense dimensions.
REFUSED = {
    ("blocks", call): sentence
    for call, sentence in {
        "transpose": "transposed dimensions must be sparse",
        "back": "transposed dimensions must be sparse",
        "swapaxes": "transposed dimensions must be sparse",
        "t": "t\\(\\) expects a tensor with <= 2 sparse and 0 dense dimensions",
        "T": "transpositions between sparse and dense dimensions are not allowed",
        "permute": "transpositions between sparse and dense dimensions are not allowed",
    }.items()
} | {("cube", "t"): "t\\(\\) expects a tensor with <= 2 sparse"}
CASES = [(source, call) for source in SOURCES for call in CALLS if not (call == "permute blocks" and source[0] in "po")]


def whole(x):
    return x.to_dense() if x.is_sparse else x


@pytest.mark.parametrize("source, call", CASES)
def test_values_and_gradients_are_those_of_the_dense_tensor(source, call):
    x = SOURCES[source]()
    if (source, call) in REFUSED:
        with pytest.raises(RuntimeError, match=REFUSED[source, call]):
            CALLS[call](x)
        return
    dense = x.to_dense().requires_grad_()
    expected = CALLS[call](dense)
    x = x.detach().requires_grad_()
    found = CALLS[call](x)
    assert torch.equal(whole(found), expected) and found.shape == expected.shape
    weight = torch.rand(expected.shape)
    (whole(found) * weight).sum().backward()
    (expected * weight).sum().backward()
    # A gradient has values only at the indices of its tensor, and may be zero elsewhere.
    values = torch.ones_like(x._values())
    there = torch.sparse_coo_tensor(x._indices(), values, x.shape).to_dense().bool()
    assert torch.equal(whole(x.grad)[there], dense.grad[there])


@pytest.mark.parametrize("source, call", [case for case in CASES if case not in REFUSED])
def test_what_says_that_it_is_in_order_is(source, call):
    found = CALLS[call](SOURCES[source]().coalesce())
    in_order = found.is_sparse and found.is_coalesced()
    if in_order:
        # With is_coalesced=True, the constructor checks the order of the indices.
        torch.sparse_coo_tensor(found._indices(), found._values(), found.shape, is_coalesced=True)
    if call in ("select", "slice", "steps"):
        # A selected block is dense.
        assert in_order != (source == "blocks" and call == "select")


def test_results_have_memory_of_their_own():
    x = blocks()
    for call in ("not at all", "permute blocks", "select inner", "narrow", "index_select inner"):
        CALLS[call](x)._values().fill_(7)
    assert torch.equal(x.to_dense(), blocks().to_dense())
    assert x[...] is x or torch.equal(x[...].to_dense(), x.to_dense())


@pytest.mark.parametrize(
    "call, kind, sentence",
    [
        (lambda x: x[5], IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
        (lambda x: x.select(0, -4), IndexError, "out of range"),
        (lambda x: x.index_select(0, torch.tensor([5])), IndexError, "index contains 5 that is out of range"),
        (lambda x: x.index_select(0, torch.tensor([[1]])), IndexError, "must be 1-D strided"),
        (lambda x: x.index_select(0, torch.tensor([1], dtype=torch.int32)), IndexError, "long-tensor"),
        (lambda x: x.transpose(0, 2), IndexError, "Dimension out of range"),
        (lambda x: torch.cat([x, torch.ones(3, 4)]), RuntimeError, "a dense tensor was found at position 1"),
        (lambda x: torch.cat([torch.ones(3, 4), x]), RuntimeError, "a dense tensor was found at position 0"),
        (
            lambda x: torch.cat([x, torch.ones(2, 7).to_sparse()]),
            RuntimeError,
            "but found shape: \\[2, 7\\] at position 1",
        ),
        (lambda x: torch.cat([x, torch.ones(3, 4).to_sparse(1)]), RuntimeError, "must have the same sparse_dim"),
        (lambda x: torch.stack([x, x.t()]), RuntimeError, "stack expects each tensor to be equal size"),
        (lambda x: x.__setitem__(0, 1.0), TypeError, "Cannot assign to a sparse tensor"),
        (lambda x: x[torch.tensor([0])], NotImplementedError, "SparseCPU"),
        (lambda x: x.view(-1), NotImplementedError, "SparseCPU"),
        (lambda x: torch.ones(2, 4) @ x, RuntimeError, "cannot be multiplied \\(2x4 and 3x4\\)"),
        (lambda x: torch.mm(torch.ones(3), x), RuntimeError, "self must be a matrix"),
        (lambda x: torch.ones(2, 3) @ blocks(), RuntimeError, "t\\(\\) expects|must be a matrix"),
        (lambda x: torch.addmm(torch.ones(5), x, torch.ones(4, 2)), RuntimeError, "expanded size of the tensor"),
    ],
)
def test_refusals(call, kind, sentence):
    x = plain()
    with pytest.raises(kind, match=sentence):
        call(x)
    assert torch.equal(x.to_dense(), plain().to_dense())


def test_places_that_a_program_broke_are_found():
    for call in (lambda x: x[0], lambda x: x[:1], lambda x: x.index_select(0, torch.tensor([0]))):
        x = plain()
        x._indices()[0, 0] = 1 << 40
        with pytest.raises(RuntimeError, match="found index 1099511627776"):
            call(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, a, b, v, w: torch.mm(a, x),
        lambda x, a, b, v, w: a @ x,
        lambda x, a, b, v, w: v @ x,
        lambda x, a, b, v, w: x @ b,
        lambda x, a, b, v, w: x.mv(w),
        lambda x, a, b, v, w: torch.mm(x.t(), a.t()),
        lambda x, a, b, v, w: torch.addmm(a.t(), x, b, beta=2, alpha=-3),
        lambda x, a, b, v, w: torch.addmm(v.view(3, 1), x, b),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_products(call, dtype):
    """Dense times sparse, sparse times dense, vectors: values and gradients of every factor."""

    def run(x):
        torch.manual_seed(3)
        rest = [torch.rand(size, dtype=dtype, requires_grad=True) for size in ((2, 3), (4, 2), (3,), (4,))]
        result = call(x, *rest)
        torch.view_as_real(result.abs().square().to(torch.complex128)).sum().backward()
        return [result, whole(x.grad), *(factor.grad for factor in rest)]

    values = torch.rand(4, dtype=dtype)
    x = torch.sparse_coo_tensor(plain()._indices(), values, (3, 4))
    found, expected = run(x.detach().requires_grad_()), run(x.to_dense().requires_grad_())
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other)


def test_the_gradient_of_a_sparse_factor_may_be_sparse():
    x = plain().requires_grad_()
    torch.sparse.mm(torch.ones(2, 3), x).sum().backward()
    assert x.grad.is_sparse and x.grad.to_dense().tolist() == [[0, 2, 0, 0], [2, 0, 0, 0], [0, 0, 0, 2]]


def test_semi_structured_tensors_are_for_cuda_devices():
    for make in (
        torch.sparse.to_sparse_semi_structured,
        torch.sparse.SparseSemiStructuredTensorCUTLASS.from_dense,
        torch.sparse.SparseSemiStructuredTensorCUSPARSELT.from_dense,
    ):
        with pytest.raises(
            RuntimeError, match="^Error original_tensor.device= cpu is not supported! Only CUDA tensors"
        ):
            make(torch.zeros(64, 64))
    with pytest.raises(NotImplementedError):
        torch.sparse.SparseSemiStructuredTensor.from_dense(torch.zeros(64, 64))


def test_a_number_is_its_own_transpose():
    x = torch.tensor(2.0).to_sparse()
    assert x.transpose(0, -1).to_dense() == 2.0 and torch.swapaxes(x, 0, 0).to_dense() == 2.0


def test_sparse_resize_keeps_the_elements_where_they_are():
    x = torch.eye(3).to_sparse()
    version = x._version
    assert x.sparse_resize_((4, 5), 2, 0) is x
    assert x._version == version + 1
    assert x.is_coalesced()
    expected = torch.zeros(4, 5)
    expected[:3, :3] = torch.eye(3)
    assert torch.equal(x.to_dense(), expected)
    blocks = torch.ones(3, 3).to_sparse(1).sparse_resize_((5, 4), 1, 1)
    assert blocks._values().tolist() == [[1, 1, 1, 0]] * 3
    repeated = torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (3,)).sparse_resize_((4,), 1, 0)
    assert not repeated.is_coalesced()
    assert repeated.to_dense().tolist() == [3, 0, 0, 0]
    assert torch.zeros(3, 3).to_sparse().sparse_resize_((2,), 1, 0).shape == (2,)


def test_resize_as_sparse_takes_the_sizes_of_another_tensor():
    x = torch.eye(2).to_sparse()
    assert torch.resize_as_sparse_(x, torch.ones(3, 4).to_sparse()) is x
    assert x.shape == (3, 4) and x.to_dense()[:2, :2].tolist() == [[1, 0], [0, 1]] and x._nnz() == 2
    assert torch.zeros(2, 2).to_sparse().resize_as_sparse_(torch.ones(2, 2, 2).to_sparse(2)).dense_dim() == 1
    with pytest.raises(RuntimeError, match=r"shrinking the size of sparse dimensions \(from \[3, 4\] to \[2, 2\]\)"):
        x.resize_as_sparse_(torch.eye(2).to_sparse())
    with pytest.raises(RuntimeError, match="src  expected sparse compressed tensor layout but got Sparse"):
        torch.eye(2).to_sparse_csr().resize_as_sparse_(x)


def test_sparse_resize_and_clear_removes_the_elements():
    x = torch.eye(3).to_sparse().sparse_resize_and_clear_((4, 2, 2), 1, 2)
    assert x.shape == (4, 2, 2)
    assert x._indices().shape == (1, 0)
    assert x._values().shape == (0, 2, 2)


@pytest.mark.parametrize(
    ("size", "sparse", "dense", "sentence"),
    [
        (
            (2, 2),
            2,
            0,
            r"shrinking the size of sparse dimensions \(from \[3, 3\] to \[2, 2\]\) on a non-empty sparse tensor",
        ),
        ((4, 4, 4), 2, 1, r"changing the number of dense dimensions \(from 0 to 1\) on a non-empty sparse tensor"),
        ((4, 4, 4), 3, 0, r"changing the number of sparse dimensions \(from 2 to 3\) on a non-empty sparse tensor"),
        (
            (4, 4, 4),
            2,
            0,
            r"'len\(size\) == sparse_dim \+ dense_dim' is not satisfied: len\(size\) = 3, sparse_dim = 2",
        ),
    ],
)
def test_sparse_resize_refuses_sizes_that_lose_elements(size, sparse, dense, sentence):
    x = torch.eye(3).to_sparse()
    with pytest.raises(RuntimeError, match=f"^{sentence}"):
        x.sparse_resize_(size, sparse, dense)
    assert torch.equal(x.to_dense(), torch.eye(3))


def test_sparse_resize_is_for_coordinates_and_not_for_leaves():
    with pytest.raises(
        NotImplementedError, match="^Could not run 'aten::sparse_resize_' with arguments from the 'CPU' backend"
    ):
        torch.eye(3).sparse_resize_((4, 4), 2, 0)
    sentence = "^Could not run 'aten::sparse_resize_and_clear_' with arguments from the 'SparseCsrCPU' backend"
    with pytest.raises(NotImplementedError, match=sentence):
        torch.eye(3).to_sparse_csr().sparse_resize_and_clear_((4, 4), 2, 0)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        torch.eye(3).to_sparse().requires_grad_().sparse_resize_((4, 4), 2, 0)

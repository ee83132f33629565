"""Products of matrices and vectors: compared with NumPy for every layout, torch's messages, second-order gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck

rng = np.random.default_rng(0)


def real(*shape, dtype=torch.float64, requires_grad=False):
    return torch.from_numpy(np.asarray(rng.standard_normal(shape))).to(dtype).requires_grad_(requires_grad)


MATMULS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((2, 3), (5, 3, 4)),
    ((2, 1, 2, 3), (5, 3, 4)),
    ((2, 0, 3), (3, 4)),
    ((2, 5, 0), (2, 0, 3)),
]


@pytest.mark.parametrize(("a", "b"), MATMULS)
def test_matmul_equals_numpy_and_has_gradients(a, b):
    x, y = real(*a, requires_grad=True), real(*b, requires_grad=True)
    expected = np.matmul(x.detach().numpy(), y.detach().numpy())
    np.testing.assert_allclose(torch.matmul(x, y).detach().numpy(), expected, atol=1e-12)
    assert torch.matmul(x, y).shape == expected.shape
    assert gradcheck(torch.matmul, (x, y))
    assert gradgradcheck(torch.matmul, (x, y))


def test_operands_may_be_transposed_reversed_or_expanded():
    x, y = real(4, 3), real(4, 5)
    np.testing.assert_allclose(torch.mm(x.t(), y).numpy(), x.numpy().T @ y.numpy(), atol=1e-12)
    one = real(3, 1).expand(3, 4)
    np.testing.assert_allclose(torch.mm(one, y).numpy(), one.numpy() @ y.numpy(), atol=1e-12)
    batch = real(1, 3, 4).expand(6, 3, 4)
    right = real(6, 4, 2)
    np.testing.assert_allclose(torch.bmm(batch, right).numpy(), batch.numpy() @ right.numpy(), atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_wrap(dtype):
    x = torch.tensor([[100, 27], [3, 5]]).to(dtype)
    expected = x.numpy() @ x.numpy()
    np.testing.assert_array_equal(torch.mm(x, x).numpy(), expected)


def test_addmm_family_takes_factors_and_ignores_what_beta_zero_hides():
    nan = torch.full((2,), float("nan"), dtype=torch.float64)
    x, y = real(3, 4), real(4, 2)
    product = x.numpy() @ y.numpy()
    np.testing.assert_allclose(torch.addmm(nan, x, y, beta=0).numpy(), product, atol=1e-12)
    added = torch.addmm(torch.ones(2, dtype=torch.float64), x, y, beta=2, alpha=3)
    np.testing.assert_allclose(added.numpy(), 2 + 3 * product, atol=1e-12)
    vector = torch.addmv(torch.ones(3, dtype=torch.float64), x, y[:, 0], beta=2, alpha=3)
    np.testing.assert_allclose(vector.numpy(), 2 + 3 * product[:, 0], atol=1e-12)
    batches = real(2, 3, 4), real(2, 4, 5)
    products = batches[0].numpy() @ batches[1].numpy()
    np.testing.assert_allclose(
        torch.baddbmm(real(5) * 0 + 1, *batches, beta=2, alpha=3).numpy(), 2 + 3 * products, atol=1e-12
    )
    np.testing.assert_allclose(torch.addbmm(real(5) * 0 + 1, *batches).numpy(), 1 + products.sum(0), atol=1e-12)


@pytest.mark.parametrize("name", ["addmm", "addmv", "baddbmm", "addbmm", "addr"])
def test_gradients_of_sums_of_products(name):
    shapes = {
        "addmm": [(2,), (3, 4), (4, 2)],
        "addmv": [(), (3, 4), (4,)],
        "baddbmm": [(2, 3, 5), (2, 3, 4), (2, 4, 5)],
        "addbmm": [(5,), (2, 3, 4), (2, 4, 5)],
        "addr": [(3, 4), (3,), (4,)],
    }
    args = tuple(real(*shape, requires_grad=True) for shape in shapes[name])
    assert gradcheck(lambda *args: getattr(torch, name)(*args, beta=2, alpha=3), args)
    assert gradgradcheck(lambda *args: getattr(torch, name)(*args, beta=2, alpha=3), args)


def test_complex_gradients_are_conjugated():
    x = torch.complex(real(2, 3), real(2, 3)).requires_grad_()
    y = torch.complex(real(3, 2), real(3, 2)).requires_grad_()
    assert gradcheck(torch.mm, (x, y))
    assert gradcheck(torch.vdot, (x[0], y[:, 0]))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: torch.mm(real(3, 5), real(4, 6)), "mat1 and mat2 shapes cannot be multiplied (3x5 and 4x6)"),
        (lambda: torch.mm(real(3), real(4, 6)), "self must be a matrix"),
        (lambda: torch.bmm(real(3, 4), real(2, 4, 3)), "batch1 must be a 3D tensor"),
        (lambda: torch.mv(real(3, 3), real(4)), "size mismatch, got input (3), mat (3x3), vec (4)"),
        (
            lambda: torch.dot(real(3), real(4)),
            "inconsistent tensor size, expected tensor [3] and src [4] to have the same number of elements, but got 3 and 4 "
            "elements respectively",
        ),
        (
            lambda: torch.mm(real(3, 4), real(4, 2, dtype=torch.float32)),
            "expected m1 and m2 to have the same dtype, but got: double != float",
        ),
        (
            lambda: torch.matmul(real(), real(3)),
            "both arguments to matmul need to be at least 1D, but they are 0D and 1D",
        ),
    ],
)
def test_errors_are_torchs(call, sentence):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value).split("\n")[0] == sentence


def test_bool_has_no_product():
    flags = torch.ones(2, 2, dtype=torch.bool)
    with pytest.raises(NotImplementedError, match="\"addmm_impl_cpu_\" not implemented for 'Bool'"):
        torch.mm(flags, flags)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bjk", [(2, 3, 4), (2, 4, 2)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("i,j,k->kji", [(2,), (3,), (2,)]),
        ("...ij,...jk->...ik", [(2, 1, 2, 3), (4, 3, 2)]),
        ("ij->", [(2, 3)]),
        ("ij,ij->ij", [(2, 3), (1, 3)]),
        ("abc,cd,be->ade", [(2, 3, 4), (4, 2), (3, 2)]),
    ],
)
def test_einsum_equals_numpy(equation, shapes):
    operands = [real(*shape, requires_grad=True) for shape in shapes]
    arrays = [operand.detach().numpy() for operand in operands]
    if equation == "ij,ij->ij":
        expected = arrays[0] * arrays[1]
    else:
        expected = np.einsum(equation, *arrays)
    np.testing.assert_allclose(torch.einsum(equation, *operands).detach().numpy(), expected, atol=1e-12)
    assert gradcheck(lambda *args: torch.einsum(equation, *args), tuple(operands))


def test_einsum_takes_lists_of_numbers():
    x, y = real(2, 3), real(3, 4)
    np.testing.assert_allclose(torch.einsum(x, [0, 1], y, [1, 2], [0, 2]).numpy(), x.numpy() @ y.numpy(), atol=1e-12)


@pytest.mark.parametrize("operands", [([-1],), ([52],), ([0], [52])])
def test_einsum_refuses_other_numbers(operands):
    with pytest.raises(
        ValueError, match=r"^einsum\(\): subscript in subscript list is not within the valid range \[0, 52\)"
    ):
        torch.einsum(real(2), *operands)


@pytest.mark.parametrize("dims", [0, 1, 2, ([0, 1], [1, 0])])
def test_tensordot_equals_numpy(dims):
    x = real(4, 3)
    y = real(3, 4) if dims != 2 else real(4, 3)
    if dims == ([0, 1], [1, 0]):
        y = real(3, 4)
    np.testing.assert_allclose(
        torch.tensordot(x, y, dims=dims).numpy(), np.tensordot(x.numpy(), y.numpy(), dims), atol=1e-12
    )


def test_multi_dot_orders_the_products():
    chain = [real(10, 2), real(2, 30), real(30, 4), real(4)]
    expected = np.linalg.multi_dot([matrix.numpy() for matrix in chain])
    np.testing.assert_allclose(torch.linalg.multi_dot(chain).numpy(), expected, atol=1e-12)


def test_the_same_bits_for_any_number_of_threads():
    x, y = real(150, 170, dtype=torch.float32), real(170, 130, dtype=torch.float32)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = torch.mm(x, y).numpy().copy()
        torch.set_num_threads(4)
        np.testing.assert_array_equal(torch.mm(x, y).numpy(), alone)
    finally:
        torch.set_num_threads(threads)


def test_powers_of_small_integers_are_wide():
    x = torch.tensor([1, 200], dtype=torch.uint8)
    assert torch.vander(x).dtype == torch.vander(x, 0).dtype == torch.int64
    assert torch.linalg.vander(x, N=3).tolist() == [[1, 1, 1], [1, 200, 40000]]


@pytest.mark.parametrize(
    ("equation", "shapes", "sentence"),
    [
        ("i,jj->i", [(2,), (2, 3)], "subscript j is repeated for operand 1 but the sizes don't match, 3 != 2"),
        ("i,jj->z", [(2,), (2, 3)], "output subscript z does not appear in the equation for any input operand"),
        ("i,i,jj->i", [(2,), (3,), (2, 3)], "subscript i has size 3 for operand 1 which does not broadcast with"),
        ("i,j.", [(2,), (3,)], "found '.' for operand 1 that is not part of any ellipsis"),
        ("i...j...", [(2, 2)], "found '.' for operand 0 for which an ellipsis was already found"),
        ("i->i.", [(2,)], "found '.' for output that is not part of any ellipsis (...)"),
        ("i...->...i.", [(2,)], "found '.' for output but an ellipsis (...) was already found"),
        (
            "i$",
            [(2,), (2,)],
            "invalid subscript given at index 1 in the equation string, subscripts must be in [a-zA-Z]",
        ),
        ("i,i$", [(2,)], "fewer operands were provided than specified in the equation"),
        ("...,...", [(2,), (3,)], "dimension 0 covered by ellipsis in operand 1has size 3 which does not broadcast"),
    ],
)
def test_equations_that_do_not_fit(equation, shapes, sentence):
    with pytest.raises(RuntimeError) as caught:
        torch.einsum(equation, *[torch.ones(shape) for shape in shapes])
    assert str(caught.value).startswith(f"einsum(): {sentence}")


@pytest.mark.filterwarnings("ignore:torch.lu is deprecated")
def test_factors_of_singular_matrices_by_the_name_of_old():
    factors, pivots = torch.lu(torch.ones(2, 2))
    assert factors.tolist() == [[1, 1], [1, 0]] and pivots.tolist() == [1, 2]
    assert torch.lu(torch.zeros(2, 2), get_infos=True)[2].item() == 1
    assert torch.arange(24.0).reshape(1, 2, 3, 4).lu()[1].tolist() == [[[3, 3, 3], [3, 3, 3]]]


@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
@pytest.mark.parametrize(
    "matrices, error, sentence",
    [
        ((), RuntimeError, r"chain_matmul\(\): Expected one or more matrices"),
        ((torch.ones(2),), RuntimeError, "Tensor dimension is 1, expected 2 instead"),
        ((object(),), TypeError, "expected Tensor as element 0 in argument 0, but got object"),
    ],
)
def test_chains_of_no_matrices(matrices, error, sentence):
    with pytest.raises(error, match=sentence):
        torch.chain_matmul(*matrices)


@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
def test_a_chain_of_one_matrix_is_written_to_out():
    out = torch.zeros(2, 2)
    assert torch.chain_matmul(torch.eye(2), out=out) is out and out.trace() == 2


@pytest.mark.parametrize("dims", [1.5, "sum", None, {0: 1}])
def test_tensordot_wants_a_number_or_two_lists(dims):
    with pytest.raises(
        RuntimeError, match="tensordot expects dims to be int or .* containing two lists, but got dims="
    ):
        torch.tensordot(torch.ones(2, 2), torch.ones(2, 2), dims)


def test_factors_of_an_outer_product_fit_its_dtype():
    matrix, vector = torch.ones(2, 2), torch.ones(2)
    for name in ("alpha", "beta"):
        with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"):
            torch.addr(matrix, vector, vector, **{name: 1j})
        with pytest.raises(RuntimeError, match=f"Boolean {name} only supported for Boolean results."):
            torch.addr(matrix, vector, vector, **{name: True})


OUT = [
    ("torch.linalg.cond(a, out=whole)", "linalg.cond: Expected result to be safely castable from Float"),
    ("torch.linalg.pinv(a, out=whole)", "linalg.pinv: Expected result to be safely castable from Float"),
    ("torch.linalg.eigvals(a, out=real)", "torch.linalg.eigvals: Expected eigenvalues to be safely castable from Comp"),
    ("torch.linalg.eig(a, out=(real, b))", "torch.linalg.eig: Expected eigenvalues to be safely castable from Complex"),
    ("torch.linalg.eig(a, out=(b, real))", "torch.linalg.eig: Expected eigenvectors to be safely castable from Compl"),
    ("torch.linalg.tensorinv(a, ind=1, out=whole)", "tensorinv: Expected result to be safely castable from Float"),
    ("torch.linalg.tensorsolve(a, a[0], out=whole)", "tensorsolve: Expected result to be safely castable from Float"),
    ("torch.orgqr(a, a[0], out=whole)", "torch.linalg.householder_product: Expected result to be safely castable"),
    ("torch.cholesky_inverse(a, out=whole)", "cholesky_inverse: Expected result to be safely castable from Float"),
    ("torch.cholesky_solve(a, a, out=whole)", "cholesky_solve: Expected result to be safely castable from Float"),
    ("torch.triangular_solve(a, a, out=(a[:0], whole))", "Expected out tensor to have dtype float, but got long int"),
    ("torch.frexp(a, out=(a[:0].double(), whole))", "torch.frexp() expects mantissa to have dtype float but got doub"),
    ("torch.frexp(a, out=(a[:0], whole))", "torch.frexp() expects exponent to have int dtype but got long int"),
    ("torch.linalg.tensorsolve(a, torch.ones(3))", "Expected self to satisfy the requirement prod(self.shape[other.n"),
    ("torch.diff(a, prepend=torch.ones(2))", "diff expects prepend or append to be the same dimension as input"),
    ("torch.diff(a, append=torch.ones(3, 1))", "diff expects the shape of tensor to prepend or append to match that"),
    ("torch.lerp(a, a, 1j)", "value cannot be converted to type float without overflow"),
    ("torch.linalg.vander(a > 0)", "linalg.vander supports floating point, complex, and integer tensors, but got Bool"),
    ("torch.linspace(0, 1j, 3, dtype=torch.float32)", "torch.linspace(): inferred dtype c10::complex<float> can't be"),
    ("torch.searchsorted(a[0], a[0], sorter=torch.tensor([0, 2]))", "torch.searchsorted(): sorter index out of range"),
    ("torch.empty(1).resize_((2**62,))", "Storage size calculation overflowed with sizes=[4611686018427387904]"),
    ("torch.empty_strided((2,), (2**62,))", "Storage size calculation overflowed with sizes=[2] and strides=[461168"),
]


@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
@pytest.mark.parametrize("call, sentence", OUT)
def test_torchs_sentences(call, sentence):
    whole, real = torch.empty(0, dtype=torch.int64), torch.empty(0)
    names = {
        "torch": torch,
        "a": torch.eye(2),
        "b": torch.empty(0, dtype=torch.complex64),
        "whole": whole,
        "real": real,
    }
    with pytest.raises(RuntimeError) as caught:
        eval(call, names)
    assert str(caught.value).startswith(sentence)


def test_powers_of_bools():
    assert torch.vander(torch.tensor([True, False]), 3, increasing=True).tolist() == [[1, 1, 1], [1, 0, 0]]
    assert torch.roll(torch.arange(4), 1, dims=None).tolist() == [3, 0, 1, 2]


@pytest.mark.parametrize(
    "call, dtype, sentence",
    [
        (
            lambda a, out: torch.linalg.cond(a, "fro", out=out),
            torch.int64,
            "linalg.cond: Expected result to be safely castable from Float",
        ),
        (
            lambda a, out: torch.linalg.matrix_rank(a, out=out),
            torch.bool,
            "torch.linalg.matrix_rank: Expected result to be safely castable",
        ),
        (
            lambda a, out: torch.linalg.norm(a, out=out),
            torch.float64,
            "linalg.norm expected out tensor dtype Float but got: Double",
        ),
        (
            lambda a, out: torch.linalg.matrix_norm(a, 2, out=out),
            torch.float64,
            "linalg.matrix_norm expected out tensor dtype Float but",
        ),
        (
            lambda a, out: torch.nuclear_norm(a, out=out),
            torch.float64,
            "linalg.matrix_norm expected out tensor dtype Float but",
        ),
        (
            lambda a, out: torch.linalg.vecdot(a, a, out=out),
            torch.float64,
            "linalg.vecdot: Expected out of dtypeFloat but found Double",
        ),
        (
            lambda a, out: torch.mv(a, a[0], out=out),
            torch.float64,
            "Expected out tensor to have dtype float, but got double",
        ),
        (
            lambda a, out: torch.linalg.solve_triangular(a, a, upper=True, out=out),
            torch.float64,
            "expected scalar type Float but found Double",
        ),
        (
            lambda a, out: torch.geqrf(a, out=(out, torch.empty(0))),
            torch.int64,
            "torch.geqrf: Expected a to be safely castable from Float dtype, but got a with dtype Long",
        ),
        (
            lambda a, out: torch.ormqr(a, a[0], a, out=out),
            torch.int64,
            "torch.ormqr: Expected input and result to have the same dtype, but input has dtypeFloat and result has dtype Long",
        ),
    ],
)
def test_results_of_another_dtype_are_refused_in_torchs_words(call, dtype, sentence):
    with pytest.raises(RuntimeError) as caught:
        call(torch.eye(3) + 0.5, torch.empty(0, dtype=dtype))
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("power", [torch.matrix_power, torch.linalg.matrix_power])
def test_powers_are_cast_only_where_nothing_is_multiplied(power):
    for n in (0, 1):
        assert power(torch.eye(2), n, out=torch.empty(0, dtype=torch.float64)).dtype == torch.float64
    for n in (-1, 2, 5):
        with pytest.raises(RuntimeError, match="^Expected out tensor to have dtype float, but got double instead"):
            power(torch.eye(2), n, out=torch.empty(0, dtype=torch.float64))
        with pytest.raises(RuntimeError, match="^matrix_power: Expected result to be safely castable from Float dtype"):
            power(torch.eye(2), n, out=torch.empty(0, dtype=torch.int64))


@pytest.mark.parametrize(
    "driver, solution, rank", [("gelsy", [1, 0, 0], 1), ("gelsd", [1, 1, 1], 3), ("gelss", [0, 0, 0], 0)]
)
def test_least_squares_with_a_large_bound(driver, solution, rank):
    a, b = torch.diag(torch.tensor([3.0, 2.0, 1.0])), torch.tensor([[3.0], [2.0], [1.0]])
    found = torch.linalg.lstsq(a, b, rcond=1.0, driver=driver)
    assert found.rank == rank and torch.allclose(found.solution, torch.tensor(solution).float()[:, None], atol=1e-5)


@pytest.mark.parametrize("call", [torch.matmul, lambda v, m, out: torch.nn.functional.linear(v, m.t(), out=out)])
def test_a_row_is_written_as_a_matrix(call):
    v, m = torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    storage = torch.zeros(6)
    out = storage[::2]
    with pytest.warns(
        UserWarning, match=r"it had shape \[3\], which does not match the required output shape \[1, 3\]"
    ):
        assert call(v, m, out=out) is out
    assert (out.stride(), storage.tolist()) == ((1,), [9, 12, 15, 0, 0, 0])
    out = torch.zeros(3, 2).t()[:1]
    assert call(v, m, out=out) is out and (out.shape, out.stride()) == ((3,), (2,))
    assert call(v, m, out=torch.empty(0)).tolist() == [9, 12, 15]
    # A matrix with a vector keeps the strides.
    out = torch.zeros(4)[::2]
    assert torch.matmul(m, torch.ones(3), out=out).stride() == (2,) and out.tolist() == [6, 15]


def test_sums_of_products_in_place_have_their_shape():
    x = torch.ones(1, requires_grad=True)
    y = x.clone()
    result = y.addbmm_(torch.ones(2, 2, 3), torch.ones(2, 3, 2))
    assert result is y and y.tolist() == [[7, 7], [7, 7]]
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [4]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_of_short_products_are_rounded_after_each_matrix(dtype):
    own, a, b = (torch.randn(*sizes).to(dtype) for sizes in ((3, 5), (6, 3, 4), (6, 4, 5)))
    wanted = torch.addmm(own, a[0], b[0], beta=0.5, alpha=2)
    for at in range(1, 6):
        wanted = wanted.addmm(a[at], b[at], alpha=2)
    assert torch.equal(torch.addbmm(own, a, b, beta=0.5, alpha=2), wanted)
    assert torch.equal(torch.addbmm(own, a[:0], b[:0], beta=0.5), own * 0.5)
    leaf = a.clone().requires_grad_()
    torch.addbmm(own, leaf, b, alpha=2).backward(own)
    assert torch.equal(leaf.grad, 2 * own @ b.mT)


PRODUCTS = [
    (torch.mm, ((2, 3), (3, 4))),
    (torch.bmm, ((2, 2, 3), (2, 3, 4))),
    (torch.addmm, ((4,), (2, 3), (3, 4))),
    (torch.baddbmm, ((4,), (2, 2, 3), (2, 3, 4))),
]


@pytest.mark.parametrize("product, shapes", PRODUCTS, ids=[product.__name__ for product, _ in PRODUCTS])
def test_products_with_another_dtype_are_those_of_gpus(product, shapes):
    factors = [torch.ones(shape, dtype=torch.float16) for shape in shapes]
    for call in (lambda: product(*factors, torch.float32), lambda: product(*factors, out_dtype=torch.float16)):
        with pytest.raises(
            NotImplementedError, match=f"^Could not run 'aten::{product.__name__}.dtype' with arguments"
        ):
            call()
    with pytest.raises(TypeError, match="unexpected keyword argument 'out_dtype'"):
        getattr(factors[0], product.__name__)(*factors[1:], out_dtype=torch.float32)
    factors = [factor.to("meta") for factor in factors]
    for wanted in (torch.float32, torch.float16):
        assert product(*factors, out_dtype=wanted).dtype == wanted
    with pytest.raises(RuntimeError, match="out_dtype"):
        product(*factors, out_dtype=torch.float64)


@pytest.mark.parametrize("function", [torch.linalg.pinv, torch.linalg.matrix_rank])
def test_tolerances_are_real(function):
    x, i = torch.eye(3), torch.tensor(1j)
    for call in (lambda: function(x, atol=1j), lambda: function(x, rtol=1j), lambda: function(x, 1j)):
        with pytest.raises(TypeError, match="received an invalid combination of arguments"):
            call()
    with pytest.raises(RuntimeError, match="atol tensor of complex type is not supported. Got ComplexFloat"):
        function(x, atol=i)
    for options in ({"atol": i, "rtol": 0.5}, {"atol": 0.5, "rtol": i}):
        with pytest.raises(RuntimeError, match="value cannot be converted to type double without overflow"):
            function(x, **options)
    assert torch.equal(function(x, atol=0.5), function(x, atol=torch.tensor(0.5)))
    assert torch.equal(function(x, atol=2), function(x, atol=torch.tensor(2.0), rtol=0.0))
    with pytest.raises(RuntimeError, match="value cannot be converted to type double without overflow"):
        torch.linalg.lstsq(x, x, i)


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


def test_least_squares_of_full_rank_ignore_the_condition():
    """The driver for matrices of full rank has no bound for singular values."""
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]]), torch.tensor([[1.0], [2.0], [3.5]])
    solution = torch.linalg.lstsq(a, b, rcond=0.9, driver="gels").solution
    torch.testing.assert_close(solution, torch.tensor([[0.0], [0.5]]))

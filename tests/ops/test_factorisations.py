"""Matrix factorisations: properties of the factors, gradients and errors."""

import numpy as np
import pytest

import rushlight as torch

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def close(a, b, dtype):
    single = dtype in (torch.float32, torch.complex64)
    return torch.allclose(a, b, atol=1e-3 if single else 1e-9, rtol=1e-3 if single else 1e-9)


def random(*sizes, dtype):
    torch.manual_seed(len(sizes) + sum(sizes))
    return torch.randn(*sizes, dtype=dtype)


def positive(n, dtype):
    a = random(2, n, n, dtype=dtype)
    return a @ a.mH + torch.eye(n, dtype=dtype)


def identity_of(q):
    return torch.eye(q.shape[-1], dtype=q.dtype).expand_as(q.mH @ q)


@every_dtype
@pytest.mark.parametrize("sizes", [(3, 3), (7, 2), (2, 7), (2, 4, 3), (70, 40), (0, 3)])
@pytest.mark.parametrize("full", [True, False])
def test_singular_vectors_are_orthonormal_and_give_the_matrix_back(dtype, sizes, full):
    a = random(*sizes, dtype=dtype)
    u, s, vh = torch.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    assert close(u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], a, dtype)
    assert close(u.mH @ u, identity_of(u), dtype)
    assert close(vh @ vh.mH, identity_of(vh.mH), dtype)


@every_dtype
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigenvectors_of_hermitian_matrices(dtype, triangle):
    a = random(2, 5, 5, dtype=dtype)
    values, vectors = torch.linalg.eigh(a, triangle)
    part = a.tril() if triangle == "L" else a.triu()
    diagonal = torch.diag_embed(torch.diagonal(a, dim1=-2, dim2=-1))
    whole = part + part.mH - (diagonal + diagonal.mH) / 2
    assert close(vectors * values.unsqueeze(-2).to(dtype) @ vectors.mH, whole, dtype)
    assert bool((values.diff() >= 0).all())


@every_dtype
def test_eigenvectors_of_any_matrix(dtype):
    a = random(3, 6, 6, dtype=dtype)
    values, vectors = torch.linalg.eig(a)
    assert close(a.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2), dtype)
    assert close(torch.linalg.vector_norm(vectors, dim=-2), torch.ones(3, 6, dtype=a.real.dtype), dtype)


@every_dtype
@pytest.mark.parametrize("sizes", [(4, 4), (2, 6, 3), (3, 6), (90, 40)])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_orthogonal_factors(dtype, sizes, mode):
    a = random(*sizes, dtype=dtype)
    q, r = torch.linalg.qr(a, mode)
    assert close(q @ r, a, dtype)
    assert close(q.mH @ q, identity_of(q), dtype)
    assert close(r, r.triu(), dtype)


@every_dtype
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_reflections_multiply_as_their_product(dtype, left, transpose):
    a = random(5, 5, dtype=dtype)
    reflections, tau = torch.geqrf(a)
    q = torch.linalg.householder_product(reflections, tau)
    assert close(q @ reflections.triu(), a, dtype)
    b = random(5, 5, dtype=dtype)
    factor = q.mH if transpose else q
    wanted = factor @ b if left else b @ factor
    assert close(torch.ormqr(reflections, tau, b, left, transpose), wanted, dtype)


def test_the_product_of_fewer_reflections():
    """`householder_product` takes them; `ormqr` takes all that a matrix has."""
    reflections, tau = torch.geqrf(random(5, 5, dtype=torch.float64))
    few = tau.clone()
    few[3:] = 0
    wanted = torch.linalg.householder_product(reflections, few)
    assert torch.equal(torch.linalg.householder_product(reflections, tau[:3]), wanted)
    with pytest.raises(
        RuntimeError, match=r"tau.shape\[-1\] must be equal to min\(other.shape\[-2\], input.shape\[-1\]\)"
    ):
        torch.ormqr(reflections, tau[:3], reflections)


@every_dtype
@pytest.mark.parametrize("sizes", [(4, 4), (2, 6, 3), (3, 6), (100, 70)])
def test_permuted_triangles_give_the_matrix_back(dtype, sizes):
    a = random(*sizes, dtype=dtype)
    p, lower, upper = torch.linalg.lu(a)
    assert close(p @ lower @ upper, a, dtype)
    assert float(lower.abs().max()) <= 1.5


@every_dtype
@pytest.mark.parametrize("hermitian", [True, False])
def test_symmetric_pivoting(dtype, hermitian):
    a = random(3, 9, 9, dtype=dtype)
    a = a + (a.mH if hermitian else a.mT)
    a[0, 0, 0] = 0  # requires a block of two rows
    b = random(3, 9, 2, dtype=dtype)
    x = torch.linalg.ldl_solve(*torch.linalg.ldl_factor(a, hermitian=hermitian), b, hermitian=hermitian)
    assert close(a @ x, b, dtype)


@every_dtype
@pytest.mark.parametrize("upper", [True, False])
def test_cholesky_factors(dtype, upper):
    a = positive(6, dtype)
    factor = torch.linalg.cholesky(a, upper=upper)
    assert close(factor.mH @ factor if upper else factor @ factor.mH, a, dtype)
    b = random(2, 6, 3, dtype=dtype)
    assert close(a @ torch.cholesky_solve(b, factor, upper), b, dtype)
    assert close(torch.cholesky_inverse(factor, upper) @ a, identity_of(a), dtype)


@every_dtype
def test_systems(dtype):
    a, b = random(2, 5, 5, dtype=dtype), random(2, 5, 3, dtype=dtype)
    factors = torch.linalg.lu_factor(a)
    assert close(a @ torch.linalg.solve(a, b), b, dtype)
    assert close(torch.linalg.solve(a, b.mT, left=False) @ a, b.mT, dtype)
    assert close(a @ torch.linalg.lu_solve(*factors, b), b, dtype)
    assert close(a.mH @ torch.linalg.lu_solve(*factors, b, adjoint=True), b, dtype)
    assert close(a @ torch.linalg.inv(a), identity_of(a), dtype)
    assert close(torch.linalg.pinv(a), torch.linalg.inv(a), dtype)


def scalar_losses():
    square = lambda n=4: random(2, n, n, dtype=torch.float64)
    tall, wide = random(5, 3, dtype=torch.float64), random(3, 5, dtype=torch.float64)
    complex_ = random(4, 4, dtype=torch.complex128)
    symmetric = lambda a: a + a.mH
    yield "svd", lambda a: [x.abs() for x in torch.linalg.svd(a, full_matrices=False)], tall
    yield "svd wide", lambda a: [x.abs() for x in torch.linalg.svd(a, full_matrices=False)], wide
    yield "eigh", lambda a: torch.linalg.eigh(symmetric(a)), square()
    yield "eigh complex", lambda a: torch.linalg.eigh(symmetric(a))[1].abs(), complex_
    yield "eig", lambda a: [x.abs() for x in torch.linalg.eig(a)], complex_
    yield "qr", torch.linalg.qr, tall
    yield "qr wide", torch.linalg.qr, wide
    yield "qr complex", torch.linalg.qr, complex_
    yield "lu tall", lambda a: torch.linalg.lu(a)[1:], tall
    yield "lu wide", lambda a: torch.linalg.lu(a)[1:], wide
    yield "lu complex", lambda a: torch.linalg.lu(a)[1:], complex_
    yield "cholesky", lambda a: torch.linalg.cholesky(a @ a.mH + torch.eye(4)), square()
    yield "cholesky complex", lambda a: torch.linalg.cholesky(a @ a.mH, upper=True), complex_
    yield "pinv", torch.linalg.pinv, wide
    yield "lstsq", lambda a: torch.linalg.lstsq(a, torch.ones(5, 2, dtype=a.dtype)).solution, tall
    yield "slogdet complex", torch.linalg.slogdet, complex_
    yield "matrix_exp", torch.linalg.matrix_exp, square()
    yield "householder_product", lambda a: torch.linalg.householder_product(a, a[0]), tall


@pytest.mark.parametrize("name, function, a", list(scalar_losses()), ids=lambda x: x if isinstance(x, str) else "")
def test_gradients_of_any_order(name, function, a):
    outputs = lambda a: tuple(out) if not isinstance(out := function(a), torch.Tensor) else out
    a = a.clone().requires_grad_()
    assert torch.autograd.gradcheck(outputs, (a,))
    assert torch.autograd.gradgradcheck(outputs, (a,))


def test_a_singular_matrix_has_a_determinant_with_a_gradient():
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(torch.linalg.det(a), a, create_graph=True)
    assert torch.allclose(grad, torch.tensor([[4.0, -2.0], [-2.0, 1.0]], dtype=torch.float64))


def test_a_loss_that_depends_on_phases_is_refused():
    a = random(3, 3, dtype=torch.complex128).requires_grad_()
    with pytest.raises(RuntimeError, match="specified up to multiplication by e"):
        torch.linalg.svd(a).U.imag.sum().backward()
    with pytest.raises(RuntimeError, match="linalg_eigh_backward: The eigenvectors in the complex case"):
        torch.linalg.eigh(a).eigenvectors.imag.sum().backward()


def test_what_fails_names_the_matrix():
    batch = torch.stack([torch.eye(2), torch.zeros(2, 2)])
    with pytest.raises(
        torch.linalg.LinAlgError, match=r"linalg.inv: \(Batch element 1\): The diagonal element 1 is zero"
    ):
        torch.linalg.inv(batch)
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg.cholesky: \(Batch element 1\): The factorization"):
        torch.linalg.cholesky(batch)
    assert torch.linalg.inv_ex(batch).info.tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_infinite_matrices_have_singular_values_that_are_no_numbers(dtype):
    a = torch.full((3, 2), float("inf"), dtype=dtype)
    for part in (*torch.linalg.svd(a), torch.linalg.svdvals(a), *torch.linalg.svd(a, full_matrices=False)):
        assert part.isnan().all()
    assert torch.linalg.matrix_rank(a) == 0
    a[0, 0] = float("nan")
    with pytest.raises(torch.linalg.LinAlgError, match="contained non-finite values"):
        torch.linalg.svd(a)
    assert torch.linalg.LinAlgError.__name__ == "_LinAlgError"


def test_results_have_the_names_of_their_module():
    assert type(torch.linalg.svd(torch.eye(2))).__name__ == "linalg_svd"
    assert type(torch.svd(torch.eye(2))).__name__ == "svd"


def test_pivots_from_elsewhere_are_refused():
    lu, b = torch.eye(3), torch.ones(3, 1)
    for pivots in ([9, 1, 1], [0, 1, 1], [-1, 1, 1]):
        with pytest.raises(RuntimeError, match="Pivots given to lu_solve"):
            torch.linalg.lu_solve(lu, torch.tensor(pivots, dtype=torch.int32), b)
        with pytest.raises(RuntimeError, match="pivots"):
            torch.linalg.ldl_solve(lu, torch.tensor([9, 0, -7], dtype=torch.int32), b)


@pytest.mark.parametrize("name", ["svdvals", "eigvalsh", "inv", "det", "matrix_exp"])
def test_bits_do_not_depend_on_the_number_of_threads(name):
    a = random(40, 12, 12, dtype=torch.float32)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append(getattr(torch.linalg, name)(a).numpy().tobytes())
        assert len(set(results)) == 1
    finally:
        torch.set_num_threads(before)


def test_least_squares_tell_what_was_left_over():
    a, b = random(6, 3, dtype=torch.float64), random(6, 2, dtype=torch.float64)
    solution, residuals, rank, values = torch.linalg.lstsq(a, b, driver="gelsd")
    wanted = np.linalg.lstsq(a.numpy(), b.numpy(), rcond=None)
    for own, other in zip((solution, residuals, rank, values), wanted):
        assert np.allclose(own.numpy(), other)


def test_exponentials_of_a_batch_are_scaled_matrix_by_matrix():
    a = torch.stack([torch.eye(2), torch.eye(2) * 1e-3, torch.eye(2) * 20]).double()
    assert torch.allclose(torch.linalg.matrix_exp(a).diagonal(dim1=-2, dim2=-1), a.diagonal(dim1=-2, dim2=-1).exp())


def test_low_rank_is_found_from_random_vectors():
    a = random(30, 4, dtype=torch.float64) @ random(4, 20, dtype=torch.float64)
    for matrix in (a, a.mT):
        u, s, v = torch.svd_lowrank(matrix, q=5)
        assert torch.allclose(u * s @ v.mH, matrix)
    centered = a - a.mean(0)
    u, s, v = torch.pca_lowrank(a, q=5)
    assert torch.allclose(u * s @ v.mH, centered)


def test_the_older_form_of_the_factors():
    a = torch.tensor([[0.0, 1.0], [2.0, 4.0]])
    factors, pivots = a.lu()
    assert factors.tolist() == [[2.0, 4.0], [0.0, 1.0]] and pivots.tolist() == [2, 2]
    assert torch.lu(a, get_infos=True).info.item() == 0
    out = torch.empty(0), torch.empty(0, dtype=torch.int64)
    assert torch.lu(a, out=out) is out
    assert torch.equal(out[0], factors) and out[1].tolist() == [2, 2]
    with pytest.raises(TypeError, match="expected tuple of 3 elements but got 2"):
        torch.lu(a, get_infos=True, out=out)
    with pytest.raises(TypeError, match=r"^_lu_with_info\(\): argument 'input' \(position 1\) must be Tensor, not int"):
        torch.lu(5)
    with pytest.raises(TypeError, match=r"^_lu_with_info\(\): argument 'pivot' must be bool, not str"):
        torch.lu(a, "x")


def test_the_determinant_of_a_number_has_no_second_derivative():
    a = torch.tensor([[[3.0]], [[0.0]]], requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.linalg.det(a).sum(), a, create_graph=True)
    assert gradient.tolist() == [[[1.0]], [[1.0]]] and not gradient.requires_grad


def test_absent_residuals_hang_on_the_graph():
    a, b = torch.eye(2).requires_grad_(), torch.ones(2, 1)
    found = torch.linalg.lstsq(a, b)
    assert found.residuals.shape == (0,) and found.residuals.requires_grad
    found.residuals.sum().backward()
    assert a.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_the_power_of_zero_has_a_gradient():
    a = torch.full((2, 2), torch.inf, requires_grad=True)
    torch.linalg.matrix_power(a, 0).sum().backward()
    assert a.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_no_reflection_keeps_its_arguments_in_the_graph():
    a, tau = torch.ones(3, 2, requires_grad=True), torch.ones(0, requires_grad=True)
    product = torch.linalg.householder_product(a, tau)
    assert product.tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    assert [grad.shape for grad in torch.autograd.grad(product.sum(), (a, tau))] == [(3, 2), (0,)]


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("general", [True, False])
def test_lobpcg_finds_the_ends_of_the_spectrum(largest, general):
    torch.manual_seed(0)
    root = torch.randn(2, 15, 15, dtype=torch.float64)
    a = root @ root.mT
    b = torch.diag(torch.arange(1.0, 16.0, dtype=torch.float64)).expand(2, 15, 15) if general else None
    seen = []
    values, vectors = torch.lobpcg(a, 3, B=b, largest=largest, tracker=lambda state: seen.append(state.ivars["istep"]))
    scale = torch.eye(15, dtype=torch.float64) if b is None else b.rsqrt().nan_to_num(posinf=0)
    wanted = torch.linalg.eigvalsh(scale @ a @ scale)
    wanted = wanted.flip(-1)[..., :3] if largest else wanted[..., :3]
    assert torch.allclose(values, wanted, rtol=1e-5, atol=1e-7)
    right = vectors if b is None else b @ vectors
    assert torch.allclose(a @ vectors, right * values[..., None, :], atol=1e-4)
    assert seen[:2] == [0, 1]


def test_lobpcg_has_a_gradient():
    torch.manual_seed(0)
    root = torch.randn(9, 9, dtype=torch.float64)

    def found(a):
        values, vectors = torch.lobpcg((a + a.mT) / 2, 2, X=torch.eye(9, 2, dtype=torch.float64), tol=1e-12)
        return values, vectors.abs()

    assert torch.autograd.gradcheck(found, (root @ root.T).requires_grad_(), atol=1e-4)
    with pytest.raises(ValueError, match="LOBPCG algorithm is not applicable"):
        torch.lobpcg(torch.eye(4), 2)
    with pytest.raises(AssertionError, match=r"A must be square, got shape torch.Size\(\[2, 3\]\)"):
        torch.lobpcg(torch.ones(2, 3))
    with pytest.raises(AssertionError, match=r"A and B must have same shape, got torch.Size\(\[9, 9\]\) vs"):
        torch.lobpcg(torch.eye(9), B=torch.eye(8))
    with pytest.raises(AssertionError, match=r"X shape mismatch: got torch.Size\(\[8, 1\]\), expected \(9, 1\)"):
        torch.lobpcg(torch.eye(9), X=torch.ones(8, 1))
    with pytest.raises(IndexError, match="^tuple index out of range"):
        torch.lobpcg(torch.ones(9))
    for call in (lambda: torch.lobpcg(5), lambda: torch.lobpcg(torch.eye(9), B=5)):
        with pytest.raises(AttributeError, match="^'int' object has no attribute 'requires_grad'"):
            call()
    for a, b in ((False, True), (True, False)):
        values, vectors = torch.lobpcg(torch.eye(9, requires_grad=a), B=torch.eye(9, requires_grad=b))
        assert torch.allclose(values, torch.ones(1)) and vectors.requires_grad
        with pytest.raises(ValueError, match="^lobpcg.backward does not support backward with B != I yet.$"):
            values.sum().backward()


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("float64", 3e153),
        ("complex128", 3e153),
        ("float64", 1e-200),
        ("complex128", 1e-200),
        ("float32", 1e30),
        ("complex64", 1e-30),
    ],
)
def test_squares_that_leave_the_range(name, size):
    """Matrices are scaled if squares of their elements would overflow or underflow."""
    x = torch.full((4, 6), size, dtype=getattr(torch, name))
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    assert s[0].item() == pytest.approx(size * 24**0.5) and s[1].item() <= 1e-5 * s[0].item()
    assert torch.allclose((u * (s / size)) @ vh, x / size, atol=1e-5)
    assert torch.linalg.matrix_rank(x).item() == 1
    q, r = torch.linalg.qr(x)
    assert torch.allclose(q @ (r / size), x / size, atol=1e-5)


def test_reflections_of_huge_imaginary_numbers():
    x = torch.zeros(6, 3, dtype=torch.complex128)
    x[3, 0], x[5, 0] = 1.2e154j, 7e153j
    q, r = torch.linalg.qr(x)
    assert torch.allclose(q @ (r / 1e154), x / 1e154)


@pytest.mark.parametrize("size", [1e36, 1e-38])
@pytest.mark.parametrize("of", [torch.linalg.eigvalsh, lambda x: torch.linalg.eigvals(x).real.sort().values])
def test_eigenvalues_whose_squares_leave_the_range(of, size):
    x = torch.tensor([[1.0, 2.0], [2.0, 3.0]])
    torch.testing.assert_close(of(x * size) / size, of(x))


def test_a_vast_upper_triangle_is_not_read():
    x = torch.tensor([[1e-38, float("inf")], [2e-38, 3e-38]])
    assert torch.linalg.eigvalsh(x).div(1e-38).tolist() == pytest.approx([2 - 5**0.5, 2 + 5**0.5], rel=1e-5)


def test_complex_eigenvalues_have_the_order_of_lapack():
    a = (torch.arange(36) * 37 % 23 - 11).reshape(6, 6) + 1j * (torch.arange(36) * 53 % 19 - 9).reshape(6, 6)
    expected = [-28.026 - 5.12j, -2.683 + 13.517j, 16.116 - 8.147j, 1.332 - 0.578j, -7.999 - 7.269j, -0.739 - 10.402j]
    for dtype in (torch.complex64, torch.complex128):
        assert torch.linalg.eigvals(a.to(dtype)).tolist() == pytest.approx(expected, abs=1e-3)
    # Rows that isolate an eigenvalue are moved.
    triangle = torch.tensor([[1, 0, 0], [2j, 3, 0], [4, 5, 2]], dtype=torch.complex128)
    assert torch.linalg.eigvals(triangle).tolist() == [2, 3, 1]
    assert torch.linalg.eigvals(triangle.mT.contiguous()).tolist() == [1, 3, 2]


@pytest.mark.parametrize("n", [1, 2, 3, 8, 40, 75, 76])
@pytest.mark.parametrize("kind", ["random", "scaled", "triangular", "defective", "zero"])
def test_complex_eigenvectors(n, kind):
    random = np.random.default_rng(n)
    a = random.normal(size=(n, n)) + 1j * random.normal(size=(n, n))
    if kind == "scaled":
        a *= 10.0 ** random.integers(-8, 8, size=n) / 10.0 ** random.integers(-8, 8, size=n)[:, None]
    elif kind == "triangular":
        a = np.tril(a)[random.permutation(n)]
    elif kind == "defective":
        a = np.eye(n, k=1) + 2j * np.eye(n)
    elif kind == "zero":
        a = np.zeros((n, n), dtype=complex)
    values, vectors = (part.numpy() for part in torch.linalg.eig(torch.from_numpy(a)))
    # The distance of `A V` from `V w`, as multiples of the precision.
    distance = abs(a @ vectors - vectors * values) / max(abs(a).max() * n * np.finfo(float).eps, 1e-300)
    # Balancing a matrix whose rows differ much in size makes the distance larger: LAPACK's reaches 9,300 here.
    assert (
        distance.max() < (1e5 if kind == "scaled" else 1000) and abs(np.linalg.norm(vectors, axis=0) - 1).max() < 1e-12
    )
    largest = vectors[abs(vectors).argmax(0), np.arange(n)]
    assert abs(largest.imag).max() < 1e-15
    assert sorted(abs(torch.linalg.eigvals(torch.from_numpy(a)).numpy())) == pytest.approx(
        sorted(abs(values)), abs=1e-6
    )


def test_right_hand_sides_take_the_dtype_of_the_triangle():
    a = torch.eye(2, dtype=torch.float64) * 2
    found = torch.linalg.solve_triangular(a, torch.tensor([[2], [4]]), upper=True)
    assert found.dtype == torch.float64 and found.tolist() == [[1.0], [2.0]]
    b = torch.tensor([[2.0], [4.0]], requires_grad=True)
    torch.linalg.solve_triangular(a, b, upper=True).sum().backward()
    assert b.grad.dtype == torch.float32 and b.grad.tolist() == [[0.5], [0.5]]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float16, torch.float32])
def test_matrices_without_elements_may_have_any_dtype(dtype):
    empty = torch.zeros(0, 2, 2, dtype=dtype)
    tall = torch.zeros(3, 0, dtype=dtype)
    permutation, lower, upper = torch.linalg.lu(tall)
    assert permutation.dtype == dtype and permutation.tolist() == torch.eye(3, dtype=dtype).tolist()
    assert (lower.shape, upper.shape) == ((3, 0), (0, 0))
    permutation, _, _ = torch.linalg.lu(tall, pivot=False)
    assert permutation.shape == (0,)
    factors, pivots = torch.linalg.lu_factor(empty, pivot=False)
    assert (factors.dtype, factors.shape, pivots.shape, pivots.dtype) == (dtype, (0, 2, 2), (0, 2), torch.int32)
    values, vectors = torch.linalg.eigh(empty)
    assert (values.dtype, values.shape, vectors.shape) == (dtype, (0, 2), (0, 2, 2))
    assert torch.linalg.cond(torch.zeros(2, 0, 0, dtype=dtype)).tolist() == [0, 0]
    assert torch.linalg.cond(empty).dtype == dtype
    if dtype.is_floating_point:
        assert torch.linalg.cholesky(empty).dtype == dtype


def test_a_tolerance_that_is_no_number_is_above_all_singular_values():
    a = torch.eye(3)
    for absolute, relative in ((0.1, torch.nan), (torch.nan, 0.1), (torch.tensor(0.1), torch.nan)):
        assert torch.linalg.matrix_rank(a, atol=absolute, rtol=relative).item() == 0
        assert torch.linalg.pinv(a, atol=absolute, rtol=relative).count_nonzero() == 0


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_systems_and_their_gradients(transpose, upper, unit):
    a = (torch.rand(2, 3, 3, dtype=torch.float64) + 2 * torch.eye(3)).requires_grad_()
    b = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)

    def solve(b, a):
        return tuple(torch.triangular_solve(b, a, upper, transpose, unit))

    assert torch.autograd.gradcheck(solve, (b, a)) and torch.autograd.gradgradcheck(solve, (b, a))
    for operands in ((b, a.detach()), (b.detach(), a)):
        assert all(result.requires_grad for result in solve(*operands))


@pytest.mark.parametrize("options", [{"k": 0}, {"k": 1, "n": 0}, {"X": torch.ones(9, 0)}])
def test_lobpcg_needs_guesses(options):
    with pytest.raises(ZeroDivisionError, match=r"^0\.0 cannot be raised to a negative power"):
        torch.lobpcg(torch.eye(9), **options)

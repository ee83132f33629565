"""Factorisations by cuSOLVER, on the stand-in of the card made of software, which checks every call."""

from soft_card import FOLDER, needs_soft_card, run

pytestmark = needs_soft_card

#: `library()` counts the calls of the stand-ins for cuSOLVER and cuBLAS. `same()` compares the results of the card and of the host.
HELPERS = """
import ctypes
card = ctypes.CDLL("libcuda.so.1")
card.softcuda_factorisations.restype = ctypes.c_uint64
def library():
    torch.cuda.synchronize()
    return card.softcuda_factorisations()
DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
TOLERANCE = {torch.float32: 1e-4, torch.complex64: 1e-4}
def tuple_of(results):
    return (results,) if isinstance(results, torch.Tensor) else tuple(results)
def close(a, b, dtype):
    assert a.shape == b.shape, (a.shape, b.shape)
    far = (a.cpu() - b.cpu()).abs().max().item() if a.numel() else 0.0
    assert far <= TOLERANCE.get(dtype, 1e-9), (a.shape, dtype, far)
def same(function, *operands, calls=1, exact=True):
    host = tuple_of(function(*operands))
    before = library()
    results = tuple_of(function(*[x.cuda() for x in operands]))
    assert calls is None or library() == before + calls, (function, operands[0].shape, library() - before)
    for own, other in zip(results, host):
        assert own.dtype == other.dtype and own.stride() == other.stride(), (own.stride(), other.stride())
        if exact:
            close(own, other, operands[0].dtype)
    return results
def positive(*sizes, dtype):
    x = torch.randn(*sizes, dtype=dtype)
    return x @ x.mH + sizes[-1] * torch.eye(sizes[-1], dtype=dtype)
def raised(function):
    try:
        function()
    except RuntimeError as error:
        return type(error).__name__, str(error).splitlines()[0]
    raise AssertionError("nothing was raised")
def same_error(function, x):
    assert raised(lambda: function(x)) == raised(lambda: function(x.cuda()))
linalg = torch.linalg
torch.manual_seed(0)
"""


def test_cholesky_factors():
    run(
        HELPERS
        + """
for dtype in DTYPES:
    for sizes in ((3, 3), (1, 1), (4, 5, 5), (2, 3, 4, 4)):
        a = positive(*sizes, dtype=dtype)
        for upper in (False, True):
            same(lambda x: linalg.cholesky_ex(x, upper=upper), a, calls=1)
            same(lambda x: linalg.cholesky(x.mT, upper=upper), a, calls=1)
        b = torch.randn(*sizes[:-1], 2, dtype=dtype)
        same(lambda a, b: torch.cholesky_solve(b, linalg.cholesky(a)), a, b, calls=3)
        same(lambda a: torch.cholesky_inverse(linalg.cholesky(a)), a, calls=3)
    same(linalg.cholesky_ex, torch.zeros(0, 3, 3, dtype=dtype), calls=0)
    same(linalg.cholesky_ex, torch.zeros(2, 0, 0, dtype=dtype), calls=0)
a = positive(3, 4, 4, dtype=torch.float64)
a[1, 2, 2] = -1
infos = linalg.cholesky_ex(a.cuda()).info
assert infos.tolist() == [0, 3, 0] and infos.dtype == torch.int32
for x in (a, a[1]):
    same_error(linalg.cholesky, x)
    same_error(lambda x: linalg.cholesky_ex(x, check_errors=True), x)
x = positive(3, 3, dtype=torch.float64).cuda().requires_grad_()
assert torch.autograd.gradcheck(lambda x: linalg.cholesky(x @ x.mT), (x,))
""",
        SOFTCUDA_SEED=5,
    )


def test_lu_factors_and_what_is_solved_with_them():
    run(
        HELPERS
        + """
for dtype in DTYPES:
    for sizes in ((3, 3), (1, 1), (4, 5), (5, 4), (3, 4, 4), (2, 3, 5, 2)):
        a = torch.randn(*sizes, dtype=dtype)
        calls = 1 if sizes[-1] == sizes[-2] else a[..., 0, 0].numel()
        same(linalg.lu_factor_ex, a, calls=calls)
        same(linalg.lu_factor, a.mT, calls=calls)
        same(linalg.lu, a, calls=calls)
    for sizes in ((3, 3), (2, 4, 4)):
        a = torch.randn(*sizes, dtype=dtype) + 3 * torch.eye(sizes[-1], dtype=dtype)
        b = torch.randn(*sizes[:-1], 2, dtype=dtype)
        same(linalg.solve, a, b, calls=3)
        same(lambda a, b: linalg.solve(a, b.mH, left=False), a, b, calls=3)
        same(linalg.inv, a, calls=None)
        same(linalg.det, a, calls=1)
        same(linalg.slogdet, a, calls=1)
        for left, adjoint in ((True, False), (True, True), (False, False), (False, True)):
            def solve(a, b):
                return linalg.lu_solve(*linalg.lu_factor(a), b if left else b.mH, left=left, adjoint=adjoint)
            same(solve, a, b, calls=3)
    same(linalg.lu_factor_ex, torch.zeros(0, 3, 2, dtype=dtype), calls=0)
    same(linalg.lu_factor_ex, torch.zeros(2, 0, 3, dtype=dtype), calls=0)
singular = torch.zeros(2, 3, 3)
singular[0] = torch.eye(3)
assert linalg.lu_factor_ex(singular.cuda()).info.tolist() == [0, 1]
for x in (singular, singular[1]):
    same_error(linalg.lu_factor, x)
    same_error(linalg.inv, x)
    same_error(lambda x: linalg.solve(x, torch.ones_like(x)), x)
x = (torch.randn(3, 3, dtype=torch.float64) + 3 * torch.eye(3)).cuda().requires_grad_()
assert torch.autograd.gradcheck(linalg.inv, (x,)) and torch.autograd.gradcheck(linalg.det, (x,))
""",
        SOFTCUDA_SEED=5,
    )


def test_triangular_systems():
    run(
        HELPERS
        + """
for dtype in DTYPES:
    for sizes, other in (((3, 3), (3, 2)), ((2, 4, 4), (2, 4, 3)), ((4, 4), (2, 4, 3)), ((2, 1, 4, 4), (3, 4, 1))):
        a = torch.randn(*sizes, dtype=dtype) + 4 * torch.eye(sizes[-1], dtype=dtype)
        b = torch.randn(*other, dtype=dtype)
        for view in (lambda x: x, lambda x: x.mT, lambda x: x.mH, lambda x: x.repeat(*[1] * (x.ndim - 1), 2)[..., : x.shape[-1]]):
            for upper in (False, True):
                for unit in (False, True):
                    def solve(a, b):
                        return linalg.solve_triangular(view(a), b, upper=upper, unitriangular=unit)
                    same(solve, a, b, calls=1)
                    def solve(a, b):
                        return linalg.solve_triangular(view(a), b.mT, upper=upper, left=False, unitriangular=unit)
                    same(solve, a, b, calls=1)
    a, b = torch.randn(3, 64, 64, dtype=dtype).tril(-1) / 64, torch.randn(3, 64, 2, dtype=dtype)
    same(lambda a, b: linalg.solve_triangular(a, b, upper=False, unitriangular=True), a, b, calls=3)
    same(lambda a, b: linalg.solve_triangular(a, b, upper=True), torch.zeros(0, 0, dtype=dtype), torch.zeros(0, 2, dtype=dtype), calls=0)
""",
        SOFTCUDA_SEED=5,
    )


def test_orthogonal_factors_and_reflections():
    run(
        HELPERS
        + """
for dtype in DTYPES:
    for sizes in ((3, 3), (1, 1), (5, 3), (3, 5), (2, 4, 3), (2, 1, 3, 4)):
        a = torch.randn(*sizes, dtype=dtype)
        count, (m, n) = a[..., 0, 0].numel(), sizes[-2:]
        for mode in ("reduced", "complete", "r"):
            same(lambda x: linalg.qr(x, mode), a, calls=count * (1 if mode == "r" else 2))
        same(lambda x: linalg.qr(x.mT), a, calls=2 * count)
        same(torch.geqrf, a, calls=count)
        if m >= n:
            same(lambda x: linalg.householder_product(*torch.geqrf(x)), a, calls=2 * count)
            for transpose in (False, True):
                c = torch.randn(*sizes[:-1], 2, dtype=dtype)
                same(lambda a, c: torch.ormqr(*torch.geqrf(a), c, transpose=transpose), a, c, calls=2 * count)
                same(lambda a, c: torch.ormqr(*torch.geqrf(a), c.mT, left=False, transpose=transpose), a, c, calls=2 * count)
    for sizes in ((0, 3, 2), (2, 0, 3), (2, 3, 0)):
        for mode in ("reduced", "complete", "r"):
            same(lambda x: linalg.qr(x, mode), torch.zeros(sizes, dtype=dtype), calls=0)
x = torch.randn(4, 3, dtype=torch.float64, device="cuda", requires_grad=True)
assert torch.autograd.gradcheck(lambda x: linalg.qr(x), (x,))
""",
        SOFTCUDA_SEED=5,
    )


def test_eigenvalues_of_hermitian_matrices():
    """Vectors are unique up to a sign: they have to be orthonormal and to give the matrix."""
    run(
        HELPERS
        + """
for dtype in DTYPES:
    for sizes in ((3, 3), (1, 1), (2, 4, 4), (2, 3, 5, 5)):
        a = torch.randn(*sizes, dtype=dtype)
        count = a[..., 0, 0].numel()
        for triangle in "LU":
            same(lambda x: linalg.eigvalsh(x, triangle), a, calls=count)
            values, vectors = same(lambda x: linalg.eigh(x, triangle), a, calls=count, exact=False)
            close(values, linalg.eigvalsh(a, triangle), dtype)
            half = a.tril(-1) if triangle == "L" else a.triu(1).mH
            whole = half + half.mH + torch.diag_embed(a.diagonal(dim1=-2, dim2=-1).real).to(dtype)
            close(vectors * values.unsqueeze(-2) @ vectors.mH, whole, dtype)
            close(vectors.mH @ vectors, torch.eye(sizes[-1], dtype=dtype).expand(sizes), dtype)
        positive_ = positive(*sizes, dtype=dtype)
        same(lambda x: linalg.matrix_norm(x, 2), positive_, calls=count)
        same(linalg.matrix_rank, positive_, calls=count)
        same(lambda x: linalg.pinv(x, hermitian=True), positive_, calls=count)
    same(linalg.eigh, torch.zeros(0, 3, 3, dtype=dtype), calls=0)
    same(linalg.eigh, torch.zeros(2, 0, 0, dtype=dtype), calls=0)
x = torch.randn(3, 3, dtype=torch.float64, device="cuda", requires_grad=True)
assert torch.autograd.gradcheck(lambda x: linalg.eigh(x + x.mT)[0], (x,))
""",
        SOFTCUDA_SEED=5,
    )


def test_singular_values():
    run(
        HELPERS
        + """
for dtype in DTYPES:
    for sizes in ((3, 3), (1, 1), (5, 3), (3, 5), (2, 4, 3), (2, 1, 3, 4)):
        a = torch.randn(*sizes, dtype=dtype)
        count, (m, n) = a[..., 0, 0].numel(), sizes[-2:]
        same(linalg.svdvals, a, calls=count)
        for full in (False, True):
            u, s, vh = same(lambda x: linalg.svd(x, full), a, calls=count, exact=False)
            k = min(m, n)
            close(s, linalg.svdvals(a), dtype)
            close(u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], a, dtype)
            for vectors in (u, vh.mH):
                columns = vectors.shape[-1]
                close(vectors.mH @ vectors, torch.eye(columns, dtype=dtype).expand(*sizes[:-2], columns, columns), dtype)
        same(linalg.pinv, a, calls=count)
        same(lambda x: linalg.matrix_norm(x, "nuc"), a, calls=count)
    for full in (False, True):
        same(lambda x: linalg.svd(x, full), torch.zeros(2, 0, 3, dtype=dtype), calls=0)
    u, s, vh = linalg.svd(torch.ones(4, 3, dtype=dtype, device="cuda"))
    close(u.mH @ u, torch.eye(4, dtype=dtype), dtype)
same_error(linalg.svd, torch.full((2, 2), torch.nan))
x = torch.randn(4, 3, dtype=torch.float64, device="cuda", requires_grad=True)
assert torch.autograd.gradcheck(linalg.svdvals, (x,))
""",
        SOFTCUDA_SEED=5,
    )


def test_many_small_matrices_are_for_the_host():
    run(
        HELPERS
        + """
a = torch.randn(9, 4, 4, dtype=torch.float64)
for function in (linalg.qr, torch.geqrf, linalg.eigh, linalg.svd):
    same(function, a, calls=0)
same(linalg.inv, a, calls=None)
before = library()
linalg.inv(a.cuda())
assert library() > before
"""
    )


def test_threads_streams_and_devices_have_their_own_handles():
    run(
        HELPERS
        + """
from concurrent.futures import ThreadPoolExecutor
def work(n):
    torch.cuda.set_device(n % 2)
    a = torch.eye(8, device="cuda") * (n + 1.0) ** 2
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        results = [linalg.cholesky_ex(a).L for _ in range(5)] + [linalg.solve_triangular(a / (n + 1), a, upper=False)]
    torch.cuda.synchronize()
    return all((y.diagonal() == n + 1).all().item() and y.get_device() == n % 2 for y in results)
with ThreadPoolExecutor(4) as pool:
    assert all(pool.map(work, range(8)))
""",
        SOFTCUDA_SEED=9,
        SOFTCUDA_DEVICES=2,
    )


def test_without_it_the_host_factorises(tmp_path):
    for name in ("libcuda.so.1", "libnvrtc.so.13"):
        (tmp_path / name).symlink_to(FOLDER / "libcuda.so.1")
    shown = run(
        HELPERS
        + """
a = positive(2, 4, 4, dtype=torch.float64)
same(linalg.cholesky, a, calls=0)
same(linalg.lu_factor, a, calls=0)
same(linalg.solve, a, a[..., :2], calls=0)
from rushlight.cuda._doctor import report
print([line for line in report() if "cuSOLVER" in line[1]])
""",
        LD_LIBRARY_PATH=tmp_path,
    )
    assert "(False, 'cuSOLVER, which factorises matrices: not installed'" in shown and "rushlight[cuda13]" in shown

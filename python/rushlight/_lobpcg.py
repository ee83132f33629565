"""A few eigenvalues of large symmetric matrices, by locally optimal block preconditioned conjugate gradients."""

from __future__ import annotations

from itertools import repeat

from rushlight._overridable import overridable
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor

__all__ = ["lobpcg"]


class _Progress:
    """The argument of a tracker after each step. Setting ``ivars["converged_end"]`` ends the iteration."""

    def __init__(self) -> None:
        self.ivars: dict[str, int] = {"istep": 0, "converged_count": 0}
        self.E: Tensor
        self.X: Tensor
        self.R: Tensor


@overridable
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[[_Progress], None] | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The ``k`` largest (or smallest) eigenvalues of symmetric matrices and their eigenvectors: ``A @ V = B @ V * E``.

    Args:
        A: matrices of shape ``(.., m, m)``, or a sparse matrix.
        k: the number of eigenvalues; by default the number of columns of ``X``, or one.
        B: the symmetric positive definite matrices of a generalised problem.
        X: initial guesses of the eigenvectors, shape ``(.., m, n)``; random by default.
        n: the number of random guesses if ``X`` is not given.
        iK: a preconditioner: matrices close to the inverse of ``A``.
        niter: the largest number of steps, 1000 by default; unlimited if negative.
        tol: the relative size of a residual below which it has converged; by default the square root of the dtype's
            rounding error.
        largest: whether to compute the largest eigenvalues (the default) or the smallest.
        method: "basic" or "ortho"; both use the method that orthogonalises in every step.
        tracker: a function that is called after each step with the current results.
        ortho_iparams, ortho_fparams, ortho_bparams: accepted; they have no effect.

    The gradient of ``A`` is that of the computed eigenvalues and eigenvectors. The signs of eigenvectors are arbitrary.

    Raises:
        ValueError: there are fewer than three rows per eigenvalue, or backward meets a problem with ``B``.
        AssertionError: the shapes do not match.
        ZeroDivisionError: there are no guesses.
        AttributeError: an argument is no tensor.

    >>> E, V = torch.lobpcg(torch.diag(torch.arange(1.0, 7.0)), k=1)
    >>> torch.allclose(E, torch.tensor([6.0]))
    True
    """
    import rushlight as torch

    for given in (ortho_iparams, ortho_fparams, ortho_bparams):
        if given is not None:
            dict(given)  # so that what is no dictionary is refused
    recorded, of_B = A.requires_grad, B is not None and B.requires_grad
    if A.shape[-1] != A.shape[-2]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    m = A.shape[-1]
    count = (1 if X is None else X.shape[-1]) if k is None else k
    n = (count if n is None else n) if X is None else X.shape[-1]
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of "
            f"requested eigenpairs (={n})"
        )
    if B is not None:
        if B.shape != A.shape:
            raise AssertionError(f"A and B must have same shape, got {A.shape} vs {B.shape}")
    if X is not None and X.shape[-2] != m:
        raise AssertionError(f"X shape mismatch: got {X.shape}, expected {(m, n)}")
    if n == 0:
        raise ZeroDivisionError(
            "0.0 cannot be raised to a negative power\n  There are no eigenvalues to compute: k is 0."
        )
    batch = A.shape[:-2]
    with torch.no_grad():
        guess = torch.randn(*batch, m, n, dtype=A.dtype, device=A.device) if X is None else X.expand(*batch, m, n)
        settings = (1000 if niter is None else niter, torch.finfo(A.dtype).eps ** 0.5 if tol is None else tol)
        found = [
            _solve(own, of_B, start, iK, settings, largest is not False, tracker)
            for own, of_B, start in zip(
                _matrices(A), repeat(None) if B is None else _matrices(B), guess.reshape(-1, m, n)
            )
        ]
        E = torch.stack([values[:count] for values, _ in found]).reshape(*batch, -1)
        V = torch.stack([vectors[:, :count] for _, vectors in found]).reshape(*batch, m, -1)
    if not ((recorded or of_B) and torch.is_grad_enabled()):
        return E, V
    return _derived(A, E, V) if B is None else _without_derivative(A, B, E, V)


def _matrices(A: Tensor) -> list[Tensor] | Tensor:
    """The matrices of a batch. A sparse matrix stays as it is."""
    return [A] if A.dim() == 2 else A.reshape(-1, *A.shape[-2:])


def _norm(A: Tensor) -> Tensor:
    import rushlight as torch

    return A.to_sparse().norm() if A.layout in (torch.sparse_csr, torch.sparse_csc) else A.norm()


def _solve(
    A: Tensor, B: Tensor | None, X: Tensor, iK: Tensor | None, settings: tuple[int, float], largest: bool, tracker: Any
) -> tuple[Tensor, Tensor]:
    """Solves for one matrix. Each step takes the best vectors in the span of the last ones, residuals and last change."""
    import rushlight as torch

    steps, tol = settings
    n, progress = X.shape[-1], _Progress()
    E, weights = _best(A, B, X, n, largest)
    X, change = X @ weights, None
    scale = _norm(A), torch.ones((), dtype=A.dtype) if B is None else _norm(B)
    while steps < 0 or progress.ivars["istep"] < steps:
        residual = A @ X - (X if B is None else B @ X) * E
        small = residual.norm(dim=-2) <= tol * X.norm(dim=-2) * (scale[0] + E.abs() * scale[1])
        progress.ivars["converged_count"] = int(small.sum())
        progress.E, progress.X, progress.R = E, X, residual
        if tracker is not None:
            tracker(progress)
        if bool(small.all()) or progress.ivars.get("converged_end"):
            break
        search = residual if iK is None else iK @ residual
        basis = torch.cat([X, search] if change is None else [X, search, change], -1)
        E, weights = _best(A, B, basis, n, largest)
        change = basis[:, n:] @ weights[n:]
        X = basis @ weights
        progress.ivars["istep"] += 1
    return E, X


def _best(A: Tensor, B: Tensor | None, basis: Tensor, n: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The ``n`` best eigenvalues within the span of a basis, and their eigenvectors in terms of the basis."""
    import rushlight as torch

    length = basis.norm(dim=-2).clamp_min(torch.finfo(A.dtype).tiny)
    unit = basis / length
    gram = unit.mT @ (unit if B is None else B @ unit)
    values, vectors = torch.linalg.eigh((gram + gram.mT) / 2)
    # Directions in which the basis is nearly zero would consist of rounding errors. At least ``n`` directions are kept.
    keep = values > values[-1] * torch.finfo(A.dtype).eps * len(values)
    keep[-n:] = True
    frame = vectors[:, keep] / values[keep].clamp_min(torch.finfo(A.dtype).tiny).sqrt()
    inner = unit @ frame
    inner = inner.mT @ (A @ inner)
    values, vectors = torch.linalg.eigh((inner + inner.mT) / 2)
    chosen = slice(len(values) - n, None) if largest else slice(n)
    values, vectors = values[chosen], vectors[:, chosen]
    if largest:
        values, vectors = values.flip(0), vectors.flip(1)
    return values, frame @ vectors / length[:, None]


def _derived(A: Tensor, E: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
    """The same values, differentiable with respect to ``A`` by first-order perturbation theory."""
    import rushlight as torch

    moved = A @ V
    with torch.no_grad():
        all_values, all_vectors = torch.linalg.eigh(A.to_dense())
        gap = E[..., None, :] - all_values[..., :, None]
        near = gap.abs() <= torch.finfo(A.dtype).eps ** 0.5 * all_values.abs().amax(-1)[..., None, None]
        response = torch.where(near, 0.0, 1.0 / torch.where(near, 1.0, gap))
    values = (V * moved).sum(-2)
    vectors = all_vectors @ (response * (all_vectors.mT @ moved))
    return E + (values - values.detach()), V + (vectors - vectors.detach())


def _without_derivative(A: Tensor, B: Tensor, E: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
    """The same values, whose derivative raises an error."""
    from rushlight.autograd import Function

    class LOBPCGAutogradFunction(Function):
        @staticmethod
        def forward(ctx: Any, *matrices: Tensor) -> tuple[Tensor, Tensor]:
            return E, V

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Any:
            raise ValueError("lobpcg.backward does not support backward with B != I yet.")

    found: tuple[Tensor, Tensor] = LOBPCGAutogradFunction.apply(A, B)
    return found


set_module("rushlight", lobpcg)

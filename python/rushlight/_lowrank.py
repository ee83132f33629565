"""Approximate singular values of large matrices of low rank, from products with a few random vectors."""

from __future__ import annotations

from rushlight._overridable import overridable
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight import Tensor

__all__ = ["pca_lowrank", "svd_lowrank"]


def _adjoint(A: Tensor) -> Tensor:
    import rushlight as torch

    if A.layout == torch.strided:
        return A.mH
    return A.t().conj() if A.is_complex() else A.t()


def _basis(
    A: Tensor,
    q: int,
    niter: int,
    apply: Callable[[Tensor], Tensor],
    apply_adjoint: Callable[[Tensor], Tensor],
) -> Tensor:
    """Orthonormal columns that approximate the range of ``A``. Each product with ``A`` and its adjoint improves them."""
    import rushlight as torch

    dtype = torch.float32 if not (A.is_floating_point() or A.is_complex()) else A.dtype
    basis = torch.linalg.qr(apply(torch.randn(A.shape[-1], q, dtype=dtype, device=A.device))).Q
    for _ in range(niter):
        basis = torch.linalg.qr(apply_adjoint(basis)).Q
        basis = torch.linalg.qr(apply(basis)).Q
    return basis


@overridable
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> tuple[Tensor, ...]:
    """Approximates the ``q`` largest singular values of ``A - M`` and their vectors: ``U @ diag(S) @ V.mH``.

    Args:
        A: matrices, or a sparse matrix.
        q: the number of singular values; slightly more than the rank improves the result. More than the matrix has gives all.
        niter: the number of refinements of the random vectors.
        M: what is subtracted from ``A``.

    >>> U, S, V = torch.svd_lowrank(torch.ones(5, 4), q=2)
    >>> torch.allclose(S[0], torch.tensor(20.0).sqrt())
    True
    """
    import rushlight as torch

    q = 6 if q is None else q
    niter = 2 if niter is None else niter
    m, n = A.shape[-2:]
    if M is not None:
        M = M.broadcast_to(A.shape)
        if A.layout == torch.strided:
            A, M = A - M, None
    if m < n:
        left = svd_lowrank(_adjoint(A), q, niter, None if M is None else _adjoint(M))
        return left[2], left[1], left[0]
    # A sparse matrix is not changed: products with it are corrected by those with ``M``.
    apply = A.matmul if M is None else lambda x: A @ x - M @ x
    adjoint, of_M = _adjoint(A), None if M is None else _adjoint(M)
    apply_adjoint = adjoint.matmul if of_M is None else lambda x: adjoint @ x - of_M @ x
    basis = _basis(A, q, niter, apply, apply_adjoint)
    inner, values, vh = torch.linalg.svd(apply_adjoint(basis).mH, full_matrices=False)
    return basis @ inner, values, vh.mH


@overridable
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, ...]:
    """Approximates principal components: `svd_lowrank` of ``A``, with centred columns if ``center`` is true.

    Args:
        A: matrices with one sample per row, or a sparse matrix, which stays sparse.
        q: the number of components, by default ``min(6, m, n)``.
        center: whether to subtract the means of the columns.
        niter: the number of refinements of the random vectors.

    Raises:
        ValueError: ``q`` or ``niter`` is out of range, or a sparse tensor is no matrix.

    >>> torch.pca_lowrank(torch.arange(6.).reshape(3, 2), q=1)[1].shape
    torch.Size([1])
    """
    import rushlight as torch

    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not center:
        return svd_lowrank(A, q, niter)
    if A.layout == torch.strided:
        return svd_lowrank(A - A.mean(-2, keepdim=True), q, niter)
    if A.dim() != 2:
        raise ValueError("pca_lowrank input is expected to be 2-dimensional tensor")
    # The centred matrix would be dense.
    means = torch.sparse.sum(A, dim=0).to_dense()[None] / m
    return svd_lowrank(A, q, niter, M=means.expand(m, n))


set_module("rushlight", pca_lowrank, svd_lowrank)

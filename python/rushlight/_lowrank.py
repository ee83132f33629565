"""Approximate singular values of large matrices of low rank, from products with a few random vectors."""

from __future__ import annotations

from rushlight._overridable import overridable
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor

__all__ = ["pca_lowrank", "svd_lowrank"]


def _basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Orthonormal columns that approximate the range of ``A``. Each product with ``A`` and its adjoint improves them."""
    import rushlight as torch

    dtype = torch.float32 if not (A.is_floating_point() or A.is_complex()) else A.dtype
    basis = torch.linalg.qr(A @ torch.randn(A.shape[-1], q, dtype=dtype, device=A.device)).Q
    for _ in range(niter):
        basis = torch.linalg.qr(A.mH @ basis).Q
        basis = torch.linalg.qr(A @ basis).Q
    return basis


@overridable
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> tuple[Tensor, ...]:
    """Approximates the ``q`` largest singular values of ``A - M`` and their vectors: ``U @ diag(S) @ V.mH``.

    Args:
        A: matrices.
        q: the number of singular values; slightly more than the rank improves the result.
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
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if M is not None:
        A = A - M
    if m < n:
        left = svd_lowrank(A.mH, q, niter)
        return left[2], left[1], left[0]
    basis = _basis(A, q, niter)
    inner, values, vh = torch.linalg.svd(basis.mH @ A, full_matrices=False)
    return basis @ inner, values, vh.mH


@overridable
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, ...]:
    """Approximates principal components: `svd_lowrank` of ``A``, with centred columns if ``center`` is true.

    Args:
        A: matrices with one sample per row.
        q: the number of components, by default ``min(6, m, n)``.
        center: whether to subtract the means of the columns.
        niter: the number of refinements of the random vectors.

    Raises:
        ValueError: ``q`` or ``niter`` is out of range.

    >>> torch.pca_lowrank(torch.arange(6.).reshape(3, 2), q=1)[1].shape
    torch.Size([1])
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        A = A - A.mean(-2, keepdim=True)
    return svd_lowrank(A, q, niter)


set_module("rushlight", pca_lowrank, svd_lowrank)

"""The standard's extension ``linalg``."""

from __future__ import annotations

from collections import namedtuple

import rushlight as torch

from ._elementwise import meeting
from ._manipulation import matmul as matmul
from ._manipulation import matrix_transpose as matrix_transpose
from ._manipulation import tensordot as tensordot
from ._manipulation import vecdot as vecdot
from ._statistics import sum as _sum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

_Eigh = namedtuple("_Eigh", ["eigenvalues", "eigenvectors"])
_Qr = namedtuple("_Qr", ["Q", "R"])
_Slogdet = namedtuple("_Slogdet", ["sign", "logabsdet"])
_Svd = namedtuple("_Svd", ["U", "S", "Vh"])


def cholesky(x: torch.Tensor, /, *, upper: bool = False) -> torch.Tensor:
    """The Cholesky factor."""
    return torch.linalg.cholesky(x, upper=upper)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> torch.Tensor:
    """The cross product of vectors with three elements; the other dimensions broadcast."""
    first, second = meeting(x1, x2)
    if not first.shape[axis] == second.shape[axis] == 3:
        raise ValueError(f"vectors of three numbers are needed, but got {first.shape[axis]} and {second.shape[axis]}")
    return torch.linalg.cross(*torch.broadcast_tensors(first, second), dim=axis)


def det(x: torch.Tensor, /) -> torch.Tensor:
    """The determinant."""
    return torch.linalg.det(x)


def diagonal(x: torch.Tensor, /, *, offset: int = 0) -> torch.Tensor:
    """The diagonals of matrices."""
    return torch.diagonal(x, offset, -2, -1)


def eigh(x: torch.Tensor, /) -> _Eigh:
    """The eigenvalues of a Hermitian matrix in ascending order, and the eigenvectors."""
    return _Eigh(*torch.linalg.eigh(x))


def eigvalsh(x: torch.Tensor, /) -> torch.Tensor:
    """The eigenvalues of a Hermitian matrix, in ascending order."""
    return torch.linalg.eigvalsh(x)


def inv(x: torch.Tensor, /) -> torch.Tensor:
    """The inverse."""
    return torch.linalg.inv(x)


def matrix_norm(x: torch.Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> torch.Tensor:
    """A norm of matrices."""
    return torch.linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_power(x: torch.Tensor, n: int, /) -> torch.Tensor:
    """An integer power of a matrix."""
    return torch.linalg.matrix_power(x, n)


def matrix_rank(x: torch.Tensor, /, *, rtol: Any = None) -> torch.Tensor:
    """The rank: the number of singular values greater than ``rtol`` times the largest."""
    return torch.linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Any, x2: Any, /) -> torch.Tensor:
    """The outer product of two vectors."""
    return torch.outer(*meeting(x1, x2))


def pinv(x: torch.Tensor, /, *, rtol: Any = None) -> torch.Tensor:
    """The pseudo-inverse."""
    return torch.linalg.pinv(x, rtol=rtol)


def qr(x: torch.Tensor, /, *, mode: str = "reduced") -> _Qr:
    """The QR factorisation."""
    return _Qr(*torch.linalg.qr(x, mode))


def slogdet(x: torch.Tensor, /) -> _Slogdet:
    """The sign of the determinant and the logarithm of its magnitude."""
    return _Slogdet(*torch.linalg.slogdet(x))


def solve(x1: Any, x2: Any, /) -> torch.Tensor:
    """The solution of linear equations with one or more right-hand sides."""
    x1, x2 = meeting(x1, x2)
    if x2.dim() == 1:
        return torch.linalg.solve(x1, x2[:, None]).squeeze(-1)
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return torch.linalg.solve(x1.expand(*batch, *x1.shape[-2:]), x2.expand(*batch, *x2.shape[-2:]))


def svd(x: torch.Tensor, /, *, full_matrices: bool = True) -> _Svd:
    """The singular value decomposition."""
    return _Svd(*torch.linalg.svd(x, full_matrices))


def svdvals(x: torch.Tensor, /) -> torch.Tensor:
    """Singular values."""
    return torch.linalg.svdvals(x)


def trace(x: torch.Tensor, /, *, offset: int = 0, dtype: torch.dtype | None = None) -> torch.Tensor:
    """The traces of matrices."""
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: torch.Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2
) -> torch.Tensor:
    """A norm over dimensions that are treated as one vector."""
    if axis == ():
        # torch reduces over all dimensions here. The norm of one number is its magnitude, or the count of nonzero ones.
        return (x != 0).to(x.abs().dtype) if ord == 0 else x.abs()
    return torch.linalg.vector_norm(x, ord, axis, keepdims)


def __dir__() -> list[str]:
    return __all__

"""Sparse tensors (``torch.sparse_coo``), which store the indices and values of nonzero elements, and functions of them.

`torch.sparse_coo_tensor` creates them, ``x.to_sparse()`` and ``x.to_dense()`` convert, and embeddings with
``sparse=True`` have sparse gradients. Operators that do not support sparse tensors raise an error.
"""

from __future__ import annotations

import rushlight as torch
from rushlight import _C
from rushlight._overridable import overridable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor

__all__ = ["addmm", "check_sparse_tensor_invariants", "mm", "sparse_coo_tensor", "sum"]


@overridable
def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A sparse tensor with `values` at `indices` (one column per value). Values with equal indices are added.

    Without `size`, the size is the smallest that contains the indices. With only a size, the tensor has no values.
    Indices are always checked, whatever `check_invariants` is.

    Raises:
        RuntimeError: indices are out of range, or indices, values and size do not match.

    >>> torch.sparse_coo_tensor([[0, 2]], [1., 2.], (3,)).to_dense()
    tensor([1., 0., 2.])
    """
    if values is None:
        if size is None:
            size, indices = indices, None
        if indices is not None or size is None:
            raise TypeError("sparse_coo_tensor() takes indices and values, or only a size")
        dims = len(tuple(size))
        indices, values, is_coalesced = torch.empty(dims, 0, dtype=torch.int64), torch.empty(0, dtype=dtype), True
    if not isinstance(indices, torch.Tensor):
        indices = torch.tensor(indices, dtype=torch.int64)
    if not isinstance(values, torch.Tensor):
        values = torch.tensor(values, dtype=dtype, device=device)
    elif dtype is not None or device is not None:
        values = values.to(device=device, dtype=dtype)
    made = _C._sparse_coo_tensor(indices, values, None if size is None else tuple(size), bool(is_coalesced))
    return made.requires_grad_() if requires_grad else made


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """A dense matrix plus the product of a sparse and a dense matrix: ``beta * mat + alpha * (mat1 @ mat2)``.

    The gradient of the sparse matrix is sparse, with the same indices.

    >>> torch.sparse.addmm(torch.ones(2, 2), torch.eye(2).to_sparse(), torch.tensor([[1., 2.], [3., 4.]]))
    tensor([[2., 3.],
            [4., 5.]])
    """
    product = mm(mat1, mat2)
    return torch.add(mat.expand(product.shape) * beta, product, alpha=alpha)


def mm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """The product of a sparse and a dense matrix, in either order, or of two sparse matrices, which is sparse.

    The gradient of a sparse matrix is sparse, with the same indices.

    >>> swap = torch.tensor([[0., 1.], [1., 0.]]).to_sparse()
    >>> torch.sparse.mm(swap, torch.tensor([[1., 2.], [3., 4.]]))
    tensor([[3., 4.],
            [1., 2.]])
    >>> torch.sparse.mm(swap, swap)
    tensor(indices=tensor([[0, 1],
                           [0, 1]]),
           values=tensor([1., 1.]),
           size=(2, 2), nnz=2, layout=torch.sparse_coo)
    """
    return _C._sparse_mm(mat1, mat2)


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """The sum of all elements of a sparse tensor, or along dimensions. It is sparse if a sparse dimension remains.

    >>> torch.sparse.sum(torch.eye(3).to_sparse(), 0).to_dense()
    tensor([1., 1., 1.])
    """
    values = input.coalesce().values()
    if dtype is not None:
        values = values.to(dtype)
    if dim is None:
        return values.sum()
    dims = {d % input.dim() for d in ([dim] if isinstance(dim, int) else dim)}
    inner = input.sparse_dim()
    blocks = [d - inner + 1 for d in dims if d >= inner]
    if blocks:
        values = values.sum(blocks)
    left = [d for d in range(inner) if d not in dims]
    if not left:
        return values.sum(0)
    indices = input.coalesce().indices()
    size = [length for d, length in enumerate(input.shape) if d not in dims]
    made = sparse_coo_tensor(indices[left], values, size, is_coalesced=len(left) == inner or None)
    return made.coalesce()


class check_sparse_tensor_invariants:
    """torch's switch for checks of indices. It has no effect, because rushlight always checks them.

    >>> with torch.sparse.check_sparse_tensor_invariants(False):
    ...     torch.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    def __init__(self, enable: bool = True) -> None:
        del enable

    @staticmethod
    def is_enabled() -> bool:
        """Always True."""
        return True

    @staticmethod
    def enable() -> None:
        """Does nothing: the checks are always on."""

    @staticmethod
    def disable() -> None:
        """Does nothing: the checks are always on."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass

    def __call__(self, function: Any) -> Any:
        return function


def __dir__() -> list[str]:
    return __all__

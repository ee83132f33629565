"""The constructors of compressed sparse tensors: ``torch.sparse_csr_tensor`` and the others."""

from __future__ import annotations

import rushlight as torch
from rushlight import _C
from rushlight._compiled import compiled
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
]

_CLASSES = {
    _C.sparse_csr: "SparseCsr",
    _C.sparse_csc: "SparseCsc",
    _C.sparse_bsr: "SparseBsr",
    _C.sparse_bsc: "SparseBsc",
    _C.sparse_coo: "Sparse",
    _C.strided: "Strided",
}

_OPTIONS = (
    "ScalarType dtype=None, Layout layout=None, Device device=None, bool pin_memory=False, bool requires_grad=False, "
    "bool check_invariants=None"
)


@compiled(
    f"object compressed_indices, object plain_indices, object values, int[] size, *, {_OPTIONS}",
    f"object compressed_indices, object plain_indices, object values, *, {_OPTIONS}",
)
def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | str | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A sparse tensor in one of the four compressed layouts, which `layout` names.

    `compressed_indices` has for each row (of CSR and BSR; for each column of CSC and BSC) its first value, and after
    them the number of values; `plain_indices` the column (the row) of each value. The values of BSR and BSC are blocks.
    All three may begin with batch dimensions. Without `size`, the size is the smallest that contains the indices. They
    are always checked; only with ``check_invariants=True`` must the columns of each row also be sorted and unique.

    Raises:
        RuntimeError: the indices are not valid, or indices, values and size do not match.

    >>> torch.sparse_compressed_tensor([0, 1, 2], [1, 0], [1., 2.], (2, 2), layout=torch.sparse_csr).to_dense()
    tensor([[0., 1.],
            [2., 0.]])
    """
    if layout is None:
        raise RuntimeError("sparse_compressed_tensor expected sparse compressed tensor layout but got none")
    return _made(
        layout, compressed_indices, plain_indices, values, size, dtype, device, requires_grad, check_invariants
    )


@compiled(
    f"object crow_indices, object col_indices, object values, int[] size, *, {_OPTIONS}",
    f"object crow_indices, object col_indices, object values, *, {_OPTIONS}",
)
def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | str | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A sparse tensor of values row by row, with their columns. See `sparse_compressed_tensor`.

    >>> torch.sparse_csr_tensor([0, 2, 3], [0, 1, 2], [1., 2., 3.], (2, 3)).to_dense()
    tensor([[1., 2., 0.],
            [0., 0., 3.]])
    """
    _check_layout("sparse_csr_tensor", layout, torch.sparse_csr)
    return _made(
        torch.sparse_csr, crow_indices, col_indices, values, size, dtype, device, requires_grad, check_invariants
    )


@compiled(
    f"object ccol_indices, object row_indices, object values, int[] size, *, {_OPTIONS}",
    f"object ccol_indices, object row_indices, object values, *, {_OPTIONS}",
)
def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | str | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A sparse tensor of values column by column, with their rows. See `sparse_compressed_tensor`.

    >>> torch.sparse_csc_tensor([0, 1, 2], [1, 0], [1., 2.], (2, 2)).to_dense()
    tensor([[0., 2.],
            [1., 0.]])
    """
    _check_layout("sparse_csc_tensor", layout, torch.sparse_csc)
    return _made(
        torch.sparse_csc, ccol_indices, row_indices, values, size, dtype, device, requires_grad, check_invariants
    )


@compiled(
    f"object crow_indices, object col_indices, object values, int[] size, *, {_OPTIONS}",
    f"object crow_indices, object col_indices, object values, *, {_OPTIONS}",
)
def sparse_bsr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | str | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A sparse tensor of blocks, row by row of blocks, with their columns. See `sparse_compressed_tensor`.

    >>> torch.sparse_bsr_tensor([0, 1], [1], [[[1., 2.], [3., 4.]]], (2, 4)).to_dense()
    tensor([[0., 0., 1., 2.],
            [0., 0., 3., 4.]])
    """
    _check_layout("sparse_bsr_tensor", layout, torch.sparse_bsr)
    return _made(
        torch.sparse_bsr, crow_indices, col_indices, values, size, dtype, device, requires_grad, check_invariants
    )


@compiled(
    f"object ccol_indices, object row_indices, object values, int[] size, *, {_OPTIONS}",
    f"object ccol_indices, object row_indices, object values, *, {_OPTIONS}",
)
def sparse_bsc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | str | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A sparse tensor of blocks, column by column of blocks, with their rows. See `sparse_compressed_tensor`.

    >>> torch.sparse_bsc_tensor([0, 1], [1], [[[1., 2.], [3., 4.]]], (4, 2)).to_dense()
    tensor([[0., 0.],
            [0., 0.],
            [1., 2.],
            [3., 4.]])
    """
    _check_layout("sparse_bsc_tensor", layout, torch.sparse_bsc)
    return _made(
        torch.sparse_bsc, ccol_indices, row_indices, values, size, dtype, device, requires_grad, check_invariants
    )


def _check_layout(name: str, layout: torch.layout | None, own: torch.layout) -> None:
    if layout is not None and layout is not own:
        raise RuntimeError(f"{name}: layout must be {_CLASSES[own]} but got {_CLASSES[layout]}")


def _made(
    layout: torch.layout,
    compressed: Any,
    plain: Any,
    values: Any,
    size: Sequence[int] | None,
    dtype: torch.dtype | None,
    device: torch.device | str | None,
    requires_grad: bool,
    ordered: bool | None,
) -> Tensor:
    compressed = compressed if isinstance(compressed, torch.Tensor) else _index(compressed)
    plain = plain if isinstance(plain, torch.Tensor) else _index(plain)
    if not isinstance(values, torch.Tensor):
        values = torch.tensor(values, dtype=dtype, device=device)
    elif dtype is not None or device is not None:
        values = values.to(device=device, dtype=dtype)
    compressed, plain = compressed.to(device=values.device), plain.to(device=values.device)
    size = None if size is None else tuple(size)
    made = _C._sparse_compressed_tensor(layout, compressed, plain, values, size, bool(ordered))
    return made.requires_grad_() if requires_grad else made


def _index(data: Any) -> Tensor:
    # Without elements, the dtype would be that of floats.
    made = torch.tensor(data)
    return made if made.numel() else made.to(torch.int64)


@compiled()
def _convert_indices_from_coo_to_csr(input: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """The compressed form of sorted indices: where each of ``size`` rows begins, and where the last one ends.

    >>> torch._convert_indices_from_coo_to_csr(torch.tensor([0, 1, 1, 3]), 4)
    tensor([0, 1, 3, 3, 4])
    """
    if input.dim() > 1:
        raise RuntimeError(f"Input is supposed to be a vector, but got {input.dim()} dimensional tensor.")
    rows = torch.arange(size + 1, dtype=input.dtype, device=input.device)
    return torch.searchsorted(input, rows, out_int32=out_int32)


@compiled()
def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """The rows and the columns of elements in a compressed form; with ``transpose`` the columns come first.

    >>> torch._convert_indices_from_csr_to_coo(torch.tensor([0, 1, 3]), torch.tensor([1, 0, 1]))
    tensor([[0, 1, 1],
            [1, 0, 1]])
    """
    dtype = torch.int32 if out_int32 else torch.int64
    counts = crow_indices.diff()
    rows = torch.arange(counts.numel(), device=counts.device).repeat_interleave(counts.to(torch.int64))
    pair = [rows.to(dtype), col_indices.to(dtype)]
    return torch.stack(pair[::-1] if transpose else pair)


set_module(
    "rushlight",
    _convert_indices_from_coo_to_csr,
    _convert_indices_from_csr_to_coo,
    sparse_compressed_tensor,
    sparse_csr_tensor,
    sparse_csc_tensor,
    sparse_bsr_tensor,
    sparse_bsc_tensor,
)

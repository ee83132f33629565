"""Sparse tensors, which store the indices and values of nonzero elements, and functions of them.

`torch.sparse_coo_tensor` creates them in the layout ``torch.sparse_coo``, `torch.sparse_csr_tensor` and the others in the
compressed layouts, ``x.to_sparse()`` and ``x.to_dense()`` convert, and embeddings with ``sparse=True`` have sparse
gradients. Operators that do not support sparse tensors raise an error.
"""

from __future__ import annotations

import rushlight as torch
from rushlight import _C
from rushlight._compiled import compiled
from rushlight._loading import load
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from rushlight import Tensor

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "sparse_coo_tensor",
    "spdiags",
    "spsolve",
    "sum",
    "to_sparse_semi_structured",
]

# The legacy types, which load when they are first used.
_TYPES = (
    "BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor ShortTensor".split()
)

# Functions and classes for CUDA devices
_SEMI_STRUCTURED = (
    "SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT SparseSemiStructuredTensorCUTLASS".split()
)


@compiled(
    "object indices, object values, *, ScalarType dtype=None, Device device=None, bool pin_memory=False, "
    "bool requires_grad=False, bool check_invariants=None, bool is_coalesced=None",
    "object indices, object values, int[] size, *, ScalarType dtype=None, Device device=None, bool pin_memory=False, "
    "bool requires_grad=False, bool check_invariants=None, bool is_coalesced=None",
    "int[] size, *, ScalarType dtype=None, Device device=None, bool requires_grad=False, bool check_invariants=None",
)
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
        size = (size,) if isinstance(size, int) else tuple(size)
        dims = len(size)
        indices, values, is_coalesced = torch.empty(dims, 0, dtype=torch.int64), torch.empty(0, dtype=dtype), True
    if not isinstance(values, torch.Tensor):
        values = torch.tensor(values, dtype=dtype, device=device)
    elif dtype is not None or device is not None:
        values = values.to(device=device, dtype=dtype)
    if not isinstance(indices, torch.Tensor):
        indices = torch.tensor(indices, dtype=torch.int64, device=values.device)
    elif device is not None:
        indices = indices.to(device=device)
    if indices.device != values.device:
        of_indices, of_values = (tensor.device.type.upper().replace("META", "Meta") for tensor in (indices, values))
        raise RuntimeError(f"backend of indices ({of_indices}) must match backend of values ({of_values})")
    made = _C._sparse_coo_tensor(indices, values, None if size is None else tuple(size), bool(is_coalesced))
    return _C._requiring_grad(made) if requires_grad else made


@compiled(name="_sparse_addmm")
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1.0, alpha: complex = 1.0) -> Tensor:
    """A dense matrix plus the product of a sparse and a dense matrix: ``beta * input + alpha * (mat1 @ mat2)``.

    The gradient of the sparse matrix is sparse, with the same indices.

    >>> torch.sparse.addmm(torch.ones(2, 2), torch.eye(2).to_sparse(), torch.tensor([[1., 2.], [3., 4.]]))
    tensor([[2., 3.],
            [4., 5.]])
    """
    ordinary = (torch.strided, torch.sparse_coo)
    if any(one.layout not in ordinary for one in (input, mat1, mat2)) and (
        mat1.layout is torch.strided or mat2.layout is not torch.strided or input.layout is not torch.strided
    ):
        return torch.addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    if input.layout is not torch.strided:
        kind = _layout_name(input)
        raise RuntimeError(f"addmm_sparse_dense: expected strided result tensor, got tensor with layout {kind}")
    if mat1.layout is torch.strided or mat2.layout is not torch.strided:
        first, second = map(_layout_name, (mat1, mat2))
        raise RuntimeError(
            "addmm_sparse_dense: expected either 'mat1' to have sparse layout and 'mat2' to have strided layout, got "
            f"'mat1' with layout {first} and 'mat2' with layout {second}"
        )
    product = mm(mat1, mat2)
    return torch.add(input.expand(product.shape) * beta, product, alpha=alpha)


def _layout_name(tensor: Tensor) -> str:
    """torch's name of a tensor's layout: ``SparseCsr``, ``Sparse`` for the coordinate format."""
    return str(tensor.layout).removeprefix("torch.").title().replace("_", "").replace("SparseCoo", "Sparse")


@compiled("Tensor sparse, Tensor dense", "Tensor sparse, Tensor dense, str reduce", name="_sparse_mm")
def mm(sparse: Tensor, dense: Tensor, reduce: str | None = None) -> Tensor:
    """The product of a sparse and a dense matrix, in either order, or of two sparse matrices, which is sparse.

    The gradient of a sparse matrix is sparse, with the same indices.

    Args:
        sparse, dense: the matrices.
        reduce: what to take of the products of a row's elements with rows of ``dense``, in place of their sum, if
            ``sparse`` has the layout ``torch.sparse_csr``: ``"sum"``, ``"mean"``, ``"amax"`` or ``"amin"`` (also
            called ``"max"`` and ``"min"``).

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
    return _C._sparse_mm(sparse, dense) if reduce is None else _mm_reduce(sparse, dense, reduce)


def _mm_reduce(mat1: Tensor, mat2: Tensor, reduce: str) -> Tensor:
    if {mat1.layout, mat2.layout} <= {torch.strided, torch.sparse_coo}:
        _unsupported("_sparse_mm_reduce_impl", mat1 if mat1.is_sparse else mat2)
    if mat1.layout is not torch.sparse_csr:
        raise RuntimeError(f"sparse_mm_reduce: expect self to be SparseCsr, got {_layout_name(mat1)}")
    if mat2.layout is not torch.strided:
        raise RuntimeError(
            f"Expected tensor to have Strided Layout, but got tensor with {_layout_name(mat2)} Layout (while checking "
            "arguments for sparse_mm_reduce)"
        )
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce == "prod":
        raise RuntimeError("sparse_mm_reduce: reduce type of prod has not been enabled.")
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    rows, columns = torch._convert_indices_from_csr_to_coo(mat1.crow_indices(), mat1.col_indices())
    products = mat1.values().unsqueeze(1) * mat2[columns]
    result = products.new_zeros(mat1.size(0), mat2.size(1))
    to = rows.unsqueeze(1).expand_as(products)
    if reduce in ("sum", "mean") or not products.numel():
        return result.scatter_reduce(0, to, products, reduce, include_self=False)
    # The gradient is that of the first extreme of each row, so its place is found first.
    with torch.no_grad():
        extremes = result.scatter_reduce(0, to, products, reduce, include_self=False)
        places = torch.arange(len(rows), device=rows.device).unsqueeze(1).expand_as(products)
        same = products == extremes[rows]
        last = len(rows) - 1
        first = torch.full_like(result, last, dtype=torch.int64).scatter_reduce(0, to, places.where(same, last), "amin")
        filled = torch.zeros(mat1.size(0), dtype=torch.bool, device=rows.device).index_fill(0, rows, True).unsqueeze(1)
    return products.gather(0, first).where(filled, result)


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """The sum of all elements of a sparse tensor, or along dimensions. It is sparse if a sparse dimension remains.

    Raises:
        IndexError: a dimension is out of range.
        RuntimeError: a dimension appears twice.

    >>> torch.sparse.sum(torch.eye(3).to_sparse(), 0).to_dense()
    tensor([1., 1., 1.])
    """
    given = {} if dtype is None else {"dtype": dtype}
    return _sparse_sum(input, **given) if dim is None else _sparse_sum(input, dim, **given)


@compiled(
    "Tensor input",
    "Tensor input, *, ScalarType dtype",
    "Tensor input, int[1] dim",
    "Tensor input, int[1] dim, *, ScalarType dtype",
)
def _sparse_sum(input: Tensor, dim: Any = None, *, dtype: torch.dtype | None = None) -> Tensor:
    """`torch.sparse.sum`, by its older name.

    >>> torch._sparse_sum(torch.eye(3).to_sparse())
    tensor(3.)
    """
    if dim is not None and not input.is_sparse:
        _unsupported("_indices", input)
    values = input.coalesce().values()
    if dtype is not None:
        values = values.to(dtype)
    if dim is None:
        return values.sum()
    rank, dims = input.dim(), set[int]()
    for d in [dim] if isinstance(dim, int) else dim:
        if not -rank <= d < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})\n"
                f"The tensor has {rank} dimensions."
            )
        if d % rank in dims:
            raise RuntimeError(f"dim {d % rank} appears multiple times in the list of dims")
        dims.add(d % rank)
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


@compiled(
    "Tensor input, int dim, ScalarType dtype=None", "Tensor input, int dim, bool half_to_float", name="_sparse_softmax"
)
def softmax(input: Tensor, dim: int, dtype: torch.dtype | bool | None = None) -> Tensor:
    """The softmax along a dimension over the stored elements of a sparse tensor; the others count as minus infinity.

    >>> x = torch.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [0., 0., 5.], (2, 3))
    >>> torch.sparse.softmax(x, 1).to_dense()
    tensor([[0.5000, 0.0000, 0.5000],
            [0.0000, 1.0000, 0.0000]])
    """
    return _softmax("softmax", input, dim, dtype)


@compiled(
    "Tensor input, int dim, ScalarType dtype=None",
    "Tensor input, int dim, bool half_to_float",
    name="_sparse_log_softmax",
)
def log_softmax(input: Tensor, dim: int, dtype: torch.dtype | bool | None = None) -> Tensor:
    """The logarithm of `softmax` at the stored elements of a sparse tensor.

    >>> torch.sparse.log_softmax(torch.eye(2).to_sparse(), 1).values()
    tensor([0., 0.])
    """
    return _softmax("log_softmax", input, dim, dtype)


def _softmax(name: str, input: Tensor, dim: int, dtype: torch.dtype | bool | None) -> Tensor:
    if not input.is_sparse:
        _unsupported(f"_sparse_{name}", input)
    # A bool is `half_to_float`, the third argument of torch's other signature.
    if dtype is True:
        raise RuntimeError(f"{name}: with half to float conversion is not supported on cpu")
    if isinstance(dtype, torch.dtype):
        input = input.to(dtype)
    if not input.is_floating_point():
        raise NotImplementedError(f"\"{name}\" not implemented for '{_CLASS_NAMES.get(input.dtype, input.dtype)}'")
    rank = input.dim()
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})\n"
            f"The tensor has {rank} dimensions."
        )
    dim %= rank
    input = input.coalesce()
    indices, values, sparse_dim = input.indices(), input.values(), input.sparse_dim()
    if dim >= sparse_dim:
        result = getattr(torch, name)(values, dim - sparse_dim + 1)
    else:
        # Elements whose other indices are equal are normalised together.
        keys = torch.zeros(indices.shape[1], dtype=torch.int64, device=indices.device)
        for other in range(sparse_dim):
            if other != dim:
                keys = keys * input.shape[other] + indices[other]
        found, groups = keys.unique(return_inverse=True)
        shape = (len(found), *values.shape[1:])
        most = values.new_full(shape, -torch.inf).index_reduce(0, groups, values.detach(), "amax")
        shifted = values - most[groups]
        exponentials = shifted.exp()
        sums = values.new_zeros(shape).index_add(0, groups, exponentials)
        result = exponentials / sums[groups] if name == "softmax" else shifted - sums.log()[groups]
    return sparse_coo_tensor(indices, result, input.shape, is_coalesced=True)


_CLASS_NAMES = {
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.bool: "Bool",
}


def _unsupported(name: str, input: Tensor) -> None:
    kind = "" if input.layout is torch.strided else "Sparse" if input.is_sparse else "SparseCsr"
    backend = kind + ("CUDA" if input.is_cuda else "CPU")
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{backend}' backend. This could be because the operator "
        "doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom "
        "build)."
    )


@compiled(name="sparse_sampled_addmm")
def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1.0, alpha: complex = 1.0, out: Tensor | None = None
) -> Tensor:
    """The elements of ``alpha * (mat1 @ mat2)`` at the indices of a CSR tensor, plus `beta` times its values.

    >>> pattern = torch.eye(2).to_sparse_csr()
    >>> torch.sparse.sampled_addmm(pattern, torch.ones(2, 3), torch.ones(3, 2), beta=0.).values()
    tensor([3., 3.])
    """
    if input.layout is torch.strided or input.is_sparse:
        _unsupported("sparse_sampled_addmm", input)
    if input.layout is not torch.sparse_csr:
        raise RuntimeError(
            "sampled_addmm: Expected result to have sparse csr layout, but got "
            f"Sparse{str(input.layout).rpartition('_')[2].title()}"
        )
    for name, factor in (("mat1", mat1), ("mat2", mat2)):
        if factor.layout is not torch.strided:
            kind = str(factor.layout).rpartition("_")[2].title().replace("Coo", "")
            raise RuntimeError(f"sampled_addmm: Expected {name} to have strided layout, but got Sparse{kind}")
        if factor.dim() < 2:
            raise RuntimeError(f"sampled_addmm: Expected {name} to be a matrix, got {factor.dim()}-D tensor")
    if mat1.dtype != mat2.dtype:
        names = [torch.empty(0, dtype=own.dtype).type().rpartition(".")[2] for own in (mat1, mat2)]
        first, second = (name.removesuffix("Tensor") for name in names)
        raise RuntimeError(
            f"sampled_addmm: Expected mat1 and mat2 to have the same dtype, but got {first} and {second}"
        )
    if mat1.shape[-1] != mat2.shape[-2]:
        sizes = f"{mat1.shape[-2]}x{mat1.shape[-1]} and {mat2.shape[-2]}x{mat2.shape[-1]}"
        raise RuntimeError(f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({sizes})")
    if input.shape[-2] != mat1.shape[-2]:
        raise RuntimeError("sampled_addmm: self.shape[-2] must match mat1.shape[-2]")
    if input.shape[-1] != mat2.shape[-1]:
        raise RuntimeError("sampled_addmm: self.shape[-1] must match mat2.shape[-1]")
    *batch, rows, columns = input.detach().to_sparse_coo()._indices()
    sampled = (mat1[(*batch, rows)] * mat2.mT[(*batch, columns)]).sum(-1)
    stored = input.values()
    values = stored * beta + sampled.reshape(stored.shape) * alpha
    result = torch.sparse_csr_tensor(input.crow_indices(), input.col_indices(), values, input.shape)
    return result if out is None else out.copy_(result)


@compiled("Tensor diagonals, Tensor offsets, int[] shape, Layout layout=None", name="_spdiags")
def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: torch.layout | None = None) -> Tensor:
    """A sparse matrix with the rows of `diagonals` on the diagonals of these offsets, each element in its column.

    >>> torch.sparse.spdiags(torch.tensor([[1., 2., 3.]]), torch.tensor([1]), (3, 3)).to_dense()
    tensor([[0., 2., 0.],
            [0., 0., 3.],
            [0., 0., 0.]])
    """
    if diagonals.dim() > 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if offsets.dim() > 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if offsets.dtype != torch.int64:
        kind = _CLASS_NAMES.get(offsets.dtype) or offsets.type().rpartition(".")[2].removesuffix("Tensor")
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {kind}")
    diagonals, places = torch.atleast_2d(diagonals), offsets.reshape(-1).tolist()
    if len(places) != len(diagonals):
        raise RuntimeError(
            f"Number of diagonals ({len(diagonals)}) does not match the number of offsets ({len(places)})"
        )
    if len(set(places)) != len(places):
        raise RuntimeError("Offset tensor contains duplicate values")
    if layout not in (None, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
        kind = str(layout).rpartition("_")[2].title()
        name = "Strided" if layout is torch.strided else f"Sparse{kind}"
        raise RuntimeError(f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {name}")
    indices, values = [], []
    for place, diagonal in zip(places, diagonals):
        first, last = max(place, 0), min(shape[1], shape[0] + place, len(diagonal))
        columns = torch.arange(first, max(first, last), device=diagonals.device)
        indices.append(torch.stack([columns - place, columns]))
        values.append(diagonal[first : max(first, last)])
    made = sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), shape, is_coalesced=len(places) == 1)
    return made if layout in (None, torch.sparse_coo) else made.to_sparse(layout=layout)


@compiled(name="_spsolve")
def spsolve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """torch's solver for CSR matrices, which is refused on every device. torch has it on GPUs.
    `torch.linalg.solve` solves with `A.to_dense()`.

    Raises:
        NotImplementedError: in every call.

    >>> try:
    ...     torch.sparse.spsolve(torch.eye(2).to_sparse_csr(), torch.ones(2))
    ... except NotImplementedError:
    ...     print("refused")
    refused
    """
    del B, left
    _unsupported("_spsolve", A)
    return A


@compiled(
    "Tensor input, Tensor mat2, *, Tensor out=None",
    "Tensor input, Tensor mat2, ScalarType out_dtype, *, Tensor out=None",
    name="mm",
    overridable=False,
)
def spmm(input: Tensor, mat2: Tensor, out_dtype: torch.dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices, of which one may be sparse: `torch.mm`. An `out_dtype` is for GPUs only.

    >>> torch.spmm(torch.eye(2).to_sparse(), torch.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    return _mm(input, mat2, out_dtype, out)


@compiled(
    "Tensor input, Tensor mat2, *, Tensor out=None",
    "Tensor input, Tensor mat2, ScalarType out_dtype, *, Tensor out=None",
    name="mm",
    overridable=False,
)
def dsmm(input: Tensor, mat2: Tensor, out_dtype: torch.dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices, of which one may be sparse: `torch.mm`. An `out_dtype` is for GPUs only.

    >>> torch.dsmm(torch.eye(2).to_sparse(), torch.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    return _mm(input, mat2, out_dtype, out)


def _mm(input: Tensor, mat2: Tensor, out_dtype: torch.dtype | None, out: Tensor | None) -> Tensor:
    if out_dtype is not None:
        _unsupported("mm.dtype", input)
    return torch.mm(input, mat2) if out is None else torch.mm(input, mat2, out=out)


@compiled("Tensor mat1, Tensor mat2, *, Tensor out=None")
def hspmm(mat1: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of a sparse matrix and a dense one as a sparse tensor of rows.

    Raises:
        NotImplementedError: the first matrix is not sparse.
        RuntimeError: the matrices do not fit each other, or ``out`` is not sparse or has another dtype.

    >>> torch.hspmm(torch.eye(2).to_sparse(), torch.ones(2, 1))._values()
    tensor([[1.],
            [1.]])
    """
    if not mat1.is_sparse:
        _unsupported("hspmm", mat1)
    _check_factors("hspmm", mat1, mat2)
    if mat2.layout is not torch.strided:
        kind = _layout_name(mat2)
        raise RuntimeError(f"addmm_sparse_dense: expected strided result tensor, got tensor with layout {kind}")
    rows, values = _rows(mat1, mat2)
    return _into(out, sparse_coo_tensor(rows[None], values, (mat1.shape[0], mat2.shape[1]), is_coalesced=True))


@compiled()
def smm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of a sparse matrix and a dense one as a sparse matrix.

    >>> torch.smm(torch.eye(2).to_sparse(), torch.ones(2, 1))._values()
    tensor([1., 1.])
    """
    if not input.is_sparse:
        raise RuntimeError("tensor.sspaddmm(...) can only be called on sparse tensors")
    _check_product(input, mat2)
    return _product(input, mat2)


def _product(mat1: Tensor, mat2: Tensor) -> Tensor:
    """The product of a sparse matrix and a dense one, with all elements of the rows that have any."""
    rows, values = _rows(mat1, mat2)
    columns = torch.arange(mat2.shape[1], device=mat2.device)
    indices = torch.stack([rows.repeat_interleave(len(columns)), columns.repeat(len(rows))])
    return sparse_coo_tensor(indices, values.reshape(-1), (mat1.shape[0], mat2.shape[1]))


def _check_product(mat1: Tensor, mat2: Tensor) -> None:
    if not mat1.is_sparse:
        kind = _layout_name(mat1)
        raise RuntimeError(f"sspaddmm: expected 'mat1' to have sparse layout, got 'mat1' with layout {kind}")
    if mat2.layout is not torch.strided:
        kind = _layout_name(mat2)
        raise RuntimeError(f"sspaddmm: expected 'mat2' to have strided layout, got 'mat2' with layout {kind}")
    _check_factors("sspaddmm", mat1, mat2)


def _check_factors(name: str, mat1: Tensor, mat2: Tensor) -> None:
    """Refuses matrices that do not fit each other. torch counts the result as the first argument."""
    for place, matrix in ((2, mat1), (3, mat2)):
        # A sparse matrix whose elements are rows has one sparse dimension.
        dims = matrix.sparse_dim() if matrix.is_sparse and matrix.dim() == 2 else matrix.dim()
        if dims != 2:
            raise RuntimeError(f"{name}: Argument #{place}: matrices expected, got {dims}D tensor")
    if mat1.size(1) != mat2.size(0):
        raise RuntimeError(f"{name}: Argument #3: Expected dim 0 size {mat1.size(1)}, got {mat2.size(0)}")


def _into(out: Tensor | None, result: Tensor) -> Tensor:
    """The result, in ``out`` if there is one."""
    if out is None:
        return result
    if not out.is_sparse:
        raise RuntimeError("out= of a sparse result must be a sparse tensor in the coordinate format")
    if out.dtype != result.dtype:
        own, other = (one.type().rpartition(".")[2].removesuffix("Tensor") for one in (result, out))
        raise RuntimeError(f"dtype of values ({own}) must match dtype of sparse tensor ({other})")
    return out.sparse_resize_and_clear_(result.shape, 2, 0).copy_(result)


@compiled("Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor out=None")
def sspaddmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1, alpha: complex = 1, out: Tensor | None = None
) -> Tensor:
    """A sparse matrix plus the product of a sparse matrix and a dense one, as a sparse matrix.

    Raises:
        RuntimeError: the matrices do not fit each other, have other layouts, or ``out`` is not sparse.

    >>> swap = torch.tensor([[0., 1.], [1., 0.]]).to_sparse()
    >>> torch.sspaddmm(swap, swap, torch.eye(2)).to_dense()
    tensor([[0., 2.],
            [2., 0.]])
    """
    if not input.is_sparse:
        _unsupported("sspaddmm", input)
    _check_product(mat1, mat2)
    for dim, size in enumerate((mat1.size(0), mat2.size(1))):
        if input.size(dim) != size:
            raise RuntimeError(f"sspaddmm: Argument #1: Expected dim {dim} size {size}, got {input.size(dim)}")
    first, second = input * beta, _product(mat1, mat2) * alpha
    indices = torch.cat([first._indices(), second._indices()], 1)
    return _into(out, sparse_coo_tensor(indices, torch.cat([first._values(), second._values()]), input.shape))


@compiled()
def resize_as_sparse_(input: Tensor, the_template: Tensor) -> Tensor:
    """`Tensor.resize_as_sparse_` as a function.

    >>> torch.resize_as_sparse_(torch.eye(2).to_sparse(), torch.ones(2, 3).to_sparse()).shape
    torch.Size([2, 3])
    """
    return input.resize_as_sparse_(the_template)


@compiled("Tensor input, Scalar p=2", "Tensor input, Scalar? p, int[1] dim, bool keepdim, ScalarType? dtype")
def native_norm(
    input: Tensor,
    p: float | None = 2,
    dim: Any = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The norm of all elements of a sparse tensor.

    Raises:
        RuntimeError: some dimensions alone are reduced or kept, or there is a dtype.

    >>> torch.native_norm(torch.tensor([3.0, 0.0, 4.0]).to_sparse())
    tensor(5.)
    """
    if not input.is_sparse:
        _unsupported("native_norm" if dim is None else "native_norm.ScalarOpt_dim_dtype", input)
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dtype is not None:
        raise RuntimeError("norm_sparse currently does not support 'dtype' argument")
    dims = [dim] if isinstance(dim, int) else list(dim or ())
    if dims and {place % input.dim() for place in dims} != set(range(input.dim())):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions "
            "of the input"
        )
    return torch.linalg.vector_norm(input.coalesce().values(), 2 if p is None else p)


def _rows(mat1: Tensor, mat2: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of a product that have elements, and their numbers."""
    rows = mat1._indices()[0].unique()
    return rows, torch.mm(mat1, mat2)[rows]


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


def to_sparse_semi_structured(original_tensor: Tensor, transposed: bool = False) -> NoReturn:
    """Raises an error: torch's for a tensor that is not on a CUDA device, and for others because there are no kernels.

    >>> try:
    ...     torch.sparse.to_sparse_semi_structured(torch.zeros(64, 64))
    ... except RuntimeError as error:
    ...     print(error)
    Error original_tensor.device= cpu is not supported! Only CUDA tensors are currently supported.
    """
    raise load("rushlight._sparse_semi_structured").refusal(original_tensor)


hsmm = hspmm
saddmm = sspaddmm

for _function in (dsmm, hspmm, smm, sparse_coo_tensor, spmm, sspaddmm):
    set_module("rushlight", _function)


def as_sparse_gradcheck(gradcheck: Callable[..., Any]) -> Callable[..., Any]:
    """Lets a check of gradients, `torch.autograd.gradcheck` or a `functools.partial` of it, take sparse tensors.

    The check itself sees the values. With ``masked=True`` only the elements that are stored change, otherwise all.

    >>> gradcheck = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    >>> x = torch.tensor([[0, 1], [2, 3]], dtype=torch.float64).to_sparse_coo().requires_grad_()
    >>> gradcheck(lambda x: x * 2, x)
    True
    """
    made: Callable[..., Any] = load("rushlight._sparse_gradcheck").as_sparse_gradcheck(gradcheck)
    return made


def __getattr__(name: str) -> Any:
    if name in _SEMI_STRUCTURED:
        return getattr(load("rushlight._sparse_semi_structured"), name)
    if name not in _TYPES:
        from rushlight._missing_names import missing_from

        raise missing_from("torch.sparse", name, __dir__)
    globals()[name] = made = load("rushlight._legacy_constructors").sparse_type(name)
    return made


def __dir__() -> list[str]:
    return [*__all__, *_TYPES, *_SEMI_STRUCTURED]

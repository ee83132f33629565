"""Functions of tensors that handle their arguments in Python and then call operators: variable numbers of operands,
numbers or lists, optional results."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight import atleast_1d as atleast_1d
from rushlight import atleast_2d as atleast_2d
from rushlight import atleast_3d as atleast_3d
from rushlight import block_diag as block_diag
from rushlight import broadcast_shapes as broadcast_shapes
from rushlight import broadcast_tensors as broadcast_tensors
from rushlight import cartesian_prod as cartesian_prod
from rushlight import cdist as cdist
from rushlight import istft as istft
from rushlight import meshgrid as meshgrid
from rushlight import norm as norm
from rushlight import split as split
from rushlight import stft as stft
from rushlight._compiled import compiled
from rushlight._lowrank import pca_lowrank as pca_lowrank
from rushlight._lowrank import svd_lowrank as svd_lowrank
from rushlight._overridable import call_override, mark_overridable, overridable, overridden
from rushlight._text import kind_of
from rushlight._warnings import warn, warn_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "einsum",
    "gesv",
    "gradient",
    "histogramdd",
    "istft",
    "lu",
    "meshgrid",
    "norm",
    "pca_lowrank",
    "split",
    "stft",
    "svd_lowrank",
    "tensordot",
    "unique",
    "unique_consecutive",
    "unravel_index",
]


@overridable
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of a chain of matrices, in the order with the fewest multiplications.

    Raises:
        TypeError: an argument is not a tensor.
        RuntimeError: there are no matrices, or a tensor is not a matrix.

    >>> torch.functional.chain_matmul(torch.ones(1, 2), torch.ones(2, 3), torch.ones(3, 1))
    tensor([[6.]])
    """
    for place, matrix in enumerate(matrices):
        if not isinstance(matrix, _C.Tensor):
            raise TypeError(f"expected Tensor as element {place} in argument 0, but got {type(matrix).__name__}")
        if matrix.dim() != 2:
            raise RuntimeError(f"Tensor dimension is {matrix.dim()}, expected 2 instead.")
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot "
        "instead, which accepts a list of two or more tensors rather than multiple parameters."
    )
    if len(matrices) == 1:
        return matrices[0] if out is None else out.resize_as_(matrices[0]).copy_(matrices[0])
    return _C._functions["linalg"]["multi_dot"](matrices, out=out)


@compiled("Tensor input, bool pivot=True, bool check_errors=True", overridable=False)
def _lu_with_info(input: Tensor, pivot: bool = True, check_errors: bool = True) -> tuple[Tensor, ...]:
    """The operator of `lu`, by torch's name."""
    warn_once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in a "
        "future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with\n"
        "LU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\n"
        "LU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\n"
        "LU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
    )
    return _C._functions["linalg"]["lu_factor_ex"](input, pivot=pivot)


@overridable
def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: tuple[Tensor, ...] | None = None
) -> tuple[Tensor, ...]:
    """LU factors in one matrix, and pivots, also for singular matrices. Newer: `torch.linalg.lu_factor_ex`.

    >>> torch.lu(torch.eye(2))[1]
    tensor([1, 2], dtype=torch.int32)
    """
    factored = _lu_with_info(A, pivot=pivot, check_errors=not get_infos)
    results = factored if get_infos else factored[:2]
    if out is None:
        return results
    if len(out) != len(results):
        raise TypeError(f"expected tuple of {len(results)} elements but got {len(out)}")
    if not isinstance(out, (tuple, list)):
        raise TypeError(f"argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    for target, result in zip(out, results):
        target.resize_as_(result).copy_(result)
    return out


@overridable
def gesv(b: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
    """The solution of ``A @ X = b`` and the LU factors of ``A``. The newer function is `torch.linalg.solve`.

    >>> torch.gesv(torch.ones(2, 1), torch.eye(2) * 2)[0]
    tensor([[0.5000],
            [0.5000]])
    """
    warn("torch.gesv is deprecated in favor of torch.linalg.solve", DeprecationWarning)
    rows = _C._functions["linalg"]
    return rows["solve"](A, b), rows["lu_factor"](A)[0]


def _letter(place: int) -> str:
    if not 0 <= place < 52:
        raise ValueError(f"einsum(): subscript in subscript list is not within the valid range [0, 52)\nIt is {place}.")
    return chr(ord("A") + place) if place < 26 else chr(ord("a") + place - 26)


def _equation(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation of a call with numbers instead of letters: ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""

    def letters(places: Any) -> str:
        return "".join("..." if place is Ellipsis else _letter(place) for place in places)

    pairs = len(operands) // 2
    equation = ",".join(letters(places) for places in operands[1 : 2 * pairs : 2])
    if len(operands) % 2:
        equation += "->" + letters(operands[-1])
    return equation, operands[: 2 * pairs : 2]


_NO_OPERAND = "einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list"


@mark_overridable
def einsum(*args: Any) -> Tensor:
    """Sums of products in Einstein notation.

    Args:
        args: an equation and its operands: ``einsum("ij,jk->ik", a, b)``. Each letter names a dimension. Dimensions
            with the same letter are iterated together. Dimensions that are missing after ``->`` are summed. Without
            ``->`` the result has the letters that occur once, in alphabetical order. ``...`` stands for dimensions that
            broadcast. Alternatively, operands, each followed by a list of numbers, and the list of the result:
            ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.

    Raises:
        RuntimeError: the equation does not match the operands.
        ValueError: there is no operand.

    >>> torch.einsum("ij,ij->i", torch.ones(2, 3), torch.ones(2, 3))
    tensor([3., 3.])
    """
    if len(args) < 2:
        raise ValueError(_NO_OPERAND)
    if isinstance(args[0], str):
        equation, operands = args[0], args[1:]
    elif overridden(args):
        return call_override(einsum, args, {})
    elif isinstance(args[0], _C.Tensor):
        equation, operands = _equation(args)
    else:
        raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {type(args[0]).__name__}")
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not operands:
        raise ValueError(_NO_OPERAND)
    if overridden(operands):  # overrides see the equation and the operands, in whatever form they were given
        return call_override(einsum, (equation, *operands), {})
    return _C._functions[""]["_einsum"](equation, operands)


@overridable
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sums of products over several dimensions of two tensors.

    Args:
        a, b: the tensors.
        dims: a number: the last ``dims`` dimensions of ``a`` are contracted with the first ones of ``b``; or two lists
            of dimensions that are contracted pairwise.
        out: the tensor for the result.

    Raises:
        RuntimeError: contracted dimensions have different sizes.

    >>> torch.tensordot(torch.ones(2, 3), torch.ones(3, 4), dims=1)
    tensor([[3., 3., 3., 3.],
            [3., 3., 3., 3.]])
    """
    if isinstance(dims, _C.Tensor):
        dims = dims.tolist()
    if not isinstance(dims, (int, list, tuple)):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, but "
            f"got dims={dims}"
        )
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims_a, dims_b = tuple(range(a.dim() - dims, a.dim())), tuple(range(dims))
    else:
        dims_a, dims_b = ((places,) if isinstance(places, int) else tuple(places) for places in dims)
    return _C._functions[""]["_tensordot"](a, b, dims_a, dims_b, out=out)


@compiled(
    "Tensor input, int bins, float[] range=None, Tensor weight=None, bool density=False",
    "Tensor input, int[] bins, float[] range=None, Tensor weight=None, bool density=False",
    "Tensor input, Tensor[] bins, float[] range=None, Tensor weight=None, bool density=False",
)
def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The number of points (or the sum of their weights) in each cell of a grid.

    Args:
        input: points of shape ``(.., d)``.
        bins: the number of cells, for all ``d`` dimensions or for each; or a tensor of edges for each dimension.
        range: the lower and the upper end for each dimension; by default the range of the points.
        weight: a weight for each point.
        density: whether to divide by the total and by the volume of the cell.

    Raises:
        RuntimeError: bins, ranges or weights do not match the points.

    >>> torch.histogramdd(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), bins=[2, 1])[0]
    tensor([[1.],
            [1.]])
    """
    from rushlight._results import histogramdd as named

    rows = _C._functions[""]
    if isinstance(bins, int):
        bins = [bins] * (input.shape[-1] if input.dim() else 1)
    if all(isinstance(count, int) for count in bins):
        edges = rows["_histogramdd_bin_edges"](input, list(bins), range=range, weight=weight, density=density)
    else:
        edges = tuple(bins)
    counts = rows["_histogramdd_from_bin_tensors"](input, edges, weight=weight, density=density)
    return named((counts, edges))


def _slopes(input: Tensor, dim: int, steps: Any, order: int) -> Tensor:
    """Slopes along one dimension. ``steps`` is the spacing of the values, or a tensor of spacings."""
    import rushlight as torch

    size = input.shape[dim]

    def at(start: int, count: int) -> Tensor:
        return input.narrow(dim, start % size, count)

    if not isinstance(steps, torch.Tensor):
        inner = (at(2, size - 2) - at(0, size - 2)) / (2 * steps) if size > 2 else None
        if order == 1:
            ends = [(at(1, 1) - at(0, 1)) / steps, (at(-1, 1) - at(-2, 1)) / steps]
        else:
            ends = [
                (at(1, 1) * 4 - at(0, 1) * 3 - at(2, 1)) / (2 * steps),
                (at(-1, 1) * 3 - at(-2, 1) * 4 + at(-3, 1)) / (2 * steps),
            ]
    else:
        shape = [1] * input.dim()
        shape[dim] = -1
        before, after = steps[:-1].reshape(shape), steps[1:].reshape(shape)
        both = before + after
        inner = None
        if size > 2:
            inner = (
                at(0, size - 2) * (-after / (before * both))
                + at(1, size - 2) * ((after - before) / (before * after))
                + at(2, size - 2) * (before / (after * both))
            )
        if order == 1:
            ends = [(at(1, 1) - at(0, 1)) / steps[0], (at(-1, 1) - at(-2, 1)) / steps[-1]]
        else:
            a, b = steps[0], steps[1]
            low = (
                at(0, 1) * (-(2 * a + b) / (a * (a + b)))
                + at(1, 1) * ((a + b) / (a * b))
                - at(2, 1) * (a / (b * (a + b)))
            )
            a, b = steps[-2], steps[-1]
            high = (
                at(-3, 1) * (b / (a * (a + b)))
                - at(-2, 1) * ((a + b) / (a * b))
                + at(-1, 1) * ((2 * b + a) / (b * (a + b)))
            )
            ends = [low, high]
    return torch.cat([ends[0], ends[1]] if inner is None else [ends[0], inner, ends[1]], dim)


@compiled(
    "Tensor input, *, int[] dim, int edge_order=1",
    "Tensor input, *, Scalar spacing, int[] dim, int edge_order=1",
    "Tensor input, *, Scalar spacing=None, int dim=None, int edge_order=1",
    "Tensor input, *, Scalar[] spacing, int dim=None, int edge_order=1",
    "Tensor input, *, Scalar[] spacing, int[] dim, int edge_order=1",
    "Tensor input, *, Tensor[] spacing, int dim=None, int edge_order=1",
    "Tensor input, *, Tensor[] spacing, int[] dim, int edge_order=1",
)
def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Estimates the gradient of a function from its values on a grid, with one tensor per dimension.

    Args:
        input: the values, on a grid of any number of dimensions.
        spacing: the distance of neighbouring values: a number for all dimensions, a list with one number per dimension,
            or a list of tensors with coordinates.
        dim: one or more dimensions; all by default.
        edge_order: the order (1 or 2) of the estimate at the edges.

    Raises:
        RuntimeError: a dimension has fewer than ``edge_order + 1`` values, or there is not one spacing per dimension.

    >>> torch.gradient(torch.tensor([1.0, 2.0, 4.0, 8.0]))
    (tensor([1.0000, 1.5000, 3.0000, 4.0000]),)
    """
    import rushlight as torch

    many = isinstance(spacing, (list, tuple))
    places = list(range(input.dim())) if dim is None else list(dim) if isinstance(dim, (list, tuple)) else [dim]
    if many and len(spacing) != len(places) and dim is None:
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
            f"'self.dim() = {input.dim()}', since dim argument was not given, but got a list of length {len(spacing)}"
        )
    if many and len(spacing) != len(places):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the same "
            f"length, but got a spacing argument of length {len(spacing)} and a dim argument of length {len(places)}."
        )
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    rank = input.dim()
    for place in places:
        if not -rank <= place < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {place})"
            )
    places = [place % rank for place in places]
    for place in places:
        if places.count(place) > 1:
            raise RuntimeError(f"dim {place} appears multiple times in the list of dims")
        if input.shape[place] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    steps: list[Any] = list(spacing) if many else [1 if spacing is None else spacing] * len(places)
    for step in steps:
        if isinstance(step, torch.Tensor) and step.device != input.device:
            raise RuntimeError(
                f"torch.gradient expected each tensor to be on the same device, but got devices {input.device} and {step.device}!"
            )
    if many and any(isinstance(step, torch.Tensor) for step in steps):
        steps = [step.diff() for step in steps]
    return tuple(_slopes(input, place, step, edge_order) for place, step in zip(places, steps))


def _chosen(values: Tensor, places: Tensor, counts: Tensor, return_inverse: bool, return_counts: bool) -> Any:
    """Selects the results that the caller requested."""
    results = (values, *([places] if return_inverse else []), *([counts] if return_counts else []))
    return results if len(results) > 1 else values


@overridable
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in sorted order (or slices along ``dim``); on request also inverse indices and counts.

    >>> torch.unique(torch.tensor([3, 1, 1]))
    tensor([1, 3])
    """
    if dim is None:
        values, places, counts = _C._unique2(
            input, sorted=sorted, return_inverse=return_inverse, return_counts=return_counts
        )
    else:
        if type(sorted) is not bool:
            raise TypeError(f"unique_dim(): argument 'sorted' must be bool, not {kind_of(sorted)}")
        if input.dim() == 0:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        values, places, counts = _C._unique_dim(input, dim)
    return _chosen(values, places, counts, return_inverse, return_counts)


@overridable
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Removes elements (or slices along ``dim``) that equal the one before.

    >>> torch.unique_consecutive(torch.tensor([3, 1, 1, 3]))
    tensor([3, 1, 3])
    """
    values, places, counts = _C._unique_consecutive(
        input, return_inverse=return_inverse, return_counts=return_counts, dim=dim
    )
    return _chosen(values, places, counts, return_inverse, return_counts)


@overridable
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Converts flat row-major indices into coordinates (int64) in a tensor of ``shape``.

    Raises:
        TypeError: the indices or the sizes are not integers.
        ValueError: the shape is empty or has negative sizes.

    >>> torch.unravel_index(torch.tensor([1, 5]), (2, 3))
    (tensor([0, 1]), tensor([1, 2]))
    >>> torch.unravel_index(torch.tensor([200], dtype=torch.uint8), (2, 300))
    (tensor([0]), tensor([200]))
    """
    import rushlight as torch

    if indices.is_complex() or indices.dtype.is_floating_point or indices.dtype == torch.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, Sequence)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    if 0 in sizes and indices.numel():
        raise RuntimeError("ZeroDivisionError\n  A shape with a size of zero has no elements to index.")
    indices = indices.long()
    found = []
    for size in reversed(sizes):
        found.append(indices % max(size, 1))
        indices = indices.div(max(size, 1), rounding_mode="floor")
    return torch.stack(found[::-1], -1).unbind(-1) if found else ()


#: Names that torch has in this module and that are operators or defined elsewhere in rushlight.
_ELSEWHERE = (
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "istft",
    "meshgrid",
    "norm",
    "pca_lowrank",
    "split",
    "stft",
    "svd_lowrank",
)


def __getattr__(name: str) -> Any:
    import rushlight as torch

    if name in _ELSEWHERE:
        return getattr(torch, name)
    from rushlight._missing_names import missing_from

    raise missing_from("torch.functional", name, __dir__)


def __dir__() -> list[str]:
    return [*__all__, *_ELSEWHERE]

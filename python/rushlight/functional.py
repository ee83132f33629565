"""Functions of tensors whose arguments need Python before the operators: any number of operands, numbers or lists, results
that are asked for."""

from __future__ import annotations

from rushlight import _C
from rushlight._overridable import overridable
from rushlight._warnings import warn, warn_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "chain_matmul",
    "einsum",
    "gesv",
    "gradient",
    "histogramdd",
    "lu",
    "tensordot",
    "unique",
    "unique_consecutive",
    "unravel_index",
]


@overridable
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of a chain of matrices, in the order that takes the fewest multiplications.

    Raises:
        TypeError: something that is no tensor.
        RuntimeError: no matrix at all, or a tensor that is none.

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


@overridable
def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: tuple[Tensor, ...] | None = None
) -> tuple[Tensor, ...]:
    """LU factors in one matrix each and their pivots, also of singular matrices; `torch.linalg.lu_factor_ex` is the newer form.

    >>> torch.lu(torch.eye(2))[1]
    tensor([1, 2], dtype=torch.int32)
    """
    warn_once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in a "
        "future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with\n"
        "LU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\n"
        "LU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\n"
        "LU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
    )
    factored = _C._functions["linalg"]["lu_factor_ex"](A, pivot=pivot)
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
    """The solution of ``A @ X = b`` and the LU factors of ``A``, by the name of old; `torch.linalg.solve` is the newer form.

    >>> torch.gesv(torch.ones(2, 1), torch.eye(2) * 2)[0]
    tensor([[0.5000],
            [0.5000]])
    """
    warn("torch.gesv is deprecated in favor of torch.linalg.solve", DeprecationWarning)
    rows = _C._functions["linalg"]
    return rows["solve"](A, b), rows["lu_factor"](A)[0]


def _letter(place: int) -> str:
    if not 0 <= place < 52:
        raise ValueError(f"einsum(): subscripts must be in the range [0, 52), but got {place}")
    return chr(ord("A") + place) if place < 26 else chr(ord("a") + place - 26)


def _equation(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation of a call that lists numbers instead of letters: ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""

    def letters(places: Any) -> str:
        return "".join("..." if place is Ellipsis else _letter(place) for place in places)

    pairs = len(operands) // 2
    equation = ",".join(letters(places) for places in operands[1 : 2 * pairs : 2])
    if len(operands) % 2:
        equation += "->" + letters(operands[-1])
    return equation, operands[: 2 * pairs : 2]


@overridable
def einsum(*args: Any) -> Tensor:
    """Sums of products in Einstein's notation.

    Args:
        args: an equation and its operands: ``einsum("ij,jk->ik", a, b)``. A letter names a dimension; dimensions of one
            name run together, and what is missing behind ``->`` is summed over. Without ``->`` the result has the names
            that appear once, in alphabetical order; ``...`` stands for dimensions that broadcast. Or operands, each with
            a list of numbers, and the result's list: ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.

    Raises:
        RuntimeError: an equation that does not fit the operands.

    >>> torch.einsum("ij,ij->i", torch.ones(2, 3), torch.ones(2, 3))
    tensor([3., 3.])
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list"
        )
    if isinstance(args[0], str):
        equation, operands = args[0], args[1:]
    else:
        equation, operands = _equation(args)
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    return _C._functions[""]["_einsum"](equation, operands)


@overridable
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sums of products over several dimensions of both.

    Args:
        a, b: the tensors.
        dims: how many: the last of ``a`` with the first of ``b``; or two lists of dimensions that run together.
        out: where the result goes.

    Raises:
        RuntimeError: dimensions of different sizes.

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


@overridable
def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """How many points (or the sum of their weights) lie in each box of a grid.

    Args:
        input: points of shape ``(.., d)``.
        bins: how many equal parts, for each of the ``d`` dimensions or all; or a tensor of edges for each.
        range: the ends of each dimension, one pair after the other; by default those of the points.
        weight: a weight for each point.
        density: whether boxes are divided by the whole and their volume.

    Raises:
        RuntimeError: bins, ranges or weights that do not fit the points.

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
    """Slopes along one dimension; ``steps`` is the distance of neighbours, or a tensor of their distances."""
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


@overridable
def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Estimates of a function's slopes from its values on a grid, one tensor for each dimension.

    Args:
        input: the values, on a grid of any number of dimensions.
        spacing: the distance of neighbours: one for all dimensions, a list with one for each, or a list of tensors with the
            places along each.
        dim: a dimension or several; all by default.
        edge_order: how many neighbours beyond the first the slopes at the ends take into account, 1 or 2.

    Raises:
        RuntimeError: fewer values along a dimension than ``edge_order + 1``, or spacings that are not one for each.

    >>> torch.gradient(torch.tensor([1.0, 2.0, 4.0, 8.0]))
    (tensor([1.0000, 1.5000, 3.0000, 4.0000]),)
    """
    import rushlight as torch
    from rushlight._text import must_be_tensor

    must_be_tensor("gradient", "input", 1, input)
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
    """The results that were asked for."""
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
    """The different elements in order, or the different slices along ``dim``; on request where each went, and how often each occurs.

    >>> torch.unique(torch.tensor([3, 1, 1]))
    tensor([1, 3])
    """
    if dim is None:
        values, places, counts = _C._unique2(input, sorted, return_inverse, return_counts)
    else:
        values, places, counts = _C._unique_dim(input, dim)
    return _chosen(values, places, counts, return_inverse, return_counts)


@overridable
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements (or the slices along ``dim``) without those that equal the one before.

    >>> torch.unique_consecutive(torch.tensor([3, 1, 1, 3]))
    tensor([3, 1, 3])
    """
    values, places, counts = _C._unique_consecutive(input, return_inverse, return_counts, dim)
    return _chosen(values, places, counts, return_inverse, return_counts)


@overridable
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates, int64, in a tensor of ``shape``, of elements that are numbered in row-major order.

    Raises:
        TypeError: indices that are not integers.
        ValueError: an empty shape, or one with negative sizes.

    >>> torch.unravel_index(torch.tensor([1, 5]), (2, 3))
    (tensor([0, 1]), tensor([1, 2]))
    >>> torch.unravel_index(torch.tensor([200], dtype=torch.uint8), (2, 300))
    (tensor([0]), tensor([200]))
    """
    import rushlight as torch

    if not isinstance(indices, torch.Tensor):
        raise TypeError(f"expected 'indices' to be integer dtype, but got {type(indices)}")
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype == torch.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if isinstance(shape, torch.Tensor):
        shape = shape.tolist()
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    indices = indices.long()
    found = []
    for size in reversed(sizes):
        found.append(indices % max(size, 1))
        indices = indices.div(max(size, 1), rounding_mode="floor")
    return tuple(reversed(found))


#: What torch has here too, and what is an operator or stands elsewhere.
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
    from rushlight._names import missing_from

    raise missing_from("torch.functional", name, __dir__)


def __dir__() -> list[str]:
    return [*__all__, *_ELSEWHERE]

"""Functions of tensors whose arguments need Python before the operators: any number of operands, numbers or lists."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = ["chain_matmul", "einsum", "lu", "tensordot"]


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of a chain of matrices, in the order that takes the fewest multiplications.

    >>> torch.functional.chain_matmul(torch.ones(1, 2), torch.ones(2, 3), torch.ones(3, 1))
    tensor([[6.]])
    """
    if len(matrices) == 1:
        return matrices[0]
    return _C._functions["linalg"]["multi_dot"](matrices, out=out)


def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: tuple[Tensor, ...] | None = None
) -> tuple[Tensor, ...]:
    """LU factors in one matrix each and their pivots; `torch.linalg.lu_factor_ex` is the newer form.

    >>> torch.lu(torch.eye(2))[1]
    tensor([1, 2], dtype=torch.int32)
    """
    factored = _C._functions["linalg"]["lu_factor_ex"](A, pivot=pivot, check_errors=not get_infos)
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


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sums of products over several dimensions of both.

    Args:
        dims: how many: the last of ``a`` with the first of ``b``; or two lists of dimensions that run together.

    Raises:
        RuntimeError: dimensions of different sizes.

    >>> torch.tensordot(torch.ones(2, 3), torch.ones(3, 4), dims=1)
    tensor([[3., 3., 3., 3.],
            [3., 3., 3., 3.]])
    """
    if hasattr(dims, "tolist"):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims_a, dims_b = tuple(range(a.dim() - dims, a.dim())), tuple(range(dims))
    else:
        dims_a, dims_b = ((places,) if isinstance(places, int) else tuple(places) for places in dims)
    return _C._functions[""]["_tensordot"](a, b, dims_a, dims_b, out=out)

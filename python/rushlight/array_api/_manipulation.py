"""The standard's functions that rearrange or select elements, or multiply matrices."""

from __future__ import annotations

import rushlight as torch

from ._elementwise import meeting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "matmul",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "take",
    "take_along_axis",
    "tensordot",
    "tile",
    "unstack",
    "vecdot",
    "where",
]


def broadcast_arrays(*arrays: torch.Tensor) -> list[torch.Tensor]:
    """Broadcasts arrays to a common shape."""
    return list(torch.broadcast_tensors(*arrays))


def broadcast_to(x: torch.Tensor, /, shape: Sequence[int]) -> torch.Tensor:
    """Broadcasts an array to a shape."""
    return torch.broadcast_to(x, tuple(shape))


def concat(arrays: Sequence[torch.Tensor], /, *, axis: int | None = 0) -> torch.Tensor:
    """Concatenates arrays along an axis. Without an axis they are flattened first."""
    operands = meeting(*arrays)
    return torch.cat([one.reshape(-1) for one in operands]) if axis is None else torch.cat(operands, axis)


def expand_dims(x: torch.Tensor, /, axis: int | tuple[int, ...]) -> torch.Tensor:
    """Inserts one or more dimensions of size one."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = x.dim() + len(axes)
    for one in axes:
        if not -rank <= one < rank:
            raise IndexError(f"axis {one} is out of range for {rank} dimensions")
    for one in sorted(one % rank for one in axes):
        x = x.unsqueeze(one)
    return x


def flip(x: torch.Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> torch.Tensor:
    """Reverses the elements along the axes, along all by default."""
    axes = tuple(range(x.dim())) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    return torch.flip(x, axes)


def matmul(x1: torch.Tensor, x2: torch.Tensor, /) -> torch.Tensor:
    """The matrix product."""
    return torch.matmul(*meeting(x1, x2))


def matrix_transpose(x: torch.Tensor, /) -> torch.Tensor:
    """The transposed matrices."""
    return x.mT


def moveaxis(x: torch.Tensor, source: Any, destination: Any, /) -> torch.Tensor:
    """Moves dimensions to other positions. The others keep their order."""
    return torch.moveaxis(x, source, destination)


def permute_dims(x: torch.Tensor, /, axes: Sequence[int]) -> torch.Tensor:
    """Permutes the dimensions."""
    return torch.permute(x, tuple(axes))


def repeat(x: torch.Tensor, repeats: Any, /, *, axis: int | None = None) -> torch.Tensor:
    """Repeats each element, or each slice along an axis."""
    if isinstance(repeats, torch.Tensor):
        repeats = repeats.to(torch.int64)
    return torch.repeat_interleave(x, repeats, dim=axis)


def reshape(x: torch.Tensor, /, shape: Sequence[int], *, copy: bool | None = None) -> torch.Tensor:
    """Reshapes an array. ``copy`` requires or forbids a copy."""
    if copy is False:
        return x.view(tuple(shape))
    made = torch.reshape(x, tuple(shape))
    return made.clone() if copy and made.data_ptr() == x.data_ptr() else made


def roll(x: torch.Tensor, /, shift: Any, *, axis: Any = None) -> torch.Tensor:
    """Rolls the elements cyclically."""
    if isinstance(axis, (tuple, list)) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return torch.roll(x, shift) if axis is None else torch.roll(x, shift, axis)


def squeeze(x: torch.Tensor, /, axis: int | tuple[int, ...]) -> torch.Tensor:
    """Removes dimensions of size one."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for one in axes:
        if x.shape[one] != 1:
            raise ValueError(f"squeezed dimensions must have size 1, but dimension {one} has size {x.shape[one]}")
    return torch.squeeze(x, axes)


def stack(arrays: Sequence[torch.Tensor], /, *, axis: int = 0) -> torch.Tensor:
    """Stacks arrays along a new dimension."""
    return torch.stack(meeting(*arrays), axis)


def take(x: torch.Tensor, indices: torch.Tensor, /, *, axis: int | None = None) -> torch.Tensor:
    """Selects slices along an axis by their indices."""
    if axis is None:
        if x.dim() != 1:
            raise ValueError("axis must be given for arrays of more than one dimension")
        axis = 0
    made = torch.index_select(x, axis, indices.reshape(-1).remainder(max(x.shape[axis], 1)))
    return made.unflatten(axis, indices.shape) if indices.dim() != 1 else made


def take_along_axis(x: torch.Tensor, indices: torch.Tensor, /, *, axis: int = -1) -> torch.Tensor:
    """Selects elements along an axis by an array of indices with the same number of dimensions."""
    return torch.take_along_dim(x, indices.remainder(max(x.shape[axis], 1)), axis)


def tensordot(x1: torch.Tensor, x2: torch.Tensor, /, *, axes: Any = 2) -> torch.Tensor:
    """Sums of products over several dimensions of two arrays."""
    first, second = meeting(x1, x2)
    return torch.tensordot(first, second, dims=axes)


def tile(x: torch.Tensor, repetitions: tuple[int, ...], /) -> torch.Tensor:
    """Repeats the array along each dimension."""
    return torch.tile(x, tuple(repetitions))


def unstack(x: torch.Tensor, /, *, axis: int = 0) -> tuple[torch.Tensor, ...]:
    """The slices along an axis."""
    return tuple(torch.unbind(x, axis))


def vecdot(x1: torch.Tensor, x2: torch.Tensor, /, *, axis: int = -1) -> torch.Tensor:
    """The dot product along an axis, with the conjugate of the first array."""
    first, second = meeting(x1, x2)
    if not -min(first.dim(), second.dim()) <= axis < 0:
        raise ValueError(f"axis must be negative and valid for both arrays, but got {axis}")
    if first.shape[axis] != second.shape[axis]:
        raise ValueError(f"the arrays have {first.shape[axis]} and {second.shape[axis]} elements along the axis")
    first, second = torch.broadcast_tensors(first, second)
    # A matrix product keeps the dtype, in contrast to a sum of integers.
    rows, columns = first.conj().movedim(axis, -1).unsqueeze(-2), second.movedim(axis, -1).unsqueeze(-1)
    return torch.matmul(rows, columns).squeeze(-1).squeeze(-1)


def where(condition: torch.Tensor, x1: Any, x2: Any, /) -> torch.Tensor:
    """Selects elements of one array if a condition is true, and of the other otherwise."""
    return torch.where(condition, *meeting(x1, x2))

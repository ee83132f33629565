"""What answers the calls of jagged tensors, by the names of the functions, and checks that the answers share."""

from __future__ import annotations

from rushlight._answers import registering

from .nested_tensor import NestedTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Answer = Callable[..., Any]

#: What answers a call, by the name of the function.
ANSWERS: dict[str, Answer] = {}

answers = registering(ANSWERS)


def nested_among(arguments: Any) -> Iterator[NestedTensor]:
    """The jagged tensors of a call, also those in its lists."""
    for one in arguments:
        if isinstance(one, NestedTensor):
            yield one
        elif isinstance(one, (list, tuple)):
            yield from nested_among(one)


def dimension(input: NestedTensor, dim: int, more: int = 0) -> int:
    """A dimension that counts from the front.

    Raises:
        IndexError: there is no such dimension.
    """
    rank = input.dim() + more
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank


def inner(input: NestedTensor, dim: int, name: str) -> int:
    """The dimension of the values that a dimension is.

    Raises:
        RuntimeError: it is the batch or the jagged dimension, along which the function ``name`` does not work.
    """
    dim = dimension(input, dim)
    if dim == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    if dim == input._ragged_idx:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return dim - 1


def same_parts(first: NestedTensor, second: NestedTensor) -> bool:
    """Whether two tensors have their jagged dimension at the same place, with the same offsets."""
    return first._ragged.size == second._ragged.size and first._ragged_idx == second._ragged_idx


def must_be_plain(input: Any, form: str) -> None:
    """Checks that a tensor has no holes and is jagged in its second dimension. ``form`` is torch's signature.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(input, NestedTensor) or input._ragged.lengths is not None or input._ragged_idx != 1:
        name = "indices" if form.startswith("embedding") else "input" if "(input" in form else "self"
        raise ValueError(f"NestedTensor {form}: expected {name} to be a contiguous jagged layout NestedTensor")

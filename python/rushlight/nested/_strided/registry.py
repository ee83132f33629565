"""What answers the calls of strided nested tensors, by the names of the functions, and what the answers share."""

from __future__ import annotations

from rushlight._answers import registering

from .tensor import Geometry, StridedNestedTensor, buffer_of, pack, samples_of, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor

    Nested = StridedNestedTensor

#: What answers a call, by the name of the function.
ANSWERS: dict[str, Callable[..., Any]] = {}
answers = registering(ANSWERS)


def dimension(input: Nested, dim: int, more: int = 0) -> int:
    rank = input._geometry.rank + more
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank


def packed(input: Nested) -> Nested:
    """The tensor, or a copy without gaps."""
    return input if input._geometry.is_packed() else pack(samples_of(input))


def like(buffer: Tensor, input: Nested) -> Nested:
    return wrap(buffer, input._geometry)


def each(input: Nested, change: Callable[[Tensor], Tensor]) -> Nested:
    return pack([change(one) for one in samples_of(input)])


def view(input: Nested, geometry: Geometry) -> Nested:
    return wrap(buffer_of(input), geometry)

"""Finds operands that a function or module accepts. A module with fixed sizes rejects nearly all random shapes.

Lists of operands are tried, the most general first, with the numbers that the module has: the sizes of its parameters
and the integers among its attributes. The first list that is accepted in most of a few cases is used.
"""

from __future__ import annotations

import itertools
import warnings

import rushlight as torch

from . import _drawing
from ._fuzz_case import Failure, Refused, called
from ._operands import Operand, operand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from rushlight import nn

    from ._fuzz import Subject
    from ._fuzz_case import Settings

__all__ = ["fitting"]

_PROBES = 12
_LARGEST = 4096
_MOST_SIZES = 12
#: Sizes that are large enough for common kernels.
_ROOM = (4, 7)
_CLASSES = 4
#: Shapes for products: vectors, matrices, and batches of them.
_PRODUCTS = (
    (("n",), ("n",)),
    (("n", "k"), ("k",)),
    (("n", "k"), ("k", "m")),
    (("b", "n", "k"), ("b", "k", "m")),
)


def fitting(subject: Subject, settings: Settings) -> list[tuple[Operand, ...]]:
    """The lists of operands that the subject accepts. Its own operands, if they are accepted or none was found."""
    own = tuple(subject.operands)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        taken, raised = _try_form(subject, settings, own)
        # Exceptions of a function are findings; modules often have assertions about shapes.
        if taken or (raised and subject.module is None):
            return [own]
        sizes = [] if subject.module is None else _sizes(subject.module)
        for forms in _by_generality(len(own), sizes):
            found = [form for form in forms if _try_form(subject, settings, form) == (True, False)]
            if found:
                return found
    return [own]


def _try_form(subject: Subject, settings: Settings, form: tuple[Operand, ...]) -> tuple[bool, bool]:
    """Whether most cases are accepted, and whether one raised an error that is not a rejection."""
    refused, raised = 0, False
    for seed in range(_PROBES):
        try:
            called(subject.draw(_drawing.Choices(seed), settings, form))
        except Refused:
            refused += 1
        except Failure:
            refused, raised = refused + 1, True
        if 2 * refused > _PROBES:
            break
    return 2 * refused <= _PROBES, raised


def _sizes(module: nn.Module) -> list[int]:
    """The numbers that sizes may have; any numbers if the module has none."""
    found: dict[int, None] = {}
    for part in module.modules():
        for name, value in vars(part).items():
            numbers = value if isinstance(value, (tuple, list)) else (value,)
            if not name.startswith("_"):
                found.update((number, None) for number in numbers if type(number) is int and 0 < number <= _LARGEST)
    for tensor in module.state_dict().values():
        found.update((side, None) for side in tensor.shape if 0 < side <= _LARGEST)
    return list(found)[:_MOST_SIZES] or [_ROOM[0]]


def _by_generality(count: int, sizes: Sequence[int]) -> Iterator[list[tuple[Operand, ...]]]:
    """Lists of operands for the arguments. All candidates in a list are equally general."""

    def same(shapes: Iterable[tuple]) -> list[tuple[Operand, ...]]:
        return [(operand(*shape),) * count for shape in shapes]

    yield same((..., size) for size in sizes)
    yield same([(..., "n", "n")])
    if count == 1:
        yield from ([index] for index in _indices(sizes, ...))
    elif count == 2:
        yield [(operand("n", first), operand("n", second)) for first, second in itertools.permutations(sizes, 2)]
        for left, right in _PRODUCTS:
            yield [(operand(*left), operand(*right))]
        yield [(operand("n", _CLASSES), operand("n", dtype=torch.int64, low=0, high=_CLASSES))]
    yield same((..., *pair) for pair in itertools.product(sizes, repeat=2))
    yield same([("n", size) for size in sizes] + [("n", size, "length") for size in sizes])
    yield same(("n", "m", size) for size in sizes)
    for dimensions in (1, 2, 3):
        for side in _ROOM:
            yield same(("n", size, *range(side, side + dimensions)) for size in sizes)
    if count == 1:
        yield from ([index] for index in _indices(sizes, "n", "length"))


def _indices(sizes: Sequence[int], *shape: Any) -> Iterator[tuple[Operand, ...]]:
    """Integers below one of the sizes, the largest first."""
    for size in sorted(sizes, reverse=True):
        yield (operand(*shape, dtype=torch.int64, low=0, high=size),)

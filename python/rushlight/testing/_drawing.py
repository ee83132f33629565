"""Generation of tensors from a source of choices: shapes that broadcast, memory layouts, numbers.

A source is a function `choose(n)` that returns a number below n, and 0 is the simplest choice: a random generator, a
recorded list, or hypothesis. Smaller and fewer choices give simpler tensors; `minimise` simplifies a list of choices.
"""

from __future__ import annotations

import math
import random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeAlias

    Choose: TypeAlias = Callable[[int], int]
    Shape: TypeAlias = tuple[int, ...]

__all__ = ["LAYOUTS", "Choices", "Layout", "broadcastable_shapes", "layout", "minimise", "numbers", "shape", "side"]

#: The possible memory layouts of a tensor.
LAYOUTS = ("contiguous", "transposed", "sliced", "reversed", "expanded", "offset")


class Choices:
    """A source of choices that records them: from a seed, or given choices followed by zeros."""

    def __init__(self, given: int | Sequence[int]) -> None:
        self._random = random.Random(given) if isinstance(given, int) else None
        self._given = () if isinstance(given, int) else given
        self.made: list[int] = []

    def __call__(self, count: int) -> int:
        if self._random is not None:
            chosen = self._random.randrange(count)
        else:
            place = len(self.made)
            chosen = min(self._given[place], count - 1) if place < len(self._given) else 0
        self.made.append(chosen)
        return chosen


def minimise(choices: list[int], fails: Callable[[list[int]], list[int] | None], tries: int) -> tuple[list[int], int]:
    """The simplest choices that still fail, found within a number of tries, and the number of tries used.

    `fails` returns the choices that were used if they lead to the same failure, and None otherwise. Fewer choices are
    simpler, and lower ones are simpler than higher ones.
    """
    best, made, simpler = choices, 0, True
    while simpler:
        simpler = False
        for candidate in _candidates(best):
            if made == tries:
                return best, made
            made += 1
            found = fails(candidate)
            if found is not None and (len(found), found) < (len(best), best):
                best, simpler = found, True
                break
    return best, made


def _candidates(choices: list[int]) -> Iterator[list[int]]:
    count = len(choices)
    for size in (8, 4, 2, 1):
        for start in range(0, count, size):
            yield choices[:start] + choices[start + size :]
            if any(choices[start : start + size]):
                yield choices[:start] + [0] * min(size, count - start) + choices[start + size :]
    for place, choice in enumerate(choices):
        for lower in {choice // 2, choice - 1} if choice > 1 else ():
            yield [*choices[:place], lower, *choices[place + 1 :]]


def side(choose: Choose, most: int) -> int:
    """The size of a dimension. 1 is the simplest, 0 the most complex."""
    return (choose(most + 1) + 1) % (most + 1)


def shape(choose: Choose, max_rank: int = 4, max_side: int = 4) -> Shape:
    return tuple(side(choose, max_side) for _ in range(choose(max_rank + 1)))


def broadcastable_shapes(choose: Choose, count: int, max_rank: int = 4, max_side: int = 4) -> list[Shape]:
    """Shapes that broadcast: each is the end of a common shape, with some sizes replaced by 1."""
    whole = shape(choose, max_rank, max_side)
    found = []
    for _ in range(count):
        rank = len(whole) - choose(len(whole) + 1)
        found.append(tuple(1 if size != 1 and choose(2) else size for size in whole[len(whole) - rank :]))
    return found


class Layout:
    """A shape as a view of contiguous memory: the shape of the memory, and steps from it to the view."""

    def __init__(self, base: Shape, *steps: tuple[str, Any]) -> None:
        self.base = base
        self.steps = steps

    def view(self, memory: Any) -> Any:
        """Applies the steps to a tensor or NumPy array of shape `base`."""
        for name, argument in self.steps:
            memory = memory[argument] if name == "index" else getattr(memory, name)(argument)
        return memory

    def __str__(self) -> str:
        """The code of the steps, to append to a tensor."""
        return "".join(
            f"[{', '.join(map(_text_of, argument))}]" if name == "index" else f".{name}({argument})"
            for name, argument in self.steps
        )


def _text_of(part: slice) -> str:
    start, stop, step = ("" if bound is None else str(bound) for bound in (part.start, part.stop, part.step))
    return f"{start}:{stop}" + (f":{step}" if step else "")


def layout(choose: Choose, shape: Shape, kind: str | None = None, kinds: Sequence[str] = LAYOUTS) -> Layout:
    """A memory layout for a tensor of the given shape, of one of `kinds` (all by default).

    Only with the kind "expanded" do elements overlap in memory.
    """
    kind = kind or kinds[choose(len(kinds))]
    if kind == "offset":
        return Layout((math.prod(shape) + 3,), ("index", (slice(3, None),)), ("reshape", shape))
    if not shape:
        return Layout(shape)
    if kind == "transposed":
        left = list(range(len(shape)))
        order = [left.pop(choose(len(left))) for _ in shape]
        back = tuple(order.index(axis) for axis in range(len(shape)))
        return Layout(tuple(shape[axis] for axis in order), ("permute", back))
    if kind == "sliced":
        steps = [1 + choose(3) for _ in shape]
        base = tuple(size if step == 1 else size * step + 1 for size, step in zip(shape, steps))
        parts = (slice(None) if step == 1 else slice(1, None, step) for step in steps)
        return Layout(base, ("index", tuple(parts)))
    if kind == "reversed":
        return Layout(shape, ("index", tuple(slice(None, None, -1 if choose(2) else None) for _ in shape)))
    if kind == "expanded":
        return Layout(tuple(1 if size > 1 and choose(2) else size for size in shape), ("expand", shape))
    return Layout(shape)


def numbers(seed: int, count: int, low: float = 0.0, high: float = 1.0) -> list[float]:
    """Distinct numbers between two bounds that avoid simple fractions of the interval, where functions may have kinks."""
    prime = next(prime for prime in (997, 99_991, 99_999_989) if count < prime)
    places = random.Random(seed).sample(range(1, prime), count)
    return [float(f"{low + (high - low) * place / prime:.6g}") for place in places]

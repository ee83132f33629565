"""Maps as derivatives use them: a level that hides a dimension of samples, and a function run over a batch.

`torch.func.vmap` is the door for everybody else.
"""

from __future__ import annotations

import rushlight as torch
from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor


class Level:
    """A map that this thread is inside of, from `enter` to `leave`."""

    def __init__(self, size: int, randomness: str = "error") -> None:
        self.size = size
        self.randomness = randomness

    def __enter__(self) -> Level:
        self.number = _C._vmap_enter(self.size, self.randomness)
        return self

    def __exit__(self, *_: object) -> None:
        _C._vmap_leave(self.number)

    def hide(self, tensor: Tensor, dim: int | None) -> Tensor:
        """The tensor of one sample; the same for all where there is no dimension of samples."""
        return _C._vmap_hide(tensor, dim, self.number, self.size)

    def show(self, tensor: Tensor, dim: int = 0) -> Tensor:
        """All samples along a dimension."""
        return _C._vmap_show(tensor, dim, self.number, self.size)

    def has(self, tensor: Tensor) -> bool:
        return self.number in _C._vmap_levels_of(tensor)


def lifted(tensor: Tensor) -> Tensor:
    """The tensor as one for each sample of the maps around, which what is done for one sample does not share with others."""
    levels = _C._vmap_levels()
    if levels:
        own = _C._vmap_levels_of(tensor)
        for level, size, _ in levels:
            if level not in own:
                tensor = _C._vmap_hide(tensor, None, level, size)
    return tensor


def mapped(function: Callable[[Tensor], Any], batch: Tensor, chunk_size: int | None = None) -> list[Any]:
    """The results, a list, of a function of one sample; None for what depends on no sample. ``chunk_size`` samples run at
    once, all by default."""
    parts = []
    for chunk in batch.split(chunk_size or max(batch.size(0), 1)):
        with Level(chunk.size(0)) as level:
            parts.append([None if x is None else level.show(x) for x in function(level.hide(chunk, 0))])
    if len(parts) == 1:
        return parts[0]
    return [None if column[0] is None else torch.cat(column) for column in zip(*parts)]

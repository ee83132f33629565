"""vmap levels for derivatives: a level hides the batch dimension, and a function is run over a batch.

`torch.func.vmap` is the public entry point.
"""

from __future__ import annotations

import rushlight as torch
from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor


def hidden(tensor: Tensor, dim: int, level: int, size: int) -> Tensor:
    """Hides a dimension of a tensor, which a program has told, as the samples of a level.

    Raises:
        IndexError: the tensor has no such dimension.
    """
    rank = tensor.dim()
    if not -rank <= dim < rank:
        low, high = (-rank, rank - 1) if rank else (-1, 0)
        raise IndexError(f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})")
    return _C._add_batch_dim(tensor, dim % rank, level, size)


class Level:
    """A vmap level. Inside the block it is active in this thread."""

    def __init__(self, size: int, randomness: str = "error") -> None:
        self.size = size
        self.randomness = randomness

    def __enter__(self) -> Level:
        self.number = _C._vmap_enter(self.size, self.randomness)
        return self

    def __exit__(self, *_: object) -> None:
        _C._vmap_leave(self.number)

    def hide(self, tensor: Tensor, dim: int | None) -> Tensor:
        """Hides the batch dimension of a tensor. A tensor without one is the same for all samples."""
        return _C._add_batch_dim(tensor, dim, self.number, self.size)

    def show(self, tensor: Tensor, dim: int = 0) -> Tensor:
        """Restores the batch dimension."""
        return _C._remove_batch_dim(tensor, dim, self.number, self.size)

    def has(self, tensor: Tensor) -> bool:
        return self.number in _C._vmap_levels_of(tensor)


def lifted(tensor: Tensor) -> Tensor:
    """Copies the tensor for each sample of the surrounding vmaps, so that samples do not share in-place changes."""
    levels = _C._vmap_levels()
    if levels:
        own = _C._vmap_levels_of(tensor)
        for level, size, _ in levels:
            if level not in own:
                tensor = _C._add_batch_dim(tensor, None, level, size)
    return tensor


def mapped(function: Callable[[Tensor], Any], batch: Tensor, chunk_size: int | None = None) -> list[Any]:
    """The list of batched results of a function of one sample; None for results that do not depend on a sample. At most
    ``chunk_size`` samples (all by default) run at once."""
    parts = []
    for chunk in batch.split(chunk_size or max(batch.size(0), 1)):
        with Level(chunk.size(0)) as level:
            parts.append([None if x is None else level.show(x) for x in function(level.hide(chunk, 0))])
    if len(parts) == 1:
        return parts[0]
    return [None if column[0] is None else torch.cat(column) for column in zip(*parts)]

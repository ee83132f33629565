"""Masks of the blocks with the largest elements."""

from __future__ import annotations

import math

import rushlight as torch
import rushlight.nn.functional as F

from .base_sparsifier import BaseSparsifier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import nn

__all__ = ["WeightNormSparsifier"]


class WeightNormSparsifier(BaseSparsifier):
    """Divides matrices into blocks, and sets the blocks with the smallest norms to zero, or their smallest elements.

    Args:
        sparsity_level: the fraction of blocks that are chosen.
        sparse_block_shape: the rows and columns of a block. Blocks at the end of a matrix may be smaller.
        zeros_per_block: how many elements of a chosen block become zero, by default all.
        norm: 1 or 2 (the default) for absolute values or squares, or a function of the matrix.

    Raises:
        NotImplementedError: the norm is another number.
        ValueError: in `step`, `zeros_per_block` is negative or larger than a block.

    >>> layer = torch.nn.Linear(4, 2)
    >>> layer.weight.data = torch.arange(8.0).reshape(2, 4)
    >>> sparsifier = torch.ao.pruning.WeightNormSparsifier(sparsity_level=0.5, sparse_block_shape=(1, 2))
    >>> sparsifier.prepare(layer, [{"tensor_fqn": "weight"}])
    >>> sparsifier.step()
    >>> sparsifier.squash_mask()
    >>> layer.weight.tolist()
    [[0.0, 0.0, 0.0, 0.0], [4.0, 5.0, 6.0, 7.0]]
    """

    def __init__(
        self,
        sparsity_level: float = 0.5,
        sparse_block_shape: tuple[int, int] = (1, 4),
        zeros_per_block: int | None = None,
        norm: Callable[[torch.Tensor], torch.Tensor] | int | None = None,
    ) -> None:
        self.norm_fn: Callable[[torch.Tensor], torch.Tensor]
        if callable(norm):
            self.norm_fn = norm
        elif norm == 1:
            self.norm_fn = torch.abs
        elif norm is None or norm == 2:
            self.norm_fn = torch.square
        else:
            raise NotImplementedError(f"L-{norm} is not yet implemented.")
        defaults = {
            "sparsity_level": sparsity_level,
            "sparse_block_shape": sparse_block_shape,
            "zeros_per_block": math.prod(sparse_block_shape) if zeros_per_block is None else zeros_per_block,
        }
        super().__init__(defaults=defaults)

    def update_mask(
        self,
        module: nn.Module,
        tensor_name: str,
        sparsity_level: float = 0.5,
        sparse_block_shape: tuple[int, int] = (1, 4),
        zeros_per_block: int = 4,
        **kwargs: Any,
    ) -> None:
        size = math.prod(sparse_block_shape)
        if zeros_per_block > size:
            raise ValueError(
                "Number of zeros per block cannot be more than the total number of elements in that block."
            )
        if zeros_per_block < 0:
            raise ValueError("Number of zeros per block should be positive.")
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        if sparsity_level <= 0 or zeros_per_block == 0:
            mask.data = torch.ones_like(mask)
            return
        norms = self.norm_fn(getattr(module, tensor_name))
        made = _kept_blocks(norms, sparsity_level, sparse_block_shape)
        if zeros_per_block < size:
            made = torch.logical_or(made, _kept_in_blocks(norms, sparse_block_shape, zeros_per_block))
        mask.data = made


def _kept_blocks(norms: torch.Tensor, level: float, block: tuple[int, int]) -> torch.Tensor:
    """Zeros for the blocks with the smallest means, and ones for the others."""
    if level >= 1:
        return torch.zeros(norms.shape, device=norms.device)
    rows, columns = block
    means = F.avg_pool2d(norms[None], block, stride=block, ceil_mode=True)[0]
    # At least one block is kept.
    count = min(means.numel() - 1, round(level * means.numel()))
    kept = torch.ones(means.numel(), device=norms.device)
    kept[means.flatten().topk(count, largest=False).indices] = 0
    whole = kept.reshape(means.shape).repeat_interleave(rows, 0).repeat_interleave(columns, 1)
    return whole[: norms.shape[0], : norms.shape[1]].contiguous()


def _kept_in_blocks(norms: torch.Tensor, block: tuple[int, int], zeros: int) -> torch.Tensor:
    """Zeros for the smallest elements of each block, and ones for the others."""
    height, width = norms.shape
    rows, columns = block
    # What is beyond the matrix is larger than any element.
    padded = F.pad(norms, (0, -width % columns, 0, -height % rows), value=torch.nan)
    blocks = padded.unflatten(0, (-1, rows)).unflatten(2, (-1, columns)).transpose(1, 2)
    lines = blocks.flatten(2)
    kept = torch.ones_like(lines).scatter(2, lines.topk(zeros, dim=2, largest=False).indices, 0)
    whole = kept.reshape(blocks.shape).transpose(1, 2).reshape(padded.shape)
    return whole[:height, :width]

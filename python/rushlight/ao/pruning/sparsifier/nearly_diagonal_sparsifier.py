"""Masks of the elements near the diagonal."""

from __future__ import annotations

import rushlight as torch

from .base_sparsifier import BaseSparsifier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import nn

__all__ = ["NearlyDiagonalSparsifier"]


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Keeps the diagonals of matrices that are nearest to the main one.

    Args:
        nearliness: how many of them, an odd number; none if it is 0 or below.

    Raises:
        ValueError: in `step`, the number is even or too large for a matrix.

    >>> layer = torch.nn.Linear(3, 3)
    >>> sparsifier = torch.ao.pruning.NearlyDiagonalSparsifier(nearliness=3)
    >>> sparsifier.prepare(layer, [{"tensor_fqn": "weight"}])
    >>> sparsifier.step()
    >>> layer.parametrizations.weight[0].mask
    tensor([[1., 1., 0.],
            [1., 1., 1.],
            [0., 1., 1.]])
    """

    def __init__(self, nearliness: int = 1) -> None:
        super().__init__(defaults={"nearliness": nearliness})

    def update_mask(self, module: nn.Module, tensor_name: str, nearliness: int = 1, **kwargs: Any) -> None:
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        mask.zero_()
        if nearliness <= 0:
            return
        if nearliness % 2 == 0:
            raise ValueError("nearliness can only be an odd number")
        beside = nearliness // 2
        if beside >= min(mask.shape):
            raise ValueError("nearliness cannot be larger than the dimensions of tensor.")
        mask.copy_(torch.ones_like(mask).tril(beside).triu(-beside))

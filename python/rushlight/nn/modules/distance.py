"""Distances between vectors."""

from __future__ import annotations

import rushlight as torch

from .. import functional as F
from .module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The norms of ``x1 - x2 + eps`` along the last dimension.

    Args:
        p: the order of the norm.
        eps: a small number that keeps the gradient of zero distances finite.
        keepdim: whether to keep the dimension.

    Shapes: inputs ``(N, D)`` or ``(D)``, output ``(N)`` or ``()``.

    >>> torch.nn.PairwiseDistance(p=1.0, eps=0.0)(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0]))
    tensor(3.)
    """

    __constants__ = ["norm", "eps", "keepdim"]
    norm: float
    eps: float
    keepdim: bool

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosines of the angles between vectors along ``dim``. Norms are at least ``eps``.

    Shapes: the inputs broadcast; the output has no dimension ``dim``.

    >>> torch.nn.CosineSimilarity(dim=0)(torch.tensor([1.0, 0.0]), torch.tensor([3.0, 4.0]))
    tensor(0.6000)
    """

    __constants__ = ["dim", "eps"]
    dim: int
    eps: float

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)

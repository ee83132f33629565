"""Dropout of elements and of whole channels."""

from __future__ import annotations

import rushlight as torch

from .. import functional as F
from .module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    __constants__ = ["p", "inplace"]
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """In training, zeroes each element with probability ``p`` and divides the others by ``1 - p``. Otherwise the identity.

    Args:
        p: the probability, from 0 to 1.
        inplace: whether to write the result into the input.

    Any shape, floating point or complex.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    >>> torch.nn.Dropout(0.2).eval()(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """`Dropout` of whole channels of ``(N, C, L)`` or ``(C, L)``. Same arguments and errors.

    >>> torch.nn.Dropout1d(1.0)(torch.ones(1, 2))
    tensor([[0., 0.]])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """`Dropout` of whole channels of ``(N, C, H, W)`` (Tompson et al. 2014). Same arguments and errors.

    >>> torch.nn.Dropout2d(1.0)(torch.ones(1, 1, 1, 2))
    tensor([[[[0., 0.]]]])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """`Dropout` of whole channels of ``(N, C, D, H, W)``. Same arguments and errors.

    >>> torch.nn.Dropout3d(1.0)(torch.ones(1, 1, 1, 1, 2))
    tensor([[[[[0., 0.]]]]])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """In training, dropout that keeps the mean and the variance of the output of `SELU` (Klambauer et al. 2017).

    Dropped elements get the limit of `SELU` at minus infinity; all elements are then scaled and shifted. Any shape,
    floating point.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    >>> torch.nn.AlphaDropout(0.2).eval()(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels of ``(N, C, *)``. Same arguments and errors.

    >>> torch.nn.FeatureAlphaDropout(0.2).eval()(torch.ones(1, 2))
    tensor([[1., 1.]])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)

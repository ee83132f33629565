"""Softmax, softmin and log-softmax along a dimension. They are part of `activation`."""

from __future__ import annotations

import rushlight as torch

from .. import functional as F
from .module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _AlongDim(Module):
    """The base of softmax, softmin and log-softmax."""

    __constants__ = ["dim"]
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """``exp(x) / exp(x).sum(dim)``: the elements along ``dim`` sum to one; any shape, floating point.

    Args:
        dim: the dimension. Omitting it is deprecated and gives a warning.

    Raises:
        IndexError: the input has no such dimension.

    >>> torch.nn.Softmax(dim=1)(torch.tensor([[1.0, 1.0]]))
    tensor([[0.5000, 0.5000]])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    """The `Softmax` of ``-x``, with the same argument and errors.

    >>> torch.nn.Softmin(dim=0)(torch.tensor([2.0, 2.0]))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """The logarithm of `Softmax`, computed without underflow; any shape, floating point.

    Args:
        dim: the dimension. Omitting it is deprecated and gives a warning.

    Raises:
        IndexError: the input has no such dimension.

    >>> torch.nn.LogSoftmax(dim=0)(torch.tensor([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """The softmax over the channels of images ``(N, C, H, W)`` or ``(C, H, W)``.

    Raises:
        ValueError: the input has the wrong number of dimensions.

    >>> torch.nn.Softmax2d()(torch.zeros(2, 1, 1)).tolist()
    [[[0.5]], [[0.5]]]
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)

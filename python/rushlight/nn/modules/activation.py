"""Activations, element by element, and softmax."""

from __future__ import annotations

import rushlight as torch

from .. import functional as F
from .module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["GELU", "LogSoftmax", "ReLU", "Sigmoid", "Softmax", "Tanh"]


class ReLU(Module):
    """``max(x, 0)``, element by element; any shape, any real dtype.

    Args:
        inplace: whether to write the result into the input.

    >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    __constants__ = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.relu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class GELU(Module):
    """``x * Phi(x)`` with the normal distribution's Phi, element by element; any shape, floating point.

    Args:
        approximate: ``"none"``, or ``"tanh"`` for the approximation by tanh.

    Raises:
        RuntimeError: another word for ``approximate``.

    >>> torch.nn.GELU()(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8413])
    """

    __constants__ = ["approximate"]
    approximate: str

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``, element by element; any shape, floating point or complex.

    >>> torch.nn.Sigmoid()(torch.tensor([0.0]))
    tensor([0.5000])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent, element by element; any shape, floating point or complex.

    >>> torch.nn.Tanh()(torch.tensor([0.0]))
    tensor([0.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.tanh(input)


class _AlongDim(Module):
    """What softmax and its logarithm share."""

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
    """``exp(x) / exp(x).sum(dim)``: each line along ``dim`` sums to one; any shape, floating point.

    Args:
        dim: the dimension. Leaving it out is deprecated and warns.

    Raises:
        IndexError: the input has no such dimension.

    >>> torch.nn.Softmax(dim=1)(torch.tensor([[1.0, 1.0]]))
    tensor([[0.5000, 0.5000]])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """The logarithm of `Softmax`, computed without overflow; any shape, floating point.

    Args:
        dim: the dimension. Leaving it out is deprecated and warns.

    Raises:
        IndexError: the input has no such dimension.

    >>> torch.nn.LogSoftmax(dim=0)(torch.tensor([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)

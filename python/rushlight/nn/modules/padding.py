"""Padding of the last one, two or three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence  # noqa: TC003
from typing import Any

import rushlight as torch

from .. import functional as F
from .module import Module
from .utils import _ntuple, _pair, _quadruple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

_sextuple = _ntuple(6, "_sextuple")


class _PadNd(Module):
    """The base of padding modules. The padding is one width, or one per side, beginning with the last dimension."""

    __constants__ = ["padding"]
    padding: Sequence[int]
    _sides: Callable[[Any], tuple[int, ...]]
    _mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = type(self)._sides(padding)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    __constants__ = ["padding", "value"]
    value: float

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with a value. A negative width crops.

    Args:
        padding: one width, or ``(left, right)``.
        value: the value of the padding.

    Shapes: input ``(*, W)``, output ``(*, W + left + right)``; any dtype.

    Raises:
        RuntimeError: the output would have a negative size.

    >>> torch.nn.ConstantPad1d((1, 2), 9.0)(torch.tensor([1.0]))
    tensor([9., 1., 9., 9.])
    """

    _sides = staticmethod(_pair)


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with a value, as in `ConstantPad1d`.

    >>> torch.nn.ConstantPad2d((1, 0, 0, 1), 9.0)(torch.tensor([[1.0]]))
    tensor([[9., 1.],
            [9., 9.]])
    """

    _sides = staticmethod(_quadruple)


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with a value, as in `ConstantPad1d`.

    >>> torch.nn.ConstantPad3d(1, 9.0)(torch.zeros(1, 2, 3)).shape
    torch.Size([3, 4, 5])
    """

    _sides = staticmethod(_sextuple)


class _ZeroPadNd:
    """A constant padding of zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)  # type: ignore[call-arg]

    def extra_repr(self) -> str:
        return f"{self.padding}"  # type: ignore[attr-defined]


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Pads the last dimension with zeros, as in `ConstantPad1d`.

    >>> torch.nn.ZeroPad1d((1, 2))(torch.tensor([1.0]))
    tensor([0., 1., 0., 0.])
    """


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Pads the last two dimensions with zeros, as in `ConstantPad1d`.

    >>> torch.nn.ZeroPad2d((1, 0, 0, 1))(torch.tensor([[1.0]]))
    tensor([[0., 1.],
            [0., 0.]])
    """


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Pads the last three dimensions with zeros, as in `ConstantPad1d`.

    >>> torch.nn.ZeroPad3d(1)(torch.zeros(1, 2, 3)).shape
    torch.Size([3, 4, 5])
    """


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last dimension by reflection at its first and last elements.

    Args:
        padding: one width, or ``(left, right)``; each smaller than the dimension.

    Shapes: input ``(N, C, W)`` or ``(C, W)``, the output has size ``W + left + right``.

    Raises:
        RuntimeError: a width is not smaller than the dimension, or the input has the wrong number of dimensions.

    >>> torch.nn.ReflectionPad1d(2)(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """

    _sides = staticmethod(_pair)


class ReflectionPad2d(_ReflectionPadNd):
    """Pads images ``(N, C, H, W)`` or ``(C, H, W)`` by reflection, as in `ReflectionPad1d`.

    >>> torch.nn.ReflectionPad2d((1, 0, 0, 0))(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[2., 1., 2.]]])
    """

    _sides = staticmethod(_quadruple)


class ReflectionPad3d(_ReflectionPadNd):
    """Pads volumes ``(N, C, D, H, W)`` or ``(C, D, H, W)`` by reflection, as in `ReflectionPad1d`.

    >>> torch.nn.ReflectionPad3d(1)(torch.zeros(1, 2, 2, 2)).shape
    torch.Size([1, 4, 4, 4])
    """

    _sides = staticmethod(_sextuple)


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pads ``(N, C, W)`` or ``(C, W)`` by repeating the first and last elements.

    Args:
        padding: one width, or ``(left, right)``.

    Raises:
        RuntimeError: the input has the wrong number of dimensions.

    >>> torch.nn.ReplicationPad1d(2)(torch.tensor([[1.0, 2.0]]))
    tensor([[1., 1., 1., 2., 2., 2.]])
    """

    _sides = staticmethod(_pair)


class ReplicationPad2d(_ReplicationPadNd):
    """Pads images ``(N, C, H, W)`` or ``(C, H, W)`` by repeating the edges, as in `ReplicationPad1d`.

    >>> torch.nn.ReplicationPad2d((1, 0, 0, 0))(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2.]]])
    """

    _sides = staticmethod(_quadruple)


class ReplicationPad3d(_ReplicationPadNd):
    """Pads volumes ``(N, C, D, H, W)`` or ``(C, D, H, W)`` by repeating the faces, as in `ReplicationPad1d`.

    >>> torch.nn.ReplicationPad3d(1)(torch.zeros(1, 2, 2, 2)).shape
    torch.Size([1, 4, 4, 4])
    """

    _sides = staticmethod(_sextuple)


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        return super().forward(input)

    def _check_input_dim(self, input: torch.Tensor) -> None:
        space = len(self.padding) // 2
        if input.dim() not in (space + 1, space + 2):
            raise ValueError(
                f"expected {space + 1}D or {space + 2}D input (got {input.dim()}D input)\n"
                f"  Its shape is {list(input.shape)}."
            )


class CircularPad1d(_CircularPadNd):
    """Pads ``(N, C, W)`` or ``(C, W)`` with elements of the opposite end.

    Args:
        padding: one width, or ``(left, right)``; not larger than the dimension.

    Raises:
        ValueError: the input has the wrong number of dimensions.
        RuntimeError: a width is larger than the dimension.

    >>> torch.nn.CircularPad1d((1, 2))(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1., 2.]])
    """

    _sides = staticmethod(_pair)


class CircularPad2d(_CircularPadNd):
    """Pads images ``(N, C, H, W)`` or ``(C, H, W)`` with elements of the opposite side, as in `CircularPad1d`.

    >>> torch.nn.CircularPad2d((1, 0, 0, 0))(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[2., 1., 2.]]])
    """

    _sides = staticmethod(_quadruple)


class CircularPad3d(_CircularPadNd):
    """Pads volumes ``(N, C, D, H, W)`` with elements of the opposite side, as in `CircularPad1d`.

    >>> torch.nn.CircularPad3d(1)(torch.zeros(1, 2, 2, 2)).shape
    torch.Size([1, 4, 4, 4])
    """

    _sides = staticmethod(_sextuple)

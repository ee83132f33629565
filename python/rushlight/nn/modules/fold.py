"""Conversion between images and columns of sliding windows."""

from __future__ import annotations

import rushlight as torch

from .. import functional as F
from .module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Fold", "Unfold"]


class _Windows(Module):
    """The base of both directions, with the parameters of the windows."""

    def __init__(self, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(_Windows):
    """Sums columns of windows into an image. Elements in several windows are added.

    Args:
        output_size: height and width of the image.
        kernel_size, dilation, padding, stride: one number, or one per dimension.

    Shapes: input ``(N, C * KH * KW, L)`` or ``(C * KH * KW, L)``, output ``(N, C, H, W)`` or ``(C, H, W)``.

    Raises:
        RuntimeError: the sizes are inconsistent.

    >>> torch.nn.Fold((1, 3), (1, 2))(torch.ones(2, 2))
    tensor([[[1., 2., 1.]]])
    """

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"


class Unfold(_Windows):
    """The sliding windows of an image as columns. Arguments and errors as in `Fold`.

    Shapes: input ``(N, C, H, W)`` or ``(C, H, W)``, output ``(N, C * KH * KW, L)`` or ``(C * KH * KW, L)``.

    >>> torch.nn.Unfold((1, 2))(torch.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[1., 2.],
            [2., 3.]])
    """

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__(kernel_size, dilation, padding, stride)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

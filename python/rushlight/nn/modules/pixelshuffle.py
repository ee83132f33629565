"""Rearrangement of channels into space, and the inverse."""

from __future__ import annotations

import rushlight as torch

from .. import functional as F
from .module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Rearranges channels into blocks (Shi et al. 2016): ``(*, C * r * r, H, W)`` becomes ``(*, C, H * r, W * r)``.

    Raises:
        RuntimeError: the number of channels is not divisible by ``r * r``.

    >>> torch.nn.PixelShuffle(2)(torch.arange(4.0).reshape(4, 1, 1))
    tensor([[[0., 1.],
             [2., 3.]]])
    """

    __constants__ = ["upscale_factor"]
    upscale_factor: int

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Rearranges blocks into channels: ``(*, C, H * r, W * r)`` becomes ``(*, C * r * r, H, W)``.

    Raises:
        RuntimeError: height or width is not divisible by ``r``.

    >>> torch.nn.PixelUnshuffle(2)(torch.arange(4.0).reshape(1, 2, 2)).flatten()
    tensor([0., 1., 2., 3.])
    """

    __constants__ = ["downscale_factor"]
    downscale_factor: int

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"

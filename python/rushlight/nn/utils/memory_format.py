"""Conversion of convolution weights to another memory format."""

from __future__ import annotations

import rushlight as torch

from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from ..modules import Module

    M = TypeVar("M", bound=Module)

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert_conv2d_weight_memory_format(module: M, memory_format: torch.memory_format) -> M:
    """Converts the weights of all `Conv2d` and `ConvTranspose2d` in a module to a memory format. Returns the module.

    >>> layer = torch.nn.utils.convert_conv2d_weight_memory_format(torch.nn.Conv2d(2, 3, 2), torch.channels_last)
    >>> layer.weight.stride()
    (8, 1, 4, 2)
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: M, memory_format: torch.memory_format) -> M:
    """Converts the weights of all `Conv3d` and `ConvTranspose3d` in a module to a memory format. Returns the module.

    >>> layer = torch.nn.utils.convert_conv3d_weight_memory_format(torch.nn.Conv3d(2, 3, 2), torch.channels_last_3d)
    >>> layer.weight.stride()
    (16, 1, 8, 4, 2)
    """
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)


def _convert(module: M, kinds: tuple[type, ...], memory_format: torch.memory_format) -> M:
    for part in module.modules():
        if isinstance(part, kinds):
            weight = part.weight
            weight.data = weight.detach().clone(memory_format=memory_format)
    return module


def __dir__() -> list[str]:
    return __all__

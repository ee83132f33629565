"""Convolutions that take their number of channels from the first input."""

from __future__ import annotations

import rushlight as torch

from ..parameter import UninitializedParameter
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .lazy import LazyModuleMixin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]


class _LazyConvNd(LazyModuleMixin):
    """What the lazy convolutions share: the first input says how many channels come in."""

    # Those of the convolution it is mixed into.
    weight: Any
    bias: Any
    in_channels: int
    out_channels: int
    groups: int
    transposed: bool
    kernel_size: tuple[int, ...]
    _weight_shape: Callable[[], tuple[int, ...]]

    def _wait(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws weight and bias anew, once they have sizes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        """Takes the number of channels from the input and draws the weights."""
        if not self.has_uninitialized_params():
            # A loaded state has given the sizes.
            self.in_channels = self.weight.shape[0] if self.transposed else self.weight.shape[1] * self.groups
            return
        self.in_channels = self._channels_of(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        self.weight.materialize(self._weight_shape())
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _channels_of(self, input: torch.Tensor) -> int:
        space = len(self.kernel_size)
        if input.dim() not in (space + 1, space + 2):
            raise RuntimeError(
                f"Expected {space + 1}D (unbatched) or {space + 2}D (batched) input to {type(self).__name__}, but got input "
                f"of size: {input.shape}"
            )
        return input.shape[-space - 1]


class _LazyConv(_LazyConvNd):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._wait(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvNd):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._wait(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A `Conv1d` whose ``in_channels`` is the first input's; the other arguments are those of `Conv1d`.

    >>> layer = torch.nn.LazyConv1d(33, 3)
    >>> layer(torch.zeros(1, 16, 5)).shape[1], layer.in_channels
    (33, 16)
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A `Conv2d` whose ``in_channels`` is the first input's; the other arguments are those of `Conv2d`.

    >>> layer = torch.nn.LazyConv2d(33, 3)
    >>> layer(torch.zeros(1, 16, 5, 5)).shape[1], layer.in_channels
    (33, 16)
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A `Conv3d` whose ``in_channels`` is the first input's; the other arguments are those of `Conv3d`.

    >>> layer = torch.nn.LazyConv3d(33, 3)
    >>> layer(torch.zeros(1, 16, 5, 5, 5)).shape[1], layer.in_channels
    (33, 16)
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A `ConvTranspose1d` whose ``in_channels`` is the first input's; the other arguments are those of `ConvTranspose1d`.

    >>> layer = torch.nn.LazyConvTranspose1d(33, 3)
    >>> layer(torch.zeros(1, 16, 5)).shape[1], layer.in_channels
    (33, 16)
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A `ConvTranspose2d` whose ``in_channels`` is the first input's; the other arguments are those of `ConvTranspose2d`.

    >>> layer = torch.nn.LazyConvTranspose2d(33, 3)
    >>> layer(torch.zeros(1, 16, 5, 5)).shape[1], layer.in_channels
    (33, 16)
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A `ConvTranspose3d` whose ``in_channels`` is the first input's; the other arguments are those of `ConvTranspose3d`.

    >>> layer = torch.nn.LazyConvTranspose3d(33, 3)
    >>> layer(torch.zeros(1, 16, 5, 5, 5)).shape[1], layer.in_channels
    (33, 16)
    """

    cls_to_become = ConvTranspose3d

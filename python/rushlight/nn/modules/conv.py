"""Convolutions, and those that take their number of channels from the first input."""

from __future__ import annotations

import math
from collections.abc import Callable  # noqa: TC003
from typing import Any

import rushlight as torch

from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from .utils import _pair, _reverse_repeat_tuple, _single, _triple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]


class _ConvNd(Module):
    """The base of all convolutions: arguments, initial weights and padding mode."""

    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]
    padding: Any
    weight: torch.Tensor
    bias: torch.Tensor | None

    #: One number, or one for each dimension of space, as a tuple. Those who derive from this class give tuples.
    _spread: Callable[[Any], tuple[int, ...]] = staticmethod(tuple)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        spread = type(self)._spread
        kernel_size, stride, dilation, output_padding = map(spread, (kernel_size, stride, dilation, output_padding))
        padding = padding if isinstance(padding, str) else spread(padding)
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer\n  It is {groups}.")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups != 0:
                raise ValueError(f"{name} must be divisible by groups\n  {channels} is not divisible by {groups}.")
        _check_padding(padding, padding_mode, stride)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._padding_of_sides()
        self.weight = Parameter(torch.empty(self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(torch.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        channels = (self.out_channels, self.in_channels)
        first, second = reversed(channels) if self.transposed else channels
        return (first, second // self.groups, *self.kernel_size)

    def _padding_of_sides(self) -> Sequence[int]:
        """The padding for `functional.pad`, last dimension first."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        sides: list[int] = []
        for kernel, dilation in zip(reversed(self.kernel_size), reversed(self.dilation)):
            total = dilation * (kernel - 1) if self.padding == "same" else 0
            sides += [total // 2, total - total // 2]
        return sides

    def reset_parameters(self) -> None:
        """Initialises weight and bias."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * len(self.kernel_size):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * len(self.kernel_size):
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.kernel_size):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def _learned(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        own: dict[str, Any] = self._parameters
        try:
            return own["weight"], own["bias"]
        except KeyError:
            # Weight normalisation and other tools replace parameters by computed attributes.
            return self.weight, self.bias


def _check_padding(padding: Any, mode: str, stride: tuple[int, ...]) -> None:
    if isinstance(padding, str):
        words = {"same", "valid"}
        if padding not in words:
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {words}")
        if padding == "same" and any(step != 1 for step in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    modes = {"zeros", "reflect", "replicate", "circular"}
    if mode not in modes:
        raise ValueError(f"padding_mode must be one of {modes}, but got padding_mode='{mode}'")


class _Conv(_ConvNd):
    """The base of convolutions that are not transposed."""

    _convolve: Callable[..., torch.Tensor]

    def __init__(
        self,
        in_channels: int,
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
        sizes = in_channels, out_channels, kernel_size, stride, padding, dilation
        super().__init__(*sizes, False, 0, groups, bias, padding_mode, device, dtype)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight, bias = self._learned()
        return self._conv_forward(input, weight, bias)

    # It has torch's name, because programs override it to convolve with other weights.

    def _conv_forward(self, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Convolves with a given weight and bias, and with this module's padding."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = self.output_padding
        return self._convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """Convolution (cross-correlation) along one dimension. Arguments and errors as in `Conv2d`.

    Shapes: input ``(N, C_in, L)`` or ``(C_in, L)``, weight ``(C_out, C_in / groups, K)``.

    >>> torch.nn.Conv1d(16, 33, 3, stride=2).weight.shape
    torch.Size([33, 16, 3])
    """

    _spread = staticmethod(_single)
    _convolve = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Convolution (cross-correlation) of images with learned kernels.

    Args:
        in_channels, out_channels: number of channels of input and output; both divisible by ``groups``.
        kernel_size, stride, padding, dilation: one number, or one per dimension. ``padding`` may be ``"valid"``
            or, with a stride of 1, ``"same"``.
        groups: the number of independent groups of channels.
        bias: whether to add a learned bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.

    Shapes: input ``(N, C_in, H, W)`` or ``(C_in, H, W)``, weight ``(C_out, C_in / groups, KH, KW)``; each dimension of
    the output is ``(size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1``. The dtype is the weight's.

    Raises:
        ValueError: ``groups`` does not divide the channels, or the padding mode is unknown.
        RuntimeError: the channels or the dtype of the input are wrong, or it is smaller than the kernel.

    >>> torch.nn.Conv2d(1, 20, 5)(torch.zeros(8, 1, 28, 28)).shape
    torch.Size([8, 20, 24, 24])
    """

    _spread = staticmethod(_pair)
    _convolve = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Convolution (cross-correlation) of volumes. Arguments and errors as in `Conv2d`.

    Shapes: input ``(N, C_in, D, H, W)`` or ``(C_in, D, H, W)``, weight ``(C_out, C_in / groups, KD, KH, KW)``.

    >>> torch.nn.Conv3d(16, 33, 3, stride=2)(torch.zeros(2, 16, 5, 7, 9)).shape
    torch.Size([2, 33, 2, 3, 4])
    """

    _spread = staticmethod(_triple)
    _convolve = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    """The base of transposed convolutions with the constructor of `_ConvNd`. It computes the output padding."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        sizes = in_channels, out_channels, kernel_size, stride, padding, dilation
        super().__init__(*sizes, transposed, output_padding, groups, bias, padding_mode, device, dtype)

    # It has torch's name, because programs with their own `forward` call it.

    def _output_padding(
        self,
        input: torch.Tensor,
        output_size: Sequence[int] | None,
        stride: Sequence[int],
        padding: Sequence[int],
        kernel_size: Sequence[int],
        num_spatial_dims: int,
        dilation: Sequence[int] | None = None,
    ) -> Sequence[int]:
        """The output padding: the difference between the requested output size and the smallest possible one."""
        if output_size is None:
            return self.output_padding
        space = num_spatial_dims
        before = 2 if input.dim() == space + 2 else 1
        wanted = output_size[before:] if len(output_size) == before + space else output_size
        if len(wanted) != space:
            raise ValueError(
                f"ConvTranspose{space}D: for {input.dim()}D input, output_size must have {space} or {before + space} "
                f"elements (got {len(wanted)})"
            )
        lowest = [
            (size - 1) * step - 2 * pad + spread * (kernel - 1) + 1
            for size, step, pad, spread, kernel in zip(
                input.shape[before:], stride, padding, dilation or (1,) * space, kernel_size
            )
        ]
        highest = [low + step - 1 for low, step in zip(lowest, stride)]
        if not all(low <= size <= high for low, size, high in zip(lowest, wanted, highest)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {lowest} to {highest} (for an input "
                f"of {input.size()[2:]})"
            )
        return [size - low for size, low in zip(wanted, lowest)]


class _ConvTranspose(_ConvTransposeNd):
    """The base of the transposed convolutions in this file."""

    _convolve: Callable[..., torch.Tensor]

    def __init__(
        self,
        in_channels: int,
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
        sizes = in_channels, out_channels, kernel_size, stride, padding, dilation
        super().__init__(*sizes, True, output_padding, groups, bias, padding_mode, device, dtype)

    def forward(self, input: torch.Tensor, output_size: Sequence[int] | None = None) -> torch.Tensor:
        weight, bias = self._learned()
        extra: Sequence[int] = self.output_padding
        if output_size is not None:
            sizes = self.kernel_size
            extra = self._output_padding(
                input, output_size, self.stride, self.padding, sizes, len(sizes), self.dilation
            )
        return self._convolve(input, weight, bias, self.stride, self.padding, extra, self.groups, self.dilation)


class ConvTranspose1d(_ConvTranspose):
    """The transposed convolution along one dimension. Arguments and errors as in `ConvTranspose2d`.

    Shapes: input ``(N, C_in, L)`` or ``(C_in, L)``, weight ``(C_in, C_out / groups, K)``.

    >>> torch.nn.ConvTranspose1d(16, 33, 3, stride=2)(torch.zeros(16, 5)).shape
    torch.Size([33, 11])
    """

    _spread = staticmethod(_single)
    _convolve = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """The transposed convolution of images: the operation that backward of `Conv2d` applies to gradients.

    Args:
        in_channels, out_channels: number of channels of input and output; both divisible by ``groups``.
        kernel_size, stride, dilation: those of the convolution; one number, or one per dimension.
        padding: the padding of the convolution; it makes the output smaller.
        output_padding: rows and columns added at one side, fewer than the stride or the dilation.
        groups: the number of independent groups of channels.
        bias: whether to add a learned bias.

    ``forward`` has the argument ``output_size``. It selects one of the sizes that are possible with a stride.

    Shapes: input ``(N, C_in, H, W)`` or ``(C_in, H, W)``, weight ``(C_in, C_out / groups, KH, KW)``; each dimension of the
    output is ``(size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1``.

    Raises:
        ValueError: ``groups`` does not divide the channels, ``padding_mode`` is not "zeros", or ``output_size`` is not
            possible with the stride.
        RuntimeError: the channels or the dtype of the input are wrong.

    >>> torch.nn.ConvTranspose2d(16, 33, 3, stride=2)(torch.zeros(1, 16, 5, 7), output_size=(12, 15)).shape
    torch.Size([1, 33, 12, 15])
    """

    _spread = staticmethod(_pair)
    _convolve = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """The transposed convolution of volumes. Arguments and errors as in `ConvTranspose2d`.

    Shapes: input ``(N, C_in, D, H, W)`` or ``(C_in, D, H, W)``, weight ``(C_in, C_out / groups, KD, KH, KW)``.

    >>> torch.nn.ConvTranspose3d(4, 3, 3)(torch.zeros(4, 2, 2, 2)).shape
    torch.Size([3, 4, 4, 4])
    """

    _spread = staticmethod(_triple)
    _convolve = staticmethod(F.conv_transpose3d)


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

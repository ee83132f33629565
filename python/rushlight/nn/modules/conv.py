"""Convolutions."""

from __future__ import annotations

import math

import rushlight as torch

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module
from .utils import _pair, _reverse_repeat_tuple, _single

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Conv1d", "Conv2d"]


class _ConvNd(Module):
    """What the convolutions share: their arguments, the initial weights and the padding mode."""

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
    _spread: Callable[[Any], tuple[int, ...]]
    weight: torch.Tensor
    bias: torch.Tensor | None

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
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        spread = type(self)._spread
        kernel_size, stride, dilation = spread(kernel_size), spread(stride), spread(dilation)
        _check_padding(padding, padding_mode, stride)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding if isinstance(padding, str) else spread(padding)
        self.dilation = dilation
        self.transposed = False
        self.output_padding = spread(0)
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._padding_of_sides()
        self.weight = Parameter(
            torch.empty((out_channels, in_channels // groups, *kernel_size), device=device, dtype=dtype)
        )
        if bias:
            self.bias = Parameter(torch.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _padding_of_sides(self) -> list[int]:
        """What `functional.pad` adds to each side, last dimension first."""
        if not isinstance(self.padding, str):
            return list(_reverse_repeat_tuple(self.padding, 2))
        sides: list[int] = []
        for kernel, dilation in zip(reversed(self.kernel_size), reversed(self.dilation)):
            total = dilation * (kernel - 1) if self.padding == "same" else 0
            sides += [total // 2, total - total // 2]
        return sides

    def reset_parameters(self) -> None:
        """Draws weight and bias anew."""
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
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def _convolved(self, convolve: Callable[..., torch.Tensor], input: torch.Tensor) -> torch.Tensor:
        own: dict[str, Any] = self._parameters
        try:
            weight, bias = own["weight"], own["bias"]
        except KeyError:
            # Weight normalisation and the like replace parameters by computed attributes.
            weight, bias = self.weight, self.bias
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = self.output_padding
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)


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


class Conv1d(_ConvNd):
    """Convolution (cross-correlation) along one dimension. Arguments and errors as in `Conv2d`.

    Shapes: input ``(N, C_in, L)`` or ``(C_in, L)``, weight ``(C_out, C_in / groups, K)``.

    >>> torch.nn.Conv1d(16, 33, 3, stride=2).weight.shape
    torch.Size([33, 16, 3])
    """

    _spread = staticmethod(_single)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._convolved(F.conv1d, input)


class Conv2d(_ConvNd):
    """Convolution (cross-correlation) of images with learned kernels.

    Args:
        in_channels, out_channels: number of channels of input and output; both divisible by ``groups``.
        kernel_size, stride, padding, dilation: one number or one for each dimension. ``padding`` may be ``"valid"``
            or, with a stride of 1, ``"same"``.
        groups: how many independent groups the channels form.
        bias: whether to add a learned bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.

    Shapes: input ``(N, C_in, H, W)`` or ``(C_in, H, W)``, weight ``(C_out, C_in / groups, KH, KW)``; each dimension of
    the output is ``(size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1``. The dtype is the weight's.

    Raises:
        ValueError: channels that ``groups`` does not divide, or an unknown kind of padding.
        RuntimeError: an input whose channels or dtype differ, or that is smaller than the kernel.

    >>> torch.nn.Conv2d(1, 20, 5)(torch.zeros(8, 1, 28, 28)).shape
    torch.Size([8, 20, 24, 24])
    """

    _spread = staticmethod(_pair)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._convolved(F.conv2d, input)

"""The gradients of convolutions as functions: for the input and for the weight."""

from __future__ import annotations

import rushlight as torch

from . import functional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv1d` for its input, whose size is an argument.

    >>> torch.nn.grad.conv1d_input((1, 1, 4), torch.ones(1, 1, 2), torch.ones(1, 1, 3))
    tensor([[[1., 2., 2., 1.]]])
    """
    return _for_input(functional.conv1d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv1d` for its weight, whose size is an argument.

    >>> torch.nn.grad.conv1d_weight(torch.arange(4.0).reshape(1, 1, 4), (1, 1, 2), torch.ones(1, 1, 3))
    tensor([[[3., 6.]]])
    """
    return _for_weight(functional.conv1d, input, weight_size, grad_output, (stride, padding, dilation, groups))


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv2d` for its input, whose size is an argument.

    >>> torch.nn.grad.conv2d_input((1, 1, 2, 2), torch.ones(1, 1, 1, 2), torch.ones(1, 1, 2, 1))
    tensor([[[[1., 1.],
              [1., 1.]]]])
    """
    return _for_input(functional.conv2d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv2d` for its weight, whose size is an argument.

    >>> torch.nn.grad.conv2d_weight(torch.arange(4.0).reshape(1, 1, 2, 2), (1, 1, 1, 2), torch.ones(1, 1, 2, 1))
    tensor([[[[2., 4.]]]])
    """
    return _for_weight(functional.conv2d, input, weight_size, grad_output, (stride, padding, dilation, groups))


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv3d` for its input, whose size is an argument.

    >>> torch.nn.grad.conv3d_input((1, 1, 1, 1, 3), torch.ones(1, 1, 1, 1, 2), torch.ones(1, 1, 1, 1, 2))
    tensor([[[[[1., 2., 1.]]]]])
    """
    return _for_input(functional.conv3d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv3d` for its weight, whose size is an argument.

    >>> torch.nn.grad.conv3d_weight(torch.ones(1, 1, 1, 1, 3), (1, 1, 1, 1, 2), torch.ones(1, 1, 1, 1, 2))
    tensor([[[[[2., 2.]]]]])
    """
    return _for_weight(functional.conv3d, input, weight_size, grad_output, (stride, padding, dilation, groups))


def _for_input(
    convolution: Callable[..., Tensor], size: Sequence[int], weight: Tensor, grad: Tensor, options: tuple[Any, ...]
) -> Tensor:
    blank = torch.zeros(size, dtype=weight.dtype, device=weight.device)
    return _gradient(lambda input: convolution(input, weight, None, *options), blank, grad)


def _for_weight(
    convolution: Callable[..., Tensor], input: Tensor, size: Sequence[int], grad: Tensor, options: tuple[Any, ...]
) -> Tensor:
    blank = torch.zeros(size, dtype=input.dtype, device=input.device)
    return _gradient(lambda weight: convolution(input, weight, None, *options), blank, grad)


def _gradient(linear: Callable[[Tensor], Tensor], at: Tensor, grad: Tensor) -> Tensor:
    """The gradient of a linear function, which is the same at every point."""
    further = torch.is_grad_enabled()
    with torch.enable_grad():
        at.requires_grad = True
        return torch.autograd.grad(linear(at), at, grad, create_graph=further)[0]


def __dir__() -> list[str]:
    return __all__

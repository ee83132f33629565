"""Pooling, where it needs Python besides the row: places on demand, sizes left out, norms.

The functions are parts of `torch.nn.functional`.
"""

from __future__ import annotations

import math

import rushlight as torch
from rushlight._functions import nn_functional as _nn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor


def _max_pool(row: str, return_indices: bool, input: Tensor, *windows: Any) -> Any:
    return getattr(_nn, f"{row}_with_indices" if return_indices else row)(input, *windows)


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest value of each window of sequences ``(N, C, L)`` or ``(C, L)``, with its place if asked.

    Raises:
        RuntimeError: the input is smaller than a window, or the padding larger than half of it.

    >>> torch.nn.functional.max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    return _max_pool("max_pool1d", return_indices, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest value of each window of images ``(N, C, H, W)`` or ``(C, H, W)``, with its place if asked.

    Raises:
        RuntimeError: the input is smaller than a window, or the padding larger than half of it.

    >>> torch.nn.functional.max_pool2d(torch.arange(4.0).reshape(1, 2, 2), 2)
    tensor([[[3.]]])
    """
    return _max_pool("max_pool2d", return_indices, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest value of each window of volumes ``(N, C, D, H, W)`` or ``(C, D, H, W)``, with its place if asked.

    Raises:
        RuntimeError: the input is smaller than a window, or the padding larger than half of it.

    >>> torch.nn.functional.max_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """
    return _max_pool("max_pool3d", return_indices, input, kernel_size, stride, padding, dilation, ceil_mode)


def _filled(output_size: Any, input: Tensor) -> Any:
    """The sizes asked for, with the input's own where one is ``None``."""
    if not isinstance(output_size, (list, tuple)):
        return output_size
    return tuple(own if size is None else size for size, own in zip(output_size, input.shape[-len(output_size) :]))


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows that cover images ``(N, C, H, W)`` or ``(C, H, W)`` evenly; ``None`` keeps a dimension.

    >>> torch.nn.functional.adaptive_avg_pool2d(torch.arange(4.0).reshape(1, 2, 2), (1, None))
    tensor([[[1., 2.]]])
    """
    return _nn.adaptive_avg_pool2d(input, _filled(output_size, input))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows that cover volumes ``(N, C, D, H, W)`` or ``(C, D, H, W)`` evenly; ``None`` keeps a dimension.

    >>> torch.nn.functional.adaptive_avg_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[3.5000]]]])
    """
    return _nn.adaptive_avg_pool3d(input, _filled(output_size, input))


def _lp_pool(
    input: Tensor,
    norm_type: float,
    kernel_size: Any,
    space: int,
    stride: Any,
    ceil_mode: bool,
    mean: Callable[..., Tensor],
    largest: Callable[..., Tensor],
) -> Tensor:
    """The norm of each window, from the mean of the powers; infinite norms are the largest and the smallest magnitude."""
    if norm_type == math.inf:
        return largest(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    if norm_type == -math.inf:
        return -largest(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    means = mean(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    size = kernel_size**space if isinstance(kernel_size, int) else math.prod(kernel_size)
    return (torch.sign(means) * torch.relu(means.abs())).mul(size).pow(1.0 / norm_type)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The norm of each window of sequences ``(N, C, L)`` or ``(C, L)``.

    >>> torch.nn.functional.lp_pool1d(torch.tensor([[3.0, 4.0]]), 2, 2)
    tensor([[5.]])
    """
    return _lp_pool(input, norm_type, kernel_size, 1, stride, ceil_mode, _nn.avg_pool1d, max_pool1d)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The norm of each window of images ``(N, C, H, W)`` or ``(C, H, W)``.

    >>> torch.nn.functional.lp_pool2d(torch.tensor([[[3.0, 4.0]]]), 2, (1, 2))
    tensor([[[5.]]])
    """
    return _lp_pool(input, norm_type, kernel_size, 2, stride, ceil_mode, _nn.avg_pool2d, max_pool2d)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The norm of each window of volumes ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    >>> torch.nn.functional.lp_pool3d(torch.ones(1, 2, 2, 2), 1, 2)
    tensor([[[[8.]]]])
    """
    return _lp_pool(input, norm_type, kernel_size, 3, stride, ceil_mode, _nn.avg_pool3d, max_pool3d)

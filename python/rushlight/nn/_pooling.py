"""Pooling functions that need Python code besides the operator: omitted sizes, norms, unpooling.

The functions are part of `torch.nn.functional`.
"""

from __future__ import annotations

import math

import rushlight as torch
from rushlight import _C
from rushlight._compiled import compiled
from rushlight._functions import nn_functional as _nn
from rushlight._overridable import overridable
from rushlight._text import must_be_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor


def _filled(output_size: Any, sizes: Sequence[int]) -> Any:
    """The output sizes, with the size of the input in place of ``None``."""
    if not isinstance(output_size, (list, tuple)):
        return output_size
    if len(sizes) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    return tuple(own if size is None else size for size, own in zip(output_size, sizes[-len(output_size) :]))


@overridable
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Averages images ``(N, C, H, W)`` or ``(C, H, W)`` to a given output size; ``None`` keeps a dimension.

    >>> torch.nn.functional.adaptive_avg_pool2d(torch.arange(4.0).reshape(1, 2, 2), (1, None))
    tensor([[[1., 2.]]])
    """
    return _nn.adaptive_avg_pool2d(input, _filled(output_size, input.size()))


@overridable
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Averages volumes ``(N, C, D, H, W)`` or ``(C, D, H, W)`` to a given output size; ``None`` keeps a dimension.

    >>> torch.nn.functional.adaptive_avg_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[3.5000]]]])
    """
    return _nn.adaptive_avg_pool3d(input, _filled(output_size, input.size()))


def _each(sizes: Any, space: int) -> Sequence[int]:
    """A size for each of two or three dimensions, from a number or from as many numbers."""
    if not hasattr(sizes, "__iter__"):
        return (sizes,) * space
    if space == 2:
        height, width = sizes
        return height, width
    depth, height, width = sizes
    return depth, height, width


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
    """The norm of each window, from the mean of the powers; infinite norms are the maximum or minimum magnitude."""
    sizes = [kernel_size] if space == 1 else _each(kernel_size, space)
    if norm_type == math.inf:
        return largest(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    if norm_type == -math.inf:
        return -largest(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    means = mean(input.pow(norm_type), kernel_size, stride, padding=0, ceil_mode=ceil_mode)
    return (torch.sign(means) * torch.relu(means.abs())).mul(math.prod(sizes)).pow(1.0 / norm_type)


@overridable
def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The norm of each window of sequences ``(N, C, L)`` or ``(C, L)``.

    >>> torch.nn.functional.lp_pool1d(torch.tensor([[3.0, 4.0]]), 2, 2)
    tensor([[5.]])
    """
    return _lp_pool(input, norm_type, kernel_size, 1, stride, ceil_mode, _nn.avg_pool1d, _nn.max_pool1d)


@overridable
def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The norm of each window of images ``(N, C, H, W)`` or ``(C, H, W)``.

    >>> torch.nn.functional.lp_pool2d(torch.tensor([[[3.0, 4.0]]]), 2, (1, 2))
    tensor([[[5.]]])
    """
    return _lp_pool(input, norm_type, kernel_size, 2, stride, ceil_mode, _nn.avg_pool2d, _nn.max_pool2d)


@overridable
def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The norm of each window of volumes ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    >>> torch.nn.functional.lp_pool3d(torch.ones(1, 2, 2, 2), 1, 2)
    tensor([[[[8.]]]])
    """
    return _lp_pool(input, norm_type, kernel_size, 3, stride, ceil_mode, _nn.avg_pool3d, _nn.max_pool3d)


def _adaptive_max_pool(operator: Callable[..., Any], input: Tensor, output_size: Any, return_indices: bool) -> Any:
    found = operator(input, _filled(output_size, input.size()))
    return found if return_indices else found[0]


@overridable
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of sequences ``(N, C, L)`` or ``(C, L)`` for a given output size, with their indices on request.

    >>> torch.nn.functional.adaptive_max_pool1d(torch.tensor([[1.0, 2.0, 5.0, 3.0]]), 2)
    tensor([[2., 5.]])
    """
    found = _nn.adaptive_max_pool1d_with_indices(input, output_size)
    return found if return_indices else found[0]


@overridable
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of images for a given output size, with their indices on request; ``None`` keeps a dimension.

    >>> torch.nn.functional.adaptive_max_pool2d(torch.arange(4.0).reshape(1, 2, 2), (1, None))
    tensor([[[2., 3.]]])
    """
    return _adaptive_max_pool(_nn.adaptive_max_pool2d_with_indices, input, output_size, return_indices)


@overridable
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of volumes for a given output size, with their indices on request; ``None`` keeps a dimension.

    >>> torch.nn.functional.adaptive_max_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[7.]]]])
    """
    return _adaptive_max_pool(_nn.adaptive_max_pool3d_with_indices, input, output_size, return_indices)


def _spread(value: Any, space: int) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value] * space


def _max_unpool(
    input: Tensor, indices: Tensor, space: int, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    """Puts the maxima at their indices, in the size that is given or that follows from the pooling's arguments."""
    kernel, step, border = (
        tuple(_spread(value, space)) for value in (kernel_size, kernel_size if stride is None else stride, padding)
    )
    sizes = [
        (size - 1) * step[dim] + width - 2 * border[dim]
        for dim, (size, width) in enumerate(zip(input.size()[-len(kernel) :], kernel))
    ]
    for dim, size in enumerate(sizes):
        if size < 0:
            raise ValueError(
                "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
                f"output_size[{dim}]={size}"
            )
    if output_size is not None:
        output_size = output_size[2:] if len(output_size) == space + 2 else output_size
        wanted = list(output_size)
        if len(wanted) != space:
            raise ValueError(
                f"output_size should be a sequence containing {space} or {space + 2} elements, but it has a length of "
                f"'{len(wanted)}'"
            )
        for dim, (size, usual, each) in enumerate(zip(wanted, sizes, step)):
            if not usual - each < size < usual + each:
                raise ValueError(
                    f'invalid output_size "{output_size}" (dim {dim} must be between {usual - each} and {usual + each})'
                )
        sizes = wanted
    if space == 3:
        return _max_unpool3d(input, indices, sizes, step, border)
    return _max_unpool2d(input, indices, sizes) if space == 2 else _unpooled(input, indices, space, sizes)


def _unpooled(input: Tensor, indices: Tensor, space: int, sizes: Sequence[int], **windows: Sequence[int]) -> Tensor:
    """Puts the maxima at their indices, in tensors of these sizes. Sequences are images of width one in errors. The
    ``stride`` and the ``padding`` of volumes are checked after the sizes, as in torch."""
    must_be_tensor(f"max_unpool{max(space, 2)}d", "indices", 2, indices)
    if indices.dtype != torch.int64:
        kind = indices.type().rpartition(".")[2].removesuffix("Tensor")
        raise RuntimeError(f"elements in indices should be type int64 but got: {kind}")
    if len(sizes) != space:
        count, names = ("three", "depth, height, width") if space == 3 else ("two", "height, width")
        number = len(sizes) + (space == 1)
        raise RuntimeError(
            f"There should be exactly {count} elements ({names}) in output_size, but got {number} elements."
        )
    for name, given in windows.items():
        if len(given) != 3:
            raise RuntimeError(
                f"There should be exactly three elements (depth, height, width) in {name}, but got: {len(given)} elements."
            )
    if windows and min(windows["stride"]) <= 0:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {list(windows['stride'])}")
    name = f"max_unpooling{max(space, 2)}d"
    if min(sizes) < 0:
        raise RuntimeError(
            f"{name}(): output_size must contain non-negative spatial dimensions, but got output_size={tuple(sizes)}"
        )
    if space == 3 and input.dim() not in (4, 5):
        raise RuntimeError(
            f"Input to max_unpooling3d should be a 4d or 5d Tensor, but got a tensor with {input.dim()} dimensions."
        )
    if 0 in input.shape[1:] and input.shape == indices.shape and input.dim() in (space + 1, space + 2):
        shown = [*input.shape, 1] if space == 1 else list(input.shape)
        raise RuntimeError(
            f"{name}_forward_out_cpu(): Expected input to have non-zero size for non-batch dimensions, but got {shown} with "
            f"dimension {shown.index(0, 1)} being empty."
        )
    return _C._max_unpool(input, indices, sizes)


@compiled("Tensor input, Tensor indices, int[1] output_size", name="max_unpool2d")
def _max_unpool2d(input: Tensor, indices: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """`max_unpool2d` with the size of the result, which torch's compiled function takes.

    >>> torch._C._nn.max_unpool2d(torch.tensor([[[4.0]]]), torch.tensor([[[2]]]), (2, 2))
    tensor([[[0., 0.],
             [4., 0.]]])
    """
    return _unpooled(input, indices, 2, _spread(output_size, 2))


@compiled("Tensor input, Tensor indices, int[1] output_size, int[1] stride, int[1] padding", name="max_unpool3d")
def _max_unpool3d(
    input: Tensor,
    indices: Tensor,
    output_size: int | Sequence[int],
    stride: int | Sequence[int],
    padding: int | Sequence[int],
) -> Tensor:
    """`max_unpool3d` with the size of the result, which torch's compiled function takes.

    >>> torch._C._nn.max_unpool3d(torch.ones(1, 1, 1, 1), torch.tensor([[[[1]]]]), (1, 1, 2), 1, 0)
    tensor([[[[0., 1.]]]])
    """
    windows = {"stride": _spread(stride, 3), "padding": _spread(padding, 3)}
    return _unpooled(input, indices, 3, _spread(output_size, 3), **windows)


@overridable
def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Inverts `max_pool1d`: puts the maxima at their indices and zeros elsewhere.

    Raises:
        ValueError: ``output_size`` is not a possible input size of this pooling.

    >>> torch.nn.functional.max_unpool1d(torch.tensor([[2.0, 4.0]]), torch.tensor([[1, 2]]), 2)
    tensor([[0., 2., 4., 0.]])
    """
    return _max_unpool(input, indices, 1, kernel_size, stride, padding, output_size)


@overridable
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Inverts `max_pool2d`: puts the maxima at their indices and zeros elsewhere; errors as in `max_unpool1d`.

    >>> torch.nn.functional.max_unpool2d(torch.tensor([[[4.0]]]), torch.tensor([[[2]]]), 2)
    tensor([[[0., 0.],
             [4., 0.]]])
    """
    return _max_unpool(input, indices, 2, kernel_size, stride, padding, output_size)


@overridable
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Inverts `max_pool3d`: puts the maxima at their indices and zeros elsewhere; errors as in `max_unpool1d`.

    >>> torch.nn.functional.max_unpool3d(torch.tensor([[[[7.0]]]]), torch.tensor([[[[7]]]]), 2).sum()
    tensor(7.)
    """
    return _max_unpool(input, indices, 3, kernel_size, stride, padding, output_size)


def _check_samples(samples: Tensor, batch: int, input: Tensor, space: int) -> None:
    """Raises RuntimeError if the random numbers do not fit the input. Those of further batches are ignored."""
    if samples.dtype != input.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.dim() != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.dim()}")
    if samples.size(0) < batch:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if samples.size(1) != input.size(-space - 1):
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if samples.size(2) != space:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {space}; got {samples.size(2)}.")


def _fractional(
    space: int,
    input: Tensor,
    kernel_size: Any,
    output_size: Any,
    output_ratio: Any,
    return_indices: bool,
    samples: Tensor | None,
) -> Any:
    if output_size is None:
        if output_ratio is None:
            raise ValueError(
                f"fractional_max_pool{space}d requires specifying either an output_size or an output_ratio"
            )
        ratios = _spread(output_ratio, space)
        if len(ratios) != space:
            raise ValueError(
                f"fractional_max_pool{space}d requires output_ratio to either be a single Int or tuple of Ints."
            )
        output_size = [int(size * ratio) for size, ratio in zip(input.shape[-space:], ratios)]
    output_size, kernel_size = _spread(output_size, space), _spread(kernel_size, space)
    for name, value in (("kernel_size", kernel_size), ("output_size", output_size)):
        if len(value) != space:
            raise RuntimeError(
                f"fractional_max_pool{space}d: {name} must either be a single Int or tuple of "
                f"{'Ints' if space == 2 else 'three Ints'}"
            )
    name = f"fractional_max_pool{space}d{'_out' if space == 3 else ''}()"
    # The batch may be empty.
    first = input.dim() - space - 1
    for dim in range(max(first, 0), input.dim()):
        if first >= 0 and input.size(dim) == 0 and not (first == 0 and dim == 0):
            raise RuntimeError(
                f"{name}: Expected input to have non-zero size for non-batch dimensions, but got{list(input.shape)} with "
                f"dimension {dim} being empty."
            )
    if first not in (0, 1):
        raise RuntimeError(f"{name}: Expected {space + 1}D or {space + 2}D tensor, but got: {list(input.shape)}")
    batch = 1 if input.dim() == space + 1 else input.size(0)
    if samples is None:
        samples = torch.rand(batch, input.size(-space - 1), space, dtype=input.dtype, device=input.device)
    else:
        _check_samples(samples, batch, input, space)
        samples = samples[:batch]
    found = _C._fractional_max(input, output_size, kernel_size, samples)
    return found if return_indices else found[0]


@overridable
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Maxima of windows at random positions; `rushlight.nn.FractionalMaxPool2d` describes the arguments.

    Raises:
        ValueError: neither ``output_size`` nor ``output_ratio`` is given.

    >>> torch.nn.functional.fractional_max_pool2d(torch.zeros(1, 6, 8), 2, output_ratio=0.5).shape
    torch.Size([1, 3, 4])
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@overridable
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """`fractional_max_pool2d` for volumes.

    >>> torch.nn.functional.fractional_max_pool3d(torch.zeros(1, 6, 7, 8), 2, output_size=3).shape
    torch.Size([1, 3, 3, 3])
    """
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@overridable
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """`fractional_max_pool2d` that always returns the indices of the maxima too.

    >>> maxima, places = torch.nn.functional.fractional_max_pool2d_with_indices(torch.zeros(1, 6, 8), 2, output_size=3)
    >>> places.shape
    torch.Size([1, 3, 3])
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, True, _random_samples)


@overridable
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """`fractional_max_pool3d` that always returns the indices of the maxima too.

    >>> maxima, places = torch.nn.functional.fractional_max_pool3d_with_indices(torch.zeros(1, 6, 6, 6), 2, output_size=3)
    >>> places.shape
    torch.Size([1, 3, 3, 3])
    """
    return _fractional(3, input, kernel_size, output_size, output_ratio, True, _random_samples)

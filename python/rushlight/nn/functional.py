"""Functions of neural networks.

Most are rows of the operator table and come from it as they are. What stands here needs Python besides the row:
deprecated arguments, warnings, a choice between two rows.
"""

from __future__ import annotations

import warnings

import rushlight as torch
from rushlight._functions import nn_functional as _nn
from rushlight._functions.nn_functional import *  # noqa: F403

from . import _reduction
from ._resize import interpolate as interpolate
from ._resize import upsample_bilinear as upsample_bilinear
from ._resize import upsample_nearest as upsample_nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from ._text import missing

        raise missing(f"module 'torch.nn.functional' has no attribute {name!r}", name, lambda: globals())


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(input, 0)``, element by element; with ``inplace`` into the input itself.

    >>> torch.nn.functional.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return input.relu_() if inplace else _nn.relu(input)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zeroes each element with probability ``p`` and divides the rest by ``1 - p``; else the input.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    >>> torch.nn.functional.dropout(torch.ones(2), p=1.0)
    tensor([0., 0.])
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training:
        return input
    result = _nn.dropout(input, p, True)
    return input.copy_(result) if inplace else result


def _drop_whole(input: Tensor, p: float, training: bool, inplace: bool, channels: int) -> Tensor:
    """Dropout of all that shares the first ``channels`` dimensions: whole channels, or whole samples' features."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0 or input.numel() == 0:
        return input
    shape = (*input.shape[:channels], *[1] * (input.dim() - channels))
    kept = torch.empty(shape, dtype=input.dtype, device=input.device).bernoulli_(1 - p)
    kept = kept / (1 - p) if p < 1 else kept
    return input.mul_(kept) if inplace else input * kept


def _misshapen(name: str, input: Tensor, batched: int) -> None:
    if input.dim() not in (batched - 1, batched):
        warnings.warn(
            f"{name}: Received a {input.dim()}-D input to {name}, which is deprecated and will result in an error in a future "
            f"release. To retain the behavior and silence this warning, please use dropout instead. Note that {name} exists to "
            f"provide channel-wise dropout on inputs with {batched - 2} spatial dimensions, a channel dimension, and an "
            f"optional batch dimension (i.e. {batched - 1}D or {batched}D inputs).",
            stacklevel=3,
        )


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zeroes whole channels of ``(N, C, L)`` or ``(C, L)`` with probability ``p``.

    Raises:
        RuntimeError: the input has another number of dimensions.

    >>> torch.nn.functional.dropout1d(torch.ones(1, 2), p=1.0)
    tensor([[0., 0.]])
    """
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension "
            "(i.e. 2D or 3D inputs)."
        )
    return _drop_whole(input, p, training, inplace, input.dim() - 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zeroes whole channels of ``(N, C, H, W)`` with probability ``p``; else the input.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    >>> torch.nn.functional.dropout2d(torch.ones(1, 1, 1, 2), p=1.0)
    tensor([[[[0., 0.]]]])
    """
    _misshapen("dropout2d", input, 4)
    return _drop_whole(input, p, training, inplace, min(2, input.dim()))


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zeroes whole channels of ``(N, C, D, H, W)`` with probability ``p``; else the input.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    >>> torch.nn.functional.dropout3d(torch.ones(1, 1, 1, 1, 2), p=1.0)
    tensor([[[[[0., 0.]]]]])
    """
    _misshapen("dropout3d", input, 5)
    return _drop_whole(input, p, training, inplace, min(2, input.dim()))


def _alpha_drop(input: Tensor, p: float, training: bool, inplace: bool, channels: int) -> Tensor:
    """Dropout to the value that SELU saturates at, then scaled and shifted so that mean and variance stay."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(0) if inplace else input * 0
    saturated = -1.7580993408473766
    scale = ((1 - p) * (1 + p * saturated * saturated)) ** -0.5
    shape = (*input.shape[:channels], *[1] * (input.dim() - channels))
    kept = torch.empty(shape, dtype=input.dtype, device=input.device).bernoulli_(1 - p)
    shift = (kept - 1) * (-saturated * scale) - scale * p * saturated
    return input.mul_(kept * scale).add_(shift) if inplace else input * (kept * scale) + shift


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """In training, dropout that keeps mean and variance of what SELU gives.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    >>> torch.nn.functional.alpha_dropout(torch.ones(2), p=1.0, training=True)
    tensor([0., 0.])
    """
    return _alpha_drop(input, p, training, inplace, input.dim())


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    >>> torch.nn.functional.feature_alpha_dropout(torch.ones(1, 2), p=1.0, training=True)
    tensor([[0., 0.]])
    """
    return _alpha_drop(input, p, training, inplace, min(2, input.dim()))


def _legacy_softmax_dim(name: str, dimensions: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if dimensions in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    """``exp(input)`` divided by its sum along ``dim``; computed in ``dtype`` if one is given.

    Raises:
        IndexError: the input has no such dimension.

    >>> torch.nn.functional.softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    if dim is None:
        dim = _legacy_softmax_dim("softmax", input.dim(), _stacklevel)
    return torch.softmax(input, dim) if dtype is None else torch.softmax(input, dim, dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    """The logarithm of `softmax`, computed without overflow.

    Raises:
        IndexError: the input has no such dimension.

    >>> torch.nn.functional.log_softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    if dim is None:
        dim = _legacy_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return torch.log_softmax(input, dim) if dtype is None else torch.log_softmax(input, dim, dtype=dtype)


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


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of ``weight`` with the numbers in ``input``; ``padding_idx`` gets no gradient.

    With ``max_norm`` the rows that are looked up are first shortened in place.

    Raises:
        AssertionError: ``padding_idx`` is not a row of the table.
        IndexError: an index is not a row of the table.

    >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.nn.functional.embedding(torch.tensor([1, 0]), table)
    tensor([[3., 4.],
            [1., 2.]])
    """
    if padding_idx is not None:
        rows = weight.size(0)
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight, input, max_norm, norm_type)
    return torch.embedding(weight, input, -1 if padding_idx is None else padding_idx, scale_grad_by_freq, sparse)


def _reduced(losses: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    if weight is not None:
        if weight.size() != losses.size():
            raise ValueError("Weights and input must have the same size.")
        losses = losses * weight
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction != "mean":
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return losses.mean() if weight is None else losses.sum() / weight.sum()


def _warn_of_broadcasting(input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``(input - target) ** 2`` as mean, sum or ``"none"``; with ``weight`` the mean is weighted.

    Raises:
        ValueError: an unknown reduction, or a weight whose shape differs.

    >>> torch.nn.functional.mse_loss(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0]))
    tensor(2.5000)
    """
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    _warn_of_broadcasting(input, target)
    if weight is None:
        return _nn.mse_loss(input, target, reduction=reduction)
    return _reduced(_nn.mse_loss(input, target, reduction="none"), weight, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``|input - target|`` as mean, sum or ``"none"``; with ``weight`` the mean is weighted.

    Raises:
        ValueError: an unknown reduction, or a weight whose shape differs.

    >>> torch.nn.functional.l1_loss(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0]))
    tensor(1.5000)
    """
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    _warn_of_broadcasting(input, target)
    return _reduced((input - target).abs(), weight, reduction)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability of the right class; `rushlight.nn.NLLLoss` describes the arguments.

    Raises:
        IndexError: a target is not a class.

    >>> torch.nn.functional.nll_loss(torch.tensor([[-0.1, -2.4]]), torch.tensor([0]))
    tensor(0.1000)
    """
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    return _nn.nll_loss(input, target, weight, ignore_index=ignore_index, reduction=reduction)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of scores; `rushlight.nn.CrossEntropyLoss` describes the arguments.

    Raises:
        IndexError: a target is not a class.

    >>> torch.nn.functional.cross_entropy(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    return _nn.cross_entropy(
        input, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )

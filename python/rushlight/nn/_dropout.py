"""Dropout of elements and of whole channels. The functions are part of `torch.nn.functional`."""

from __future__ import annotations

import math

import rushlight as torch
from rushlight._C import _Signatures
from rushlight._functions import nn_functional as _nn
from rushlight._overridable import call_override, mark_overridable, overridable, overridden
from rushlight._text import must_be_tensor
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0 or p != p:
        # torch's check accepts NaN, and the operator rejects it.
        kind = ValueError if p == p else RuntimeError
        raise kind(f"dropout probability has to be between 0 and 1, but got {p}")


def _checked(function: str, input: Tensor, p: float, training: bool) -> float:
    """The probability as a number: it may be a tensor, which would be drawn from element by element. ``training`` is a bool.
    torch's operators ask for both. They are only asked if the kinds are others."""
    _check_probability(p)
    if type(training) is not bool or type(p) is not float:
        _Signatures(function, ("Tensor input, float p, bool train",), False).check((input, p, training), {})
    return float(p)


@mark_overridable
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zeroes elements with probability ``p`` and divides the others by ``1 - p``. Otherwise the identity.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    >>> torch.nn.functional.dropout(torch.ones(2), p=1.0)
    tensor([0., 0.])
    """
    if overridden((input,)):
        return call_override(dropout, (input,), {"p": p, "training": training, "inplace": inplace})
    p = _checked("dropout_" if inplace else "dropout", input, p, training)
    if not training or p == 0:
        must_be_tensor("dropout", "input", 1, input)
        return input
    result = _nn.dropout(input, p, True)
    return input.copy_(result) if inplace else result


def _drop_whole(input: Tensor, p: float, training: bool, inplace: bool, channels: int) -> Tensor:
    """Dropout of everything that shares the first ``channels`` dimensions: whole channels, or all features of a sample."""
    p = _checked("feature_dropout_" if inplace else "feature_dropout", input, p, training)
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return _zeroed(input, inplace)
    kept = _kept_channels(input, p, channels).div_(1 - p)
    return input.mul_(kept) if inplace else input * kept


def _zeroed(input: Tensor, inplace: bool) -> Tensor:
    zero = torch.zeros((), dtype=input.dtype, device=input.device)
    return input.mul_(zero) if inplace else input * zero


def _kept_channels(input: Tensor, p: float, channels: int) -> Tensor:
    """Ones, and zeros with probability ``p``, in the shape of the first ``channels`` dimensions of the input."""
    if input.dim() < channels:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    shape = (*input.shape[:channels], *[1] * (input.dim() - channels))
    # Created from the input, so that inside `vmap` it has elements for every sample.
    return input.new_empty(shape).bernoulli_(1 - p)


def _misshapen(name: str, input: Tensor, batched: int) -> None:
    if input.dim() not in (batched - 1, batched):
        warn(
            f"{name}: Received a {input.dim()}-D input to {name}, which is deprecated and will result in an error in a future "
            f"release. To retain the behavior and silence this warning, please use dropout instead. Note that {name} exists to "
            f"provide channel-wise dropout on inputs with {batched - 2} spatial dimensions, a channel dimension, and an "
            f"optional batch dimension (i.e. {batched - 1}D or {batched}D inputs).",
        )


@overridable
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zeroes whole channels of ``(N, C, L)`` or ``(C, L)`` with probability ``p``.

    Raises:
        RuntimeError: the input has the wrong number of dimensions.

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


@overridable
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zeroes whole channels of ``(N, C, H, W)`` with probability ``p``.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    >>> torch.nn.functional.dropout2d(torch.ones(1, 1, 1, 2), p=1.0)
    tensor([[[[0., 0.]]]])
    """
    _misshapen("dropout2d", input, 4)
    if input.dim() == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - "
            "input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a future "
            "release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D "
            "channel-wise dropout behavior, please switch to using dropout1d instead."
        )
    return _drop_whole(input, p, training, inplace, 2)


@overridable
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zeroes whole channels of ``(N, C, D, H, W)`` with probability ``p``.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    >>> torch.nn.functional.dropout3d(torch.ones(1, 1, 1, 1, 2), p=1.0)
    tensor([[[[[0., 0.]]]]])
    """
    _misshapen("dropout3d", input, 5)
    return _drop_whole(input, p, training, inplace, 2 if input.dim() == 5 else 1)


def _alpha_drop(input: Tensor, p: float, training: bool, inplace: bool, channels: int | None) -> Tensor:
    """Dropout to the negative saturation value of SELU, scaled and shifted so that mean and variance do not change."""
    function = "alpha_dropout" if channels is None else "feature_alpha_dropout"
    must_be_tensor(function, "input", 1, input)
    p = _checked(function + "_" if inplace else function, input, p, training)
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return _zeroed(input, inplace)
    depth = 1.7580993408473766  # minus the limit of SELU at minus infinity
    scale = 1 / math.sqrt((depth * depth * p + 1) * (1 - p))
    # Drawn in the order of the input's memory layout, and for channels row by row.
    kept = torch.empty_like(input).bernoulli_(1 - p) if channels is None else _kept_channels(input, p, channels)
    # In torch's order of rounding, and in place, so that integers raise an error.
    shift = kept.add(-1).mul_(depth * scale).add_(depth * scale * p)
    kept.mul_(scale)
    return input.mul_(kept).add_(shift) if inplace else (input * kept).add_(shift)


@overridable
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """In training, dropout that keeps the mean and the variance of the output of SELU.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    >>> torch.nn.functional.alpha_dropout(torch.ones(2), p=1.0, training=True)
    tensor([0., 0.])
    """
    return _alpha_drop(input, p, training, inplace, None)


@overridable
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    >>> torch.nn.functional.feature_alpha_dropout(torch.ones(1, 2), p=1.0, training=True)
    tensor([[0., 0.]])
    """
    return _alpha_drop(input, p, training, inplace, 2)

"""Dropout functions in the namespace of operators, with `train` instead of `training`, and their in-place forms."""

from __future__ import annotations

from rushlight import Tensor
from rushlight._compiled import compiled
from rushlight._set_module import set_module
from rushlight.nn import _dropout


def _check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")


@compiled()
def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout` in place.

    >>> torch.dropout_(torch.ones(2), 1.0, True)
    tensor([0., 0.])
    """
    _check_probability(p)
    return _dropout.dropout(input, p, train, True)


@compiled()
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zeroes whole channels (the first two dimensions) with probability ``p``, and divides the others by ``1 - p``.

    Raises:
        RuntimeError: ``p`` is outside of [0, 1].

    >>> torch.feature_dropout(torch.ones(1, 1, 2), 1.0, True)
    tensor([[[0., 0.]]])
    """
    _check_probability(p)
    return _dropout._drop_whole(input, p, train, False, 2)


@compiled()
def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_dropout` in place.

    >>> torch.feature_dropout_(torch.ones(1, 1, 2), 1.0, True)
    tensor([[[0., 0.]]])
    """
    _check_probability(p)
    return _dropout._drop_whole(input, p, train, True, 2)


@compiled()
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout that keeps the mean and the variance of the output of SELU; `rushlight.nn.AlphaDropout` describes it.

    Raises:
        RuntimeError: ``p`` is outside of [0, 1].

    >>> torch.alpha_dropout(torch.ones(2), 1.0, True)
    tensor([0., 0.])
    """
    _check_probability(p)
    return _dropout.alpha_dropout(input, p, train)


@compiled()
def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout` in place.

    >>> torch.alpha_dropout_(torch.ones(2), 1.0, True)
    tensor([0., 0.])
    """
    _check_probability(p)
    return _dropout.alpha_dropout(input, p, train, True)


@compiled()
def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout` of whole channels.

    >>> torch.feature_alpha_dropout(torch.ones(1, 1, 2), 1.0, True)
    tensor([[[0., 0.]]])
    """
    _check_probability(p)
    return _dropout.feature_alpha_dropout(input, p, train)


@compiled()
def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_alpha_dropout` in place.

    >>> torch.feature_alpha_dropout_(torch.ones(1, 1, 2), 1.0, True)
    tensor([[[0., 0.]]])
    """
    _check_probability(p)
    return _dropout.feature_alpha_dropout(input, p, train, True)


set_module(
    "rushlight",
    dropout_,
    feature_dropout,
    feature_dropout_,
    alpha_dropout,
    alpha_dropout_,
    feature_alpha_dropout,
    feature_alpha_dropout_,
)

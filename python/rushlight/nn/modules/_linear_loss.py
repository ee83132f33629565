"""A loss that contains a linear layer."""

from __future__ import annotations

import math

import rushlight as torch

from .. import functional as F
from .._linear_cross_entropy import LinearCrossEntropyOptions
from ._loss import _WeightedLoss
from .linear import Linear


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer followed by the cross entropy between its scores and the target classes.

    Args:
        in_features: the number of features of each sample.
        num_classes: the number of scores of each sample.
        out_features: further dimensions of the scores, for a loss with several dimensions.
        bias: whether the layer has a bias.
        weight: a weight for each class.
        reduction, ignore_index, label_smoothing: as in `CrossEntropyLoss`.
        options: how to split into chunks, as in `torch.nn.functional.linear_cross_entropy`.

    Shapes: input ``(in_features)`` or ``(N, in_features)``; target ``()`` or ``(N)``, followed by ``out_features``.

    Raises:
        RuntimeError: there is not one weight per class, or ``label_smoothing`` is outside of [0, 1].

    >>> loss = torch.nn.LinearCrossEntropyLoss(3, 4)
    >>> loss(torch.zeros(2, 3), torch.tensor([0, 3]))
    tensor(1.3863, grad_fn=<NllLossBackward0>)
    """

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        reduction: str = "mean",
        weight: torch.Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(in_features, math.prod(out_features, start=num_classes), bias, device, dtype)
        self.options = options

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}"
        )

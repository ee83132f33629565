"""Losses."""

from __future__ import annotations

import warnings

import rushlight as torch

from .. import _reduction
from .. import functional as F
from .module import Module

__all__ = ["CrossEntropyLoss", "L1Loss", "MSELoss", "NLLLoss", "NLLLoss2d"]


class _Loss(Module):
    """What losses share: how the losses of the elements become one number."""

    __constants__ = ["reduction"]
    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = _reduction.legacy_get_string(size_average, reduce)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss with a weight for each class."""

    weight: torch.Tensor | None

    def __init__(
        self,
        weight: torch.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """``|input - target|``, as mean, sum or (``reduction="none"``) element by element.

    Shapes: input and target ``(*)`` alike, of one floating point dtype.

    >>> torch.nn.L1Loss()(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0]))
    tensor(1.5000)
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """``(input - target) ** 2``, as mean, sum or (``reduction="none"``) element by element.

    Shapes: input and target ``(*)`` alike; other shapes broadcast with a warning. Floating point dtypes.

    Raises:
        RuntimeError: shapes that do not broadcast.

    >>> torch.nn.MSELoss()(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0]))
    tensor(2.5000)
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """Minus the log-probability of the right class.

    Args:
        weight: a weight for each class, shape ``(C)``.
        ignore_index: targets of this value add nothing, not even to the mean's denominator.

    Shapes: input ``(C)``, ``(N, C)`` or ``(N, C, d1, ...)`` of log-probabilities, target the same without ``C``, int64.

    Raises:
        IndexError: a target is not a class.

    >>> scores = torch.tensor([[-0.1, -2.4], [-1.2, -0.4]])
    >>> torch.nn.NLLLoss()(scores, torch.tensor([0, 1]))
    tensor(0.2500)
    """

    __constants__ = ["ignore_index", "reduction"]
    ignore_index: int

    def __init__(
        self,
        weight: torch.Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """The old name of `NLLLoss` for images."""

    def __init__(
        self,
        weight: torch.Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement and see "
            "https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """The cross entropy between scores and the right classes or their probabilities.

    Args:
        weight: a weight for each class, shape ``(C)``.
        ignore_index: targets of this value add nothing, not even to the mean's denominator.
        label_smoothing: from 0 to 1, how much of each target is spread evenly over the classes.

    Shapes: input ``(C)``, ``(N, C)`` or ``(N, C, d1, ...)`` of any real scores; target the same without ``C``, int64,
    or the same shape with probabilities.

    Raises:
        IndexError: a target is not a class.
        RuntimeError: ``label_smoothing`` is outside of [0, 1].

    >>> torch.nn.CrossEntropyLoss()(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]
    ignore_index: int
    label_smoothing: float

    def __init__(
        self,
        weight: torch.Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )

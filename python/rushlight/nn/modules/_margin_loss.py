"""Margin losses for scores, pairs and triplets. They are part of `loss`."""

from __future__ import annotations

import rushlight as torch

from .. import functional as F
from ._loss import _Loss, _WeightedLoss
from .distance import PairwiseDistance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class HingeEmbeddingLoss(_Loss):
    """``x`` for similar pairs (target 1), ``max(0, margin - x)`` for others (target -1).

    Shapes: input (a distance) and target have the same shape ``(*)``.

    >>> torch.nn.HingeEmbeddingLoss()(torch.tensor([0.5, 0.25]), torch.tensor([1, -1]))
    tensor(0.6250)
    """

    __constants__ = ["margin", "reduction"]
    margin: float

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class _MarginLoss(_Loss):
    """The base of losses for pairs with a margin, 0 by default."""

    __constants__ = ["margin", "reduction"]
    margin: float

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class CosineEmbeddingLoss(_MarginLoss):
    """``1 - cos`` for similar pairs of vectors (target 1), ``max(0, cos - margin)`` for others (-1).

    Args:
        margin: between -1 and 1.

    Shapes: inputs ``(N, D)`` and target ``(N)``, or ``(D)`` and ``()``.

    Raises:
        RuntimeError: the shapes differ from these.

    >>> left, right = torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0]])
    >>> torch.nn.CosineEmbeddingLoss()(left, right, torch.tensor([1]))
    tensor(0.4000)
    """

    def forward(self, input1: torch.Tensor, input2: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_MarginLoss):
    """``max(0, -target * (x1 - x2) + margin)``, with target 1 if the first should rank higher, and -1 otherwise.

    Shapes: inputs and target are all ``(N)`` or all ``()``.

    Raises:
        RuntimeError: the inputs have different numbers of dimensions.

    >>> torch.nn.MarginRankingLoss()(torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([1]))
    tensor(2.)
    """

    def forward(self, input1: torch.Tensor, input2: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * x))`` with targets 1 and -1.

    Shapes: input and target have the same shape ``(*)``, floating point.

    >>> torch.nn.SoftMarginLoss()(torch.zeros(2), torch.tensor([1.0, -1.0]))
    tensor(0.6931)
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The binary cross entropy for several labels per sample, averaged over the labels.

    Args:
        weight: a weight for each label.

    Shapes: input and target ``(N, C)`` or ``(C)``.

    >>> torch.nn.MultiLabelSoftMarginLoss()(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    __constants__ = ["reduction"]

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Hinge loss for several labels: the amounts by which a target class's score is not 1 above that of another class.

    Shapes: input ``(N, C)`` or ``(C)``; target the same, int64: the target classes, followed by -1.

    >>> torch.nn.MultiLabelMarginLoss()(torch.tensor([0.0, 2.0]), torch.tensor([1, -1]))
    tensor(0.)
    """

    __constants__ = ["reduction"]

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Hinge loss: the amounts by which the target's score is not a margin above the others, averaged over classes.

    Args:
        p: 1 or 2, the power of each amount.
        margin: the margin.
        weight: a weight for each class, shape ``(C)``.

    Shapes: input ``(N, C)`` or ``(C)``, target ``(N)`` or ``()``, int64.

    Raises:
        ValueError: ``p`` is neither 1 nor 2, or the weight is not a vector.

    >>> torch.nn.MultiMarginLoss()(torch.tensor([[0.0, 0.5]]), torch.tensor([1]))
    tensor(0.2500)
    """

    __constants__ = ["p", "margin", "reduction"]
    p: int
    margin: float

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: torch.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")
        self.p = p
        self.margin = margin

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """The margin plus the distance from anchor to positive minus that to negative, at least 0 (Balntas et al. 2016).

    Args:
        margin: the margin, greater than zero.
        p, eps: parameters of the distance, as in `PairwiseDistance`.
        swap: whether to use the distance from positive to negative if it is smaller than that from the anchor.

    Shapes: anchor, positive and negative ``(N, D)`` or ``(D)``.

    Raises:
        ValueError: the margin is not positive.

    >>> anchor = torch.zeros(1, 2)
    >>> torch.nn.TripletMarginLoss(eps=0.0)(anchor, anchor + 1, anchor + 1)
    tensor(1.)
    """

    __constants__ = ["margin", "p", "eps", "swap", "reduction"]
    margin: float
    p: float
    eps: float
    swap: bool

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with any distance function.

    Args:
        distance_function: a function of two tensors; `PairwiseDistance` by default.
        margin: the required difference of the distances, greater than zero.
        swap: whether to use the distance from positive to negative if it is smaller than that from the anchor.

    Raises:
        ValueError: the margin is not positive.

    >>> loss = torch.nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().amax(1))
    >>> loss(torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 2))
    tensor(1.)
    """

    __constants__ = ["margin", "swap", "reduction"]
    margin: float
    swap: bool

    def __init__(
        self,
        *,
        distance_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(None, None, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )

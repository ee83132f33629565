"""Loss functions."""

from __future__ import annotations

import rushlight as torch
from rushlight._set_module import set_public_module
from rushlight._warnings import warn

from .. import functional as F
from ._linear_loss import LinearCrossEntropyLoss
from ._loss import _Loss, _WeightedLoss
from ._margin_loss import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LinearCrossEntropyLoss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]

set_public_module(globals())


class L1Loss(_Loss):
    """``|input - target|``, averaged, summed or (``reduction="none"``) per element.

    Shapes: input and target have the same shape ``(*)`` and the same floating point dtype.

    >>> torch.nn.L1Loss()(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0]))
    tensor(1.5000)
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """``(input - target) ** 2``, averaged, summed or (``reduction="none"``) per element.

    Shapes: input and target have the same shape ``(*)``; other shapes broadcast with a warning. Floating point dtypes.

    Raises:
        RuntimeError: the shapes do not broadcast.

    >>> torch.nn.MSELoss()(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0]))
    tensor(2.5000)
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """The negative log probability of the target class.

    Args:
        weight: a weight for each class, shape ``(C)``.
        ignore_index: targets with this value are ignored, also in the denominator of the mean.

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
    """Deprecated name of `NLLLoss` for images.

    >>> torch.nn.NLLLoss2d()(torch.zeros(1, 2, 1, 1), torch.zeros(1, 1, 1, dtype=torch.int64))
    tensor(0.)
    """

    def __init__(
        self,
        weight: torch.Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement and see "
            "https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details.",
            FutureWarning,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """The cross entropy between scores and target classes or class probabilities.

    Args:
        weight: a weight for each class, shape ``(C)``.
        ignore_index: targets with this value are ignored, also in the denominator of the mean.
        label_smoothing: the share (from 0 to 1) of each target that is distributed evenly over all classes.

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


class BCELoss(_WeightedLoss):
    """The binary cross entropy between probabilities and target probabilities. Logarithms are at least -100.

    Args:
        weight: a weight for each element, of a shape that broadcasts.

    Shapes: input and target have the same shape ``(*)``, from 0 to 1, floating point.

    Raises:
        ValueError: the shapes differ.
        RuntimeError: an input is not between 0 and 1.

    >>> torch.nn.BCELoss()(torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1.0]))
    tensor(0.6931)
    """

    __constants__ = ["reduction"]

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """The binary cross entropy of the sigmoid of scores, computed without overflow.

    Args:
        weight: a weight for each element, of a shape that broadcasts.
        pos_weight: a weight for positive targets, of a shape that broadcasts.

    Shapes: input and target have the same shape ``(*)``, floating point.

    Raises:
        ValueError: the shapes differ.

    >>> torch.nn.BCEWithLogitsLoss()(torch.tensor([0.0, 200.0]), torch.tensor([0.0, 1.0]))
    tensor(0.3466)
    """

    weight: torch.Tensor | None
    pos_weight: torch.Tensor | None

    def __init__(
        self,
        weight: torch.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: torch.Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence between target probabilities and log probabilities.

    Args:
        reduction: ``"batchmean"`` divides the sum by the batch size, as in the definition; ``"mean"``, ``"sum"`` and
            ``"none"`` as in other losses.
        log_target: whether the target contains logarithms.

    Shapes: input and target have the same shape ``(*)``, floating point.

    >>> half = torch.tensor([[0.5, 0.5]])
    >>> torch.nn.KLDivLoss(reduction="batchmean")(half.log(), torch.tensor([[0.25, 0.75]]))
    tensor(0.1308)
    """

    __constants__ = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class SmoothL1Loss(_Loss):
    """The absolute difference, replaced by a square below ``beta`` (Girshick 2015).

    Shapes: input and target have the same shape ``(*)``, floating point.

    Raises:
        RuntimeError: ``beta`` is negative.

    >>> torch.nn.SmoothL1Loss(reduction="none")(torch.tensor([0.5, 3.0]), torch.zeros(2))
    tensor([0.1250, 2.5000])
    """

    __constants__ = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the squared difference, replaced by a straight line above ``delta`` (Huber 1964).

    Shapes: input and target have the same shape ``(*)``, floating point.

    Raises:
        TypeError: ``delta`` is not a number.
        RuntimeError: ``delta`` is not positive.

    >>> torch.nn.HuberLoss(reduction="none", delta=2.0)(torch.tensor([1.0, 3.0]), torch.zeros(2))
    tensor([0.5000, 4.0000])
    """

    __constants__ = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(_Loss):
    """The negative log-likelihood of counts with a Poisson distribution, whose mean (or its logarithm) is the input.

    Args:
        log_input: whether the input contains logarithms.
        full: whether to add Stirling's approximation of the term that does not depend on the input.
        eps: keeps the logarithm of zero finite if ``log_input`` is false.

    Shapes: input and target have the same shape ``(*)``.

    >>> torch.nn.PoissonNLLLoss()(torch.tensor([0.0]), torch.tensor([2.0]))
    tensor(1.)
    """

    __constants__ = ["log_input", "full", "eps", "reduction"]
    log_input: bool
    full: bool
    eps: float

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """The negative log-likelihood of targets with normal distributions of given means and variances.

    Args:
        full: whether to add the constant term.
        eps: the smallest variance.

    Shapes: input and target have the same shape ``(N, *)``. The variance has this shape, or its last dimension is 1 or
    missing.

    Raises:
        ValueError: a variance is negative, or its shape does not match.

    >>> torch.nn.GaussianNLLLoss()(torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([1.0]))
    tensor(2.)
    """

    __constants__ = ["full", "eps", "reduction"]
    full: bool
    eps: float

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: torch.Tensor, target: torch.Tensor, var: torch.Tensor | float) -> torch.Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class CTCLoss(_Loss):
    """Connectionist temporal classification (Graves et al. 2006): aligns label sequences with longer score sequences.

    Args:
        blank: the index of the blank label.
        zero_infinity: whether infinite losses, of targets longer than their inputs, are replaced by zero.

    Shapes: log-probabilities ``(T, N, C)`` or ``(T, C)``; targets ``(N, S)`` or concatenated; lengths of both ``(N)``.

    Raises:
        RuntimeError: the shapes or lengths do not match.

    >>> scores = torch.full((2, 1, 2), 0.5).log()
    >>> torch.nn.CTCLoss()(scores, torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1]))
    tensor(0.2877)
    """

    __constants__ = ["blank", "reduction"]
    blank: int
    zero_infinity: bool

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self,
        log_probs: torch.Tensor,
        targets: torch.Tensor,
        input_lengths: torch.Tensor,
        target_lengths: torch.Tensor,
    ) -> torch.Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )

"""The negative binomial distribution."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from ._probs_logits import ProbsLogits
from .gamma import Gamma
from .utils import lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ProbsLogits):
    """The number of successes, each with probability ``probs``, before ``total_count`` failures.

    Args:
        total_count: the number of failures, non-negative; it need not be an integer.
        probs: the probability of success, in [0, 1). Alternatively:
        logits: its log-odds.

    Raises:
        ValueError: both or neither of ``probs`` and ``logits`` are given, or a value is out of range.

    >>> torch.distributions.NegativeBinomial(3.0, 0.5).mean
    tensor(3.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._take_trials(total_count, probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        batch_shape = torch.Size(batch_shape)
        total = self.total_count.expand(batch_shape)
        return self._expand_into(
            NegativeBinomial, _instance, batch_shape, total_count=total, **self._expanded(batch_shape)
        )

    @property
    def mean(self) -> torch.Tensor:
        return self.total_count * torch.exp(self.logits)

    @property
    def mode(self) -> torch.Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> torch.Tensor:
        return self.mean / torch.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        # A Poisson distribution with a gamma-distributed rate.
        return Gamma(concentration=self.total_count, rate=torch.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        weight = self.total_count * (-self.logits).sigmoid().log() + value * self.logits.sigmoid().log()
        choices = torch.lgamma(self.total_count + value) - torch.lgamma(1.0 + value) - torch.lgamma(self.total_count)
        # The probability of zero successes before zero failures is one.
        choices = choices.masked_fill(self.total_count + value == 0.0, 0.0)
        return weight + choices

"""The binomial distribution."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from ._probs_logits import ProbsLogits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Binomial"]


def _clamp_by_zero(x):
    # The gradient at zero is one half.
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(ProbsLogits):
    """The number of successes in ``total_count`` independent trials, each with probability ``probs``.

    The probability of k is ``C(n, k) * p**k * (1 - p)**(n - k)``; the parameters broadcast.

    Args:
        total_count: the number of trials.
        probs: the probability of success, in [0, 1]. Alternatively:
        logits: its log-odds.

    Raises:
        ValueError: both or neither of ``probs`` and ``logits`` are given, or a value is out of range.

    >>> binomial = torch.distributions.Binomial(4, torch.tensor([0.5, 1.0]))
    >>> binomial.mean, binomial.sample().shape
    (tensor([2., 4.]), torch.Size([2]))
    >>> binomial.log_prob(torch.tensor(4.0)).exp()
    tensor([0.0625, 1.0000])
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._take_trials(total_count, probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        batch_shape = torch.Size(batch_shape)
        total = self.total_count.expand(batch_shape)
        return self._expand_into(Binomial, _instance, batch_shape, total_count=total, **self._expanded(batch_shape))

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> torch.Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> torch.Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> torch.Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        choices = (
            torch.lgamma(self.total_count + 1) - torch.lgamma(value + 1) - torch.lgamma(self.total_count - value + 1)
        )
        # total * log(1 + exp(logits)), computed for either sign of the logits.
        normalizer = self.total_count * _clamp_by_zero(self.logits) + self.total_count * torch.log1p(
            torch.exp(-torch.abs(self.logits))
        )
        return value * self.logits + choices - normalizer

    def entropy(self) -> torch.Tensor:
        total = int(self.total_count.max())
        if not self.total_count.min() == total:
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(torch.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> torch.Tensor:
        total = int(self.total_count.max())
        if not self.total_count.min() == total:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = torch.arange(1 + total, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

"""The relaxed Bernoulli distribution, also in logit space."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from ._probs_logits import ProbsLogits
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ProbsLogits):
    """The logits of a `RelaxedBernoulli`: a logistic distribution with location ``logits / temperature``.

    (Maddison, Mnih, Teh 2017, appendix B.)

    Args:
        temperature: a positive tensor.
        probs: the probability of 1. Alternatively:
        logits: its log-odds.

    Raises:
        ValueError: both or neither of ``probs`` and ``logits`` are given, or a probability is out of range.

    >>> from rushlight.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
    >>> LogitRelaxedBernoulli(torch.tensor(0.5), torch.tensor([0.5])).log_prob(torch.tensor([0.0]))
    tensor([-2.0794])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._refuse_unless_one(probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
        self._param = self.logits if probs is None else self.probs
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        parameters = self._expanded(batch_shape)
        return self._expand_into(
            LogitRelaxedBernoulli, _instance, batch_shape, temperature=self.temperature, **parameters
        )

    def rsample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        drawn = clamp_probs(torch.rand(shape, dtype=probs.dtype, device=probs.device))
        return (drawn.log() - (-drawn).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        gap = logits - value.mul(self.temperature)
        return self.temperature.log() + gap - 2 * gap.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between zero and one that approach a `Bernoulli` distribution as the temperature decreases.

    (Maddison, Mnih, Teh 2017; Jang, Gu, Poole 2017.)

    Args:
        temperature: a positive tensor.
        probs: the probability of 1. Alternatively:
        logits: its log-odds.

    Raises:
        ValueError: both or neither of ``probs`` and ``logits`` are given, or a probability is out of range.

    >>> relaxed = torch.distributions.RelaxedBernoulli(torch.tensor(0.1), torch.tensor([0.25, 0.5]))
    >>> relaxed.sample((3,)).shape, relaxed.log_prob(torch.tensor(0.5))
    (torch.Size([3, 2]), tensor([-2.5903, -2.3026]))
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return super().expand(batch_shape, _instance=self._get_checked_instance(RelaxedBernoulli, _instance))

    @property
    def temperature(self) -> torch.Tensor:
        """The temperature: at low values, samples are near zero and one."""
        return self.base_dist.temperature

    @property
    def logits(self) -> torch.Tensor:
        """The log-odds of 1."""
        return self.base_dist.logits

    @property
    def probs(self) -> torch.Tensor:
        """The probabilities of 1."""
        return self.base_dist.probs

"""The relaxed one-hot categorical distribution, also in log space."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(Distribution):
    """The logarithms of a `RelaxedOneHotCategorical`, which do not underflow (Maddison, Mnih, Teh 2017, appendix C.3).

    Args:
        temperature: a positive tensor.
        probs: weights along the last dimension, which need not sum to one. Alternatively:
        logits: their logarithms.

    Raises:
        ValueError: both or neither of ``probs`` and ``logits`` are given, or a weight is negative.

    >>> from rushlight.distributions.relaxed_categorical import ExpRelaxedCategorical
    >>> shares = ExpRelaxedCategorical(torch.tensor(0.5), torch.ones(3)).sample().exp()
    >>> torch.allclose(shares.sum(), torch.tensor(1.0))
    True
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    # The support, for which torch only requires real numbers.
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return self._expand_into(
            ExpRelaxedCategorical,
            _instance,
            batch_shape,
            self.event_shape,
            temperature=self.temperature,
            _categorical=self._categorical.expand(torch.Size(batch_shape)),
        )

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    @property
    def param_shape(self) -> torch.Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def logits(self) -> torch.Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> torch.Tensor:
        """The probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        drawn = clamp_probs(torch.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        gumbels = -((-(drawn.log())).log())
        scores = (self.logits + gumbels) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        scale = torch.full_like(self.temperature, float(n)).lgamma() - self.temperature.log().mul(-(n - 1))
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Differentiable vectors that approach one-hot vectors as the temperature decreases.

    Also called the Concrete, or Gumbel-softmax, distribution (Maddison, Mnih, Teh 2017; Jang, Gu, Poole 2017).

    Args:
        temperature: a positive tensor.
        probs: weights along the last dimension, which need not sum to one. Alternatively:
        logits: their logarithms.

    Raises:
        ValueError: both or neither of ``probs`` and ``logits`` are given, or a weight is negative.

    >>> relaxed = torch.distributions.RelaxedOneHotCategorical(torch.tensor(0.5), torch.tensor([1.0, 2.0, 1.0]))
    >>> relaxed.sample((3,)).shape, relaxed.log_prob(torch.tensor([0.25, 0.5, 0.25]))
    (torch.Size([3, 3]), tensor(-0.5647))
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return super().expand(batch_shape, _instance=self._get_checked_instance(RelaxedOneHotCategorical, _instance))

    @property
    def temperature(self) -> torch.Tensor:
        """The temperature: at low values, samples are near zero and one."""
        return self.base_dist.temperature

    @property
    def logits(self) -> torch.Tensor:
        """The logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> torch.Tensor:
        """The probabilities."""
        return self.base_dist.probs

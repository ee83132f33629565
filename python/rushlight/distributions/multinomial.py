"""The multinomial distribution."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution
from .utils import broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """The counts of each of several outcomes in ``total_count`` draws.

    Args:
        total_count: the number of draws, an integer.
        probs: weights of the outcomes along the last dimension, which need not sum to one; or
        logits: their logarithms.

    Raises:
        ValueError: both or neither of ``probs`` and ``logits`` are given, or a weight is negative.
        NotImplementedError: ``total_count`` is not an integer.

    >>> counts = torch.distributions.Multinomial(5, torch.tensor([1.0, 1.0, 2.0]))
    >>> counts.mean, counts.sample().sum()
    (tensor([1.2500, 1.2500, 2.5000]), tensor(5.))
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> torch.Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> torch.Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        batch_shape = torch.Size(batch_shape)
        return self._expand_into(
            Multinomial,
            _instance,
            batch_shape,
            self.event_shape,
            total_count=self.total_count,
            _categorical=self._categorical.expand(batch_shape),
            _binomial=self._binomial.expand(batch_shape + self.event_shape),
        )

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    @property
    def logits(self) -> torch.Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> torch.Tensor:
        """The probabilities of the outcomes."""
        return self._categorical.probs

    @property
    def param_shape(self) -> torch.Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        drawn = self._categorical.sample(torch.Size((self.total_count, *sample_shape)))
        drawn = drawn.permute(*range(1, drawn.dim()), 0)
        counts = drawn.new_zeros(self._extended_shape(sample_shape))
        counts.scatter_add_(-1, drawn, torch.ones_like(drawn))
        return counts.type_as(self.probs)

    def entropy(self) -> torch.Tensor:
        n = torch.tensor(self.total_count)
        entropy = n * self._categorical.entropy() - torch.lgamma(n + 1)
        values = self._binomial.enumerate_support(expand=False)[1:]
        weighted = torch.exp(self._binomial.log_prob(values)) * torch.lgamma(values + 1)
        return entropy + weighted.sum([0, -1])

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.clone(memory_format=torch.contiguous_format)
        choices = torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1)
        logits[(value == 0) & (logits == -torch.inf)] = 0
        return choices + (logits * value).sum(-1)

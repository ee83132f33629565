"""The categorical distribution with one-hot vectors as samples."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from .categorical import Categorical
from .distribution import Distribution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(Distribution):
    """One-hot vectors, with the index drawn from a `Categorical` distribution.

    Args:
        probs: weights along the last dimension, which need not sum to one. Alternatively:
        logits: their logarithms.

    Raises:
        ValueError: both or neither of ``probs`` and ``logits`` are given, or a weight is negative.

    >>> torch.distributions.OneHotCategorical(torch.tensor([0.0, 1.0, 0.0])).sample()
    tensor([0., 1., 0.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        drawn = self._categorical.expand(torch.Size(batch_shape))
        return self._expand_into(OneHotCategorical, _instance, batch_shape, self.event_shape, _categorical=drawn)

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    @property
    def _param(self):
        return self._categorical._param

    @property
    def probs(self) -> torch.Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> torch.Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def mean(self) -> torch.Tensor:
        return self._categorical.probs

    @property
    def mode(self) -> torch.Tensor:
        return torch.nn.functional.one_hot(self.probs.argmax(dim=-1), self.probs.shape[-1]).to(self.probs)

    @property
    def variance(self) -> torch.Tensor:
        return self._categorical.probs * (1 - self._categorical.probs)

    @property
    def param_shape(self) -> torch.Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        places = self._categorical.sample(torch.Size(sample_shape))
        return torch.nn.functional.one_hot(places, self._categorical._num_events).to(self.probs)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> torch.Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> torch.Tensor:
        n = self.event_shape[0]
        values = torch.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` with straight-through gradients from samples to probabilities (Bengio, Leonard, Courville
    2013).

    >>> probs = torch.tensor([0.0, 1.0], requires_grad=True)
    >>> draw = torch.distributions.OneHotCategoricalStraightThrough(probs, validate_args=False).rsample()
    >>> draw.detach(), draw.requires_grad
    (tensor([0., 1.]), True)
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        probs = self._categorical.probs
        return self.sample(sample_shape) + (probs - probs.detach())

"""A mixture of distributions of one family."""

from __future__ import annotations

from typing import Any

import rushlight as torch

from . import constraints
from .categorical import Categorical
from .constraints import MixtureSameFamilyConstraint
from .distribution import Distribution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture: each sample comes from one of the distributions along the last batch dimension.

    >>> mixed = torch.distributions.MixtureSameFamily(
    ...     torch.distributions.Categorical(torch.ones(2)), torch.distributions.Normal(torch.tensor([-1.0, 1.0]), 1.0)
    ... )
    >>> mixed.mean
    tensor(0.)
    """

    arg_constraints: Any = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        weights, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for left, right in zip(reversed(weights), reversed(batch)):
            if left != 1 and right != 1 and left != right:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({weights}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        count, components = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if count is not None and components is not None and count != components:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component = components
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(batch, event, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        batch_shape = torch.Size(batch_shape)
        component = self._component_distribution.expand((*batch_shape, self._num_component))
        return self._expand_into(
            MixtureSameFamily,
            _instance,
            batch_shape,
            component.event_shape,
            _component_distribution=component,
            _mixture_distribution=self._mixture_distribution.expand(batch_shape),
            _num_component=self._num_component,
            _event_ndims=len(component.event_shape),
        )

    @constraints.dependent_property
    def support(self):
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The categorical distribution of the components."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The component distributions."""
        return self._component_distribution

    @property
    def mean(self) -> torch.Tensor:
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return torch.sum(probs * self.component_distribution.mean, dim=-1 - self._event_ndims)

    @property
    def variance(self) -> torch.Tensor:
        # The mean of the variances plus the variance of the means.
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        inside = torch.sum(probs * self.component_distribution.variance, dim=-1 - self._event_ndims)
        gaps = self.component_distribution.mean - self._pad(self.mean)
        return inside + torch.sum(probs * gaps.pow(2.0), dim=-1 - self._event_ndims)

    def cdf(self, x):
        return torch.sum(self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, x):
        if self._validate_args:
            self._validate_sample(x)
        inside = self.component_distribution.log_prob(self._pad(x))
        choice = torch.log_softmax(self.mixture_distribution.logits, dim=-1)
        return torch.logsumexp(inside + choice, dim=-1)

    def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        with torch.no_grad():
            place = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            candidates = self.component_distribution.sample(sample_shape)
            chosen = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            chosen = chosen.expand((*candidates.shape[:place], 1, *self.event_shape))
            return torch.gather(candidates, place, chosen).squeeze(place)

    def _pad(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x):
        weights = len(self.mixture_distribution.batch_shape)
        missing = 0 if weights == 0 else len(self.batch_shape) - weights
        shape = x.shape
        return x.reshape(shape[:-1] + (1,) * missing + shape[-1:] + (1,) * self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"

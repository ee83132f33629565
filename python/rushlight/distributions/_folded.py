"""The base of distributions that are absolute values of a symmetric distribution around zero."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .distribution import Distribution


class Folded(TransformedDistribution):
    """The absolute values of ``base``, which has a ``scale``, is symmetric around zero and has its peak there."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Any

    def __init__(self, base: Distribution, validate_args: bool | None) -> None:
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> torch.Tensor:
        """The scale of the signed values."""
        return self.base_dist.scale

    @property
    def mode(self) -> torch.Tensor:
        return torch.zeros_like(self.scale)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._log_density(value)

    def _log_density(self, value: torch.Tensor) -> torch.Tensor:
        return torch.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -torch.inf)

    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: torch.Tensor) -> torch.Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> torch.Tensor:
        return self.base_dist.entropy() - math.log(2)

"""The generalized Pareto distribution."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Models the tail of many distributions above a threshold ``loc`` (Pickands 1975).

    With ``z = (x - loc) / scale`` and the concentration k, the probability of more than x is ``(1 + k * z)**(-1 / k)``,
    or ``exp(-z)`` if k is zero. For negative k there are no values above ``loc - scale / k``.

    Args:
        loc: the threshold; a number or a tensor.
        scale: positive.
        concentration: the weight of the tail, of either sign; the three broadcast.

    Raises:
        ValueError: ``scale`` is not positive, or in `log_prob` a value is outside of the support.

    >>> tail = torch.distributions.GeneralizedPareto(0.0, 1.0, torch.tensor([0.0, 0.25]))
    >>> tail.mean, tail.cdf(torch.tensor(1.0)), tail.sample((3,)).shape
    (tensor([1.0000, 1.3333]), tensor([0.6321, 0.5904]), torch.Size([3, 2]))
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return self._expand_each(GeneralizedPareto, _instance, batch_shape, *self.arg_constraints)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = torch.where(self.concentration < 0, self.loc - self.scale / self.concentration, torch.inf)
        return constraints.interval(self.loc, end)

    def _tail(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Where the concentration is treated as zero, and the concentration with ones there to avoid division by zero."""
        zero = torch.isclose(self.concentration, torch.zeros_like(self.concentration))
        return zero, torch.where(zero, torch.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, tail = self._tail()
        power = 1 / tail + torch.ones_like(z)
        # Any base to the power of zero is one.
        falls = torch.where(power == 0, power, power * torch.log1p(tail * z))
        return -self.scale.log() - torch.where(zero, z, falls)

    def log_survival_function(self, value: torch.Tensor) -> torch.Tensor:
        """The logarithm of the survival function."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, tail = self._tail()
        return torch.where(zero, -z, -torch.log1p(tail * z) / tail)

    def log_cdf(self, value: torch.Tensor) -> torch.Tensor:
        """The logarithm of `cdf`."""
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        return torch.exp(self.log_cdf(value))

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        zero, tail = self._tail()
        above = torch.log1p(-value)
        return torch.where(
            zero, self.loc - self.scale * above, self.loc + self.scale / tail * torch.expm1(-tail * above)
        )

    @property
    def mean(self) -> torch.Tensor:
        """The mean. NaN if the concentration is one or more."""
        finite = self.concentration < 1
        tail = torch.where(finite, self.concentration, 0.5)
        return torch.where(finite, self.loc + self.scale / (1 - tail), torch.nan)

    @property
    def mode(self) -> torch.Tensor:
        return self.loc

    @property
    def variance(self) -> torch.Tensor:
        """The variance. NaN if the concentration is one half or more."""
        finite = self.concentration < 0.5
        tail = torch.where(finite, self.concentration, 0.25)
        return torch.where(finite, self.scale**2 / ((1 - tail) ** 2 * (1 - 2 * tail)), torch.nan)

    def entropy(self) -> torch.Tensor:
        return torch.log(self.scale) + self.concentration + 1

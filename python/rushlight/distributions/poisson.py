"""The Poisson distribution."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """The number of events if ``rate`` events occur on average: ``rate**k * exp(-rate) / k!``.

    Args:
        rate: a non-negative number or tensor.

    Raises:
        ValueError: ``rate`` is negative.

    >>> poisson = torch.distributions.Poisson(torch.tensor([1.0, 4.0]))
    >>> poisson.variance, poisson.log_prob(torch.tensor(0.0))
    (tensor([1., 4.]), tensor([-1., -4.]))
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> torch.Tensor:
        return self.rate

    @property
    def mode(self) -> torch.Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> torch.Tensor:
        return self.rate

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return self._expand_each(Poisson, _instance, batch_shape, "rate")

    def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        with torch.no_grad():
            return torch.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (torch.log(self.rate),)

    def _log_normalizer(self, x):
        return torch.exp(x)

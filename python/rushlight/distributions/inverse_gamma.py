"""The inverse gamma distribution."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """The reciprocals of a `Gamma` distribution with shape ``concentration`` (a) and inverse scale ``rate`` (b).

    Its density is ``b**a * x**(-a - 1) * exp(-b / x) / gamma(a)`` (Johnson, Kotz, Balakrishnan 1994, chapter 17);
    samples are differentiable with respect to both parameters.

    Args:
        concentration, rate: positive numbers or tensors that broadcast.

    Raises:
        ValueError: a parameter is not positive.

    >>> inverse = torch.distributions.InverseGamma(torch.tensor([1.0, 3.0]), 4.0)
    >>> inverse.mean, inverse.sample((3,)).shape
    (tensor([inf, 2.]), torch.Size([3, 2]))
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return super().expand(batch_shape, _instance=self._get_checked_instance(InverseGamma, _instance))

    @property
    def concentration(self) -> torch.Tensor:
        """The shape parameter a."""
        return self.base_dist.concentration

    @property
    def rate(self) -> torch.Tensor:
        """The inverse scale parameter b."""
        return self.base_dist.rate

    @property
    def mean(self) -> torch.Tensor:
        return torch.where(self.concentration > 1, self.rate / (self.concentration - 1), torch.inf)

    @property
    def mode(self) -> torch.Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> torch.Tensor:
        finite = self.rate.square() / ((self.concentration - 1).square() * (self.concentration - 2))
        return torch.where(self.concentration > 2, finite, torch.inf)

    def entropy(self) -> torch.Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()

"""The Kumaraswamy distribution."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """Numbers between zero and one, similar to `Beta`, with a cumulative distribution function in closed form.

    With the parameters a and b it is ``1 - (1 - x**a)**b`` (Kumaraswamy 1980; moments and entropy: Jones 2009); samples
    are differentiable with respect to both parameters.

    Args:
        concentration1, concentration0: positive numbers or tensors that broadcast.

    Raises:
        ValueError: a parameter is not positive.

    >>> kumaraswamy = torch.distributions.Kumaraswamy(torch.tensor([1.0, 2.0]), 2.0)
    >>> kumaraswamy.mean, kumaraswamy.sample((3,)).shape
    (tensor([0.3333, 0.5333]), torch.Size([3, 2]))
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        ends = torch.full_like(self.concentration0, 0), torch.full_like(self.concentration0, 1)
        transforms = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(Uniform(*ends, validate_args=validate_args), transforms, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        new = self._get_checked_instance(Kumaraswamy, _instance)
        new.concentration1 = self.concentration1.expand(batch_shape)
        new.concentration0 = self.concentration0.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def _moment(self, n: int) -> torch.Tensor:
        """The n-th moment: ``b * beta(1 + n / a, b)``."""
        first = 1 + n / self.concentration1
        second = self.concentration0
        return second * torch.exp(torch.lgamma(first) + torch.lgamma(second) - torch.lgamma(first + second))

    @property
    def mean(self) -> torch.Tensor:
        return self._moment(1)

    @property
    def mode(self) -> torch.Tensor:
        """The mode. NaN if the density has no peak inside the interval."""
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        log_mode[(b < 1) | (a < 1)] = torch.nan
        return log_mode.exp()

    @property
    def variance(self) -> torch.Tensor:
        return self._moment(2) - torch.pow(self.mean, 2)

    def entropy(self) -> torch.Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = torch.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - torch.log(a) - torch.log(b)

"""The Weibull distribution."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """Lifetimes: ``scale * e**(1 / concentration)`` with e from the exponential distribution of rate one.

    With ``z = x / scale`` and the concentration k its density is ``k / scale * z**(k - 1) * exp(-z**k)`` (Weibull
    1951); samples are differentiable with respect to both parameters.

    Args:
        scale: the scale of the values, positive; a number or a tensor.
        concentration: the exponent k, positive; it broadcasts with ``scale``.

    Raises:
        ValueError: a parameter is not positive.

    >>> weibull = torch.distributions.Weibull(torch.tensor([1.0, 2.0]), 2.0)
    >>> weibull.mean, weibull.sample((3,)).shape
    (tensor([0.8862, 1.7725]), torch.Size([3, 2]))
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(torch.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, self._steps(), validate_args=validate_args)

    def _steps(self) -> list[Any]:
        self.concentration_reciprocal = self.concentration.reciprocal()
        return [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        new = self._get_checked_instance(Weibull, _instance)
        new.scale, new.concentration = self.scale.expand(batch_shape), self.concentration.expand(batch_shape)
        new = super().expand(batch_shape, _instance=new)
        new.transforms = new._steps()
        return new

    @property
    def mean(self) -> torch.Tensor:
        return self.scale * torch.exp(torch.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> torch.Tensor:
        below = (self.concentration - 1) / self.concentration
        return self.scale * below ** self.concentration.reciprocal()

    @property
    def variance(self) -> torch.Tensor:
        square = torch.exp(torch.lgamma(1 + 2 * self.concentration_reciprocal))
        mean = torch.exp(2 * torch.lgamma(1 + self.concentration_reciprocal))
        return self.scale.pow(2) * (square - mean)

    def entropy(self) -> torch.Tensor:
        spread = torch.log(self.scale * self.concentration_reciprocal)
        return euler_constant * (1 - self.concentration_reciprocal) + spread + 1

"""The Gumbel distribution."""

from __future__ import annotations

import math

import rushlight as torch

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The limit of the maximum of many numbers: ``loc - scale * log(-log(u))`` with u uniform between zero and one.

    With ``z = (x - loc) / scale`` its density is ``exp(-z - exp(-z)) / scale`` (Gumbel 1958); samples carry gradients
    to both parameters.

    Args:
        loc: the location of the peak; a number or a tensor.
        scale: positive; it broadcasts with ``loc``.

    Raises:
        ValueError: ``scale`` is not positive.

    >>> gumbel = torch.distributions.Gumbel(torch.tensor([0.0, 1.0]), 2.0)
    >>> gumbel.mean, gumbel.sample((3,)).shape
    (tensor([1.1544, 2.1544]), torch.Size([3, 2]))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        # The ends of the interval are excluded, because their logarithms are infinite.
        limits = torch.finfo(self.loc.dtype)
        low, high = torch.full_like(self.loc, limits.tiny), torch.full_like(self.loc, 1 - limits.eps)
        transforms = [
            ExpTransform().inv,
            AffineTransform(0, -torch.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(self.loc, -self.scale),
        ]
        super().__init__(Uniform(low, high, validate_args=validate_args), transforms, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc, new.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mean(self) -> torch.Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> torch.Tensor:
        return self.loc

    @property
    def stddev(self) -> torch.Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> torch.Tensor:
        return self.stddev.pow(2)

    def entropy(self) -> torch.Tensor:
        return self.scale.log() + (1 + euler_constant)

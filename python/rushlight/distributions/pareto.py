"""The Pareto distribution."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """The Pareto distribution of type I, for values x of at least ``scale``.

    Its density is ``alpha * scale**alpha / x**(alpha + 1)`` (Arnold 1983); samples are differentiable with respect to both
    parameters.

    Args:
        scale: the smallest value, positive; a number or a tensor.
        alpha: the exponent of the tail, positive; it broadcasts with ``scale``.

    Raises:
        ValueError: a parameter is not positive, or in `log_prob` a value is less than ``scale``.

    >>> pareto = torch.distributions.Pareto(torch.tensor([1.0, 2.0]), 3.0)
    >>> pareto.mean, pareto.sample((3,)).shape
    (tensor([1.5000, 3.0000]), torch.Size([3, 2]))
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        new = self._get_checked_instance(Pareto, _instance)
        new.scale, new.alpha = self.scale.expand(batch_shape), self.alpha.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> torch.Tensor:
        a = self.alpha.clamp(min=1)  # infinite for alpha <= 1
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> torch.Tensor:
        return self.scale

    @property
    def variance(self) -> torch.Tensor:
        a = self.alpha.clamp(min=2)  # infinite for alpha <= 2
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> torch.Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())

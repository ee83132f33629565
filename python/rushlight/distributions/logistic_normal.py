"""The logistic-normal distribution."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from .independent import Independent
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Positive numbers that sum to one: a normal distribution transformed by `StickBreakingTransform`.

    n parameters along the last dimension give samples of n + 1 numbers (Aitchison, Shen 1980).

    Args:
        loc: the means before the transform, (.., n); a number is treated as one element.
        scale: their standard deviations, positive; it broadcasts with ``loc``.

    Raises:
        ValueError: ``scale`` is not positive.

    >>> shares = torch.distributions.LogisticNormal(torch.zeros(3), 1.0)
    >>> shares.sample((2,)).shape, shares.event_shape
    (torch.Size([2, 4]), torch.Size([4]))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Independent

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        base = base if base.batch_shape else base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return super().expand(batch_shape, _instance=self._get_checked_instance(LogisticNormal, _instance))

    @property
    def loc(self) -> torch.Tensor:
        """The means before the transform."""
        return self.base_dist.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> torch.Tensor:
        """The standard deviations before the transform."""
        return self.base_dist.base_dist.scale  # type: ignore[attr-defined]

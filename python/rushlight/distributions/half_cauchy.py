"""The half-Cauchy distribution."""

from __future__ import annotations

import rushlight as torch

from ._folded import Folded
from .cauchy import Cauchy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["HalfCauchy"]


class HalfCauchy(Folded):
    """The absolute values of a `Cauchy` distribution around zero, used as a prior for scales (Gelman 2006).

    Its density is ``2 / (pi * scale * (1 + (x / scale)**2))`` for non-negative x; mean and variance are infinite.

    Args:
        scale: the median, positive; a number or a tensor.

    Raises:
        ValueError: ``scale`` is not positive, or in `log_prob` a value is negative.

    >>> half = torch.distributions.HalfCauchy(torch.tensor([1.0, 2.0]))
    >>> half.cdf(torch.tensor(1.0)), half.sample((3,)).shape
    (tensor([0.5000, 0.2952]), torch.Size([3, 2]))
    """

    base_dist: Cauchy

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return super().expand(batch_shape, _instance=self._get_checked_instance(HalfCauchy, _instance))

    @property
    def mean(self) -> torch.Tensor:
        return torch.full(self._extended_shape(), torch.inf, dtype=self.scale.dtype, device=self.scale.device)

    @property
    def variance(self) -> torch.Tensor:
        return self.base_dist.variance

    def _log_density(self, value: torch.Tensor) -> torch.Tensor:
        return super()._log_density(torch.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device))

"""The Cauchy distribution."""

from __future__ import annotations

import math

import rushlight as torch

from ._location_scale import _LocationScale

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Cauchy"]


class Cauchy(_LocationScale):
    """The Cauchy (Lorentz) distribution with median ``loc`` and half width ``scale`` at half maximum.

    Its density is ``1 / (pi * scale * (1 + ((x - loc) / scale)**2))`` (Johnson, Kotz, Balakrishnan 1994, chapter 16);
    the mean does not exist, and the variance is infinite.

    Args:
        loc: the median; a number or a tensor.
        scale: the half width at half maximum, positive; it broadcasts with ``loc``.

    Raises:
        ValueError: ``scale`` is not positive.

    >>> cauchy = torch.distributions.Cauchy(torch.tensor([0.0, 1.0]), 2.0)
    >>> cauchy.cdf(torch.tensor(1.0)), cauchy.sample((3,)).shape
    (tensor([0.6476, 0.5000]), torch.Size([3, 2]))
    """

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return self._expand_each(Cauchy, _instance, batch_shape, "loc", "scale")

    @property
    def mean(self) -> torch.Tensor:
        """NaN, because the mean does not exist."""
        return torch.full(self._extended_shape(), torch.nan, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def variance(self) -> torch.Tensor:
        return torch.full(self._extended_shape(), torch.inf, dtype=self.loc.dtype, device=self.loc.device)

    def rsample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        drawn = self.loc.new(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + drawn * self.scale

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return torch.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> torch.Tensor:
        return math.log(4 * math.pi) + self.scale.log()

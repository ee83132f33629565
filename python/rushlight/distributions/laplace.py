"""The Laplace distribution."""

from __future__ import annotations

import rushlight as torch

from ._location_scale import _LocationScale

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


__all__ = ["Laplace"]


class Laplace(_LocationScale):
    """The Laplace (double exponential) distribution, with density ``exp(-|x - loc| / scale) / (2 * scale)``.

    Args:
        loc: the mean; a number or a tensor.
        scale: the mean distance from ``loc``, positive; it broadcasts with ``loc``.

    Raises:
        ValueError: ``scale`` is not positive.

    >>> laplace = torch.distributions.Laplace(0.0, 1.0)
    >>> laplace.log_prob(torch.tensor(0.0)), laplace.cdf(torch.tensor(0.0))
    (tensor(-0.6931), tensor(0.5000))
    """

    @property
    def variance(self) -> torch.Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> torch.Tensor:
        return (2**0.5) * self.scale

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return self._expand_each(Laplace, _instance, batch_shape, "loc", "scale")

    def rsample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        # Slightly above -1, so that the logarithm is finite.
        drawn = self.loc.new(shape).uniform_(torch.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * drawn.sign() * torch.log1p(-drawn.abs())

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -torch.log(2 * self.scale) - torch.abs(value - self.loc) / self.scale

    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        gap = value - self.loc
        return 0.5 - 0.5 * gap.sign() * torch.expm1(-gap.abs() / self.scale)

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * torch.log1p(-2 * term.abs())

    def entropy(self) -> torch.Tensor:
        return 1 + torch.log(2 * self.scale)

"""The normal distribution."""

from __future__ import annotations

import math

import rushlight as torch

from ._location_scale import _LocationScale
from .exp_family import ExponentialFamily
from .utils import _standard_normal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


__all__ = ["Normal"]


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution with mean ``loc`` and standard deviation ``scale``.

    Its density is ``exp(-((x - loc) / scale)**2 / 2) / (scale * sqrt(2 * pi))``; samples are differentiable with
    respect to both parameters.

    Args:
        loc: the mean; a number or a tensor.
        scale: the standard deviation, positive; it broadcasts with ``loc``.

    Raises:
        ValueError: ``scale`` is not positive.

    >>> normal = torch.distributions.Normal(torch.tensor([0.0, 1.0]), 1.0)
    >>> normal.log_prob(torch.tensor(0.0)), normal.sample((3,)).shape
    (tensor([-0.9189, -1.4189]), torch.Size([3, 2]))
    """

    _mean_carrier_measure = 0

    @property
    def stddev(self) -> torch.Tensor:
        return self.scale

    @property
    def variance(self) -> torch.Tensor:
        return self.stddev.pow(2)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return self._expand_each(Normal, _instance, batch_shape, "loc", "scale")

    def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + _standard_normal(shape, self.loc.dtype, self.loc.device) * self.scale

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.variance) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + torch.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> torch.Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + torch.log(self.scale)

    @property
    def _natural_params(self):
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x, y):
        return -0.25 * x.pow(2) / y + 0.5 * torch.log(-math.pi / y)

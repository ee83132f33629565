"""The von Mises distribution of angles."""

from __future__ import annotations

import math

import rushlight as torch

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self

__all__ = ["VonMises"]

# Polynomial coefficients for the modified Bessel functions of orders 0 and 1, lowest power first (Abramowitz, Stegun
# 1964, 9.8.1 to 9.8.4): in (x / 3.75)**2 up to x = 3.75; above, in 3.75 / x for the function times sqrt(x) * exp(-x).
_BELOW = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3),
)
_ABOVE = (
    (
        0.39894228,
        0.1328592e-1,
        0.225319e-2,
        -0.157565e-2,
        0.916281e-2,
        -0.2057706e-1,
        0.2635537e-1,
        -0.1647633e-1,
        0.392377e-2,
    ),
    (
        0.39894228,
        -0.3988024e-1,
        -0.362018e-2,
        0.163801e-2,
        -0.1031555e-1,
        0.2282967e-1,
        -0.2895312e-1,
        0.1787654e-1,
        -0.420059e-2,
    ),
)


def _polynomial(y: torch.Tensor, coefficients: Sequence[float]) -> Any:
    result: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = coefficient + y * result
    return result


def _log_modified_bessel_fn(x: torch.Tensor, order: int = 0) -> torch.Tensor:
    """The logarithm of the modified Bessel function of the first kind of order 0 or 1, for positive x."""
    y = x / 3.75
    below = _polynomial(y * y, _BELOW[order])
    if order == 1:
        below = x.abs() * below
    above = x - 0.5 * x.log() + _polynomial(3.75 / x, _ABOVE[order]).log()
    return torch.where(x < 3.75, below.log(), above)


class VonMises(Distribution):
    """Angles in radians around ``loc``: the analogue of a normal distribution on the circle.

    Its density is ``exp(concentration * cos(x - loc)) / (2 * pi * I0(concentration))`` with the modified Bessel function
    I0 (Mardia, Jupp 2000); samples are between -pi and pi, by rejection sampling (Best, Fisher 1979).

    Args:
        loc: an angle in radians; a number or a tensor.
        concentration: positive; it broadcasts with ``loc``.

    Raises:
        ValueError: ``concentration`` is not positive.

    >>> angles = torch.distributions.VonMises(torch.tensor([0.0, 1.0]), 4.0)
    >>> angles.variance, angles.sample((3,)).shape
    (tensor([0.1365, 0.1365]), torch.Size([3, 2]))
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.size(), torch.Size(), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return self._expand_each(VonMises, _instance, batch_shape, *self.arg_constraints)

    @property
    def mean(self) -> torch.Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> torch.Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> torch.Tensor:
        """The circular variance: one minus the norm of the mean of the unit vectors."""
        order0, order1 = (_log_modified_bessel_fn(self.concentration, order) for order in (0, 1))
        return 1 - (order1 - order0).exp()

    @lazy_property
    def _proposal(self) -> torch.Tensor:
        """The parameter of the wrapped Cauchy distribution that proposes samples."""
        kappa = self.concentration.double()
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        # The first terms of the Taylor series, where the difference would cancel.
        return torch.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        loc, kappa, width = self.loc.double(), self.concentration.double(), self._proposal
        angles = torch.zeros(shape, dtype=loc.dtype, device=loc.device)
        done = torch.zeros(shape, dtype=torch.bool, device=loc.device)
        while not done.all():
            first, second, third = torch.rand((3, *shape), dtype=loc.dtype, device=loc.device).unbind()
            z = torch.cos(math.pi * first)
            cosine = (1 + width * z) / (width + z)
            gap = kappa * (width - cosine)
            accepted = (gap * (2 - gap) - second > 0) | ((gap / second).log() + 1 - gap >= 0)
            angles = torch.where(accepted, (third - 0.5).sign() * cosine.acos(), angles)
            done = done | accepted
        return ((angles + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        norm = _log_modified_bessel_fn(self.concentration, order=0)
        return self.concentration * torch.cos(value - self.loc) - math.log(2 * math.pi) - norm

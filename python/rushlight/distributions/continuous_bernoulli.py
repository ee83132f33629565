"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math

import rushlight as torch

from . import constraints
from ._probs_logits import ProbsLogits
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ProbsLogits, ExponentialFamily):
    """Numbers between zero and one with a density proportional to ``probs**x * (1 - probs)**(1 - x)``.

    It models, for example, the pixels of an autoencoder (Loaiza-Ganem, Cunningham 2019, with these formulas). Near
    ``probs`` of one half the formulas would divide by zero; between ``lims`` their Taylor series are used.

    Args:
        probs: the parameter, in [0, 1]. Alternatively:
        logits: its log-odds.
        lims: the interval in which the Taylor series are used.

    Raises:
        ValueError: both or neither of ``probs`` and ``logits`` are given, or a value is out of range.

    >>> pixels = torch.distributions.ContinuousBernoulli(torch.tensor([0.25, 0.5]))
    >>> pixels.mean, pixels.sample((3,)).shape
    (tensor([0.4102, 0.5000]), torch.Size([3, 2]))
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._refuse_unless_one(probs, logits)
        if probs is not None:
            (given,) = broadcast_all(probs)
            if validate_args is not None and not self.arg_constraints["probs"].check(given).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(given)
        else:
            (self.logits,) = broadcast_all(logits)
        self._param = self.logits if probs is None else self.probs
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        parameters = self._expanded(batch_shape)
        return self._expand_into(ContinuousBernoulli, _instance, batch_shape, _lims=self._lims, **parameters)

    @lazy_property
    def probs(self) -> torch.Tensor:
        """The parameter ``probs``."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _cut(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Where the exact formulas apply, and ``probs`` with the lower limit elsewhere."""
        low, high = self._lims
        holds = (self.probs <= low) | (self.probs > high)
        return holds, torch.where(holds, self.probs, low * torch.ones_like(self.probs))

    def _cont_bern_log_norm(self) -> torch.Tensor:
        """The logarithm of the normalising constant."""
        holds, p = self._cut()
        # Each branch gets harmless values where the other is used, so that no gradient is NaN.
        below, above = torch.where(p <= 0.5, p, torch.zeros_like(p)), torch.where(p >= 0.5, p, torch.ones_like(p))
        odds = torch.log(torch.abs(torch.log1p(-p) - torch.log(p)))
        norm = odds - torch.where(p <= 0.5, torch.log1p(-2.0 * below), torch.log(2.0 * above - 1.0))
        x = torch.pow(self.probs - 0.5, 2)
        return torch.where(holds, norm, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> torch.Tensor:
        holds, p = self._cut()
        mean = p / (2.0 * p - 1.0) + 1.0 / (torch.log1p(-p) - torch.log(p))
        x = self.probs - 0.5
        return torch.where(holds, mean, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * torch.pow(x, 2)) * x)

    @property
    def variance(self) -> torch.Tensor:
        holds, p = self._cut()
        odds = torch.log1p(-p) - torch.log(p)
        variance = p * (p - 1.0) / torch.pow(1.0 - 2.0 * p, 2) + 1.0 / torch.pow(odds, 2)
        x = torch.pow(self.probs - 0.5, 2)
        return torch.where(holds, variance, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(torch.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        plain = -torch.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return plain + self._cont_bern_log_norm()

    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        holds, p = self._cut()
        below = (torch.pow(p, value) * torch.pow(1.0 - p, 1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = torch.where(value >= 1.0, torch.ones_like(value), torch.where(holds, below, value))
        return torch.where(value <= 0.0, torch.zeros_like(value), inside)

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        holds, p = self._cut()
        odds = torch.log(p) - torch.log1p(-p)
        return torch.where(holds, (torch.log1p(-p + value * (2.0 * p - 1.0)) - torch.log1p(-p)) / odds, value)

    def entropy(self) -> torch.Tensor:
        zero, one = torch.log1p(-self.probs), torch.log(self.probs)
        return self.mean * (zero - one) - self._cont_bern_log_norm() - zero

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        low, high = self._lims[0] - 0.5, self._lims[1] - 0.5
        holds = (x <= low) | (x > high)
        cut = torch.where(holds, x, low * torch.ones_like(x))
        norm = torch.log(torch.abs(torch.special.expm1(cut))) - torch.log(torch.abs(cut))
        return torch.where(holds, norm, 0.5 * x + torch.pow(x, 2) / 24.0 - torch.pow(x, 4) / 2880.0)

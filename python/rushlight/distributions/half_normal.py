"""The half-normal distribution."""

from __future__ import annotations

import math

import rushlight as torch

from ._folded import Folded
from .normal import Normal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["HalfNormal"]


class HalfNormal(Folded):
    """The absolute values of a `Normal` distribution around zero.

    Its density is ``sqrt(2 / pi) / scale * exp(-(x / scale)**2 / 2)`` for non-negative x (Leone, Nelson, Nottingham
    1961, the folded normal distribution of mean zero).

    Args:
        scale: the standard deviation of the signed values, positive; a number or a tensor.

    Raises:
        ValueError: ``scale`` is not positive, or in `log_prob` a value is negative.

    >>> half = torch.distributions.HalfNormal(torch.tensor([1.0, 2.0]))
    >>> half.mean, half.sample((3,)).shape
    (tensor([0.7979, 1.5958]), torch.Size([3, 2]))
    """

    base_dist: Normal

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return super().expand(batch_shape, _instance=self._get_checked_instance(HalfNormal, _instance))

    @property
    def mean(self) -> torch.Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> torch.Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)

"""The chi-squared distribution."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from .gamma import Gamma

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of the squares of ``df`` standard normal numbers: `Gamma` with concentration ``df / 2`` and rate 1/2.

    Args:
        df: the degrees of freedom, positive; a number or a tensor.

    Raises:
        ValueError: ``df`` is not positive.

    >>> torch.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> torch.Tensor:
        """The degrees of freedom."""
        return self.concentration * 2

"""The LKJ distribution of correlation matrices, as their Cholesky factors."""

from __future__ import annotations

import math

import rushlight as torch

from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Lower Cholesky factors L of correlation matrices, with density proportional to ``det(L @ L.T)**(concentration - 1)``.

    With concentration one all correlation matrices are equally likely; a larger value favours those near the identity.
    Samples are generated row by row with the onion method (Lewandowski, Kurowicka, Joe 2009, section 3.2).

    Args:
        dim: the number of rows, at least two.
        concentration: a positive number or tensor.

    Raises:
        ValueError: ``dim`` is less than two, or a concentration is not positive.

    >>> lkj = torch.distributions.LKJCholesky(3, 0.5)
    >>> factor = lkj.sample()
    >>> torch.allclose((factor @ factor.mT).diagonal(), torch.ones(3)), lkj.log_prob(torch.eye(3))
    (True, tensor(-2.5310))
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        event_shape = torch.Size((dim, dim))
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # The distributions of the squared norms of the rows without their diagonals; the first row has none.
        rows = torch.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        rows = torch.cat([rows.new_zeros((1,)), rows])
        marginal = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(rows + 0.5, marginal.unsqueeze(-1) - 0.5 * rows)
        super().__init__(self.concentration.size(), event_shape, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        batch_shape = torch.Size(batch_shape)
        return self._expand_into(
            LKJCholesky,
            _instance,
            batch_shape,
            self.event_shape,
            dim=self.dim,
            concentration=self.concentration.expand(batch_shape),
            _beta=self._beta.expand(batch_shape + (self.dim,)),
        )

    def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        lengths = self._beta.sample(sample_shape).unsqueeze(-1)
        drawn = torch.randn(self._extended_shape(sample_shape), dtype=lengths.dtype, device=lengths.device).tril(-1)
        directions = drawn / drawn.norm(dim=-1, keepdim=True)
        directions[..., 0, :].fill_(0.0)
        rows = torch.sqrt(lengths) * directions
        # The diagonals normalise the rows. They are kept above zero.
        left = torch.clamp(1 - torch.sum(rows**2, dim=-1), min=torch.finfo(rows.dtype).tiny)
        rows += torch.diag_embed(left.sqrt())
        return rows

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonals = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        powers = torch.arange(2, self.dim + 1, device=self.concentration.device)
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - powers
        plain = torch.sum(powers * diagonals.log(), dim=-1)
        # The normalising constant on page 1999 of the paper, with a multivariate gamma function of one dimension less.
        below = self.dim - 1
        alpha = self.concentration + 0.5 * below
        norm = 0.5 * below * math.log(math.pi) + torch.mvlgamma(alpha - 0.5, below) - torch.lgamma(alpha) * below
        return plain - norm

"""Reinterprets batch dimensions of a distribution as event dimensions."""

from __future__ import annotations

from typing import Any

import rushlight as torch

from . import constraints
from .distribution import Distribution
from .utils import _sum_rightmost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

__all__ = ["Independent"]


class Independent(Distribution):
    """A distribution whose rightmost batch dimensions become part of the event.

    >>> torch.distributions.Independent(torch.distributions.Normal(torch.zeros(3), 1.0), 1).event_shape
    torch.Size([3])
    """

    arg_constraints: Any = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        cut = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        own = self.event_shape[: self.reinterpreted_batch_ndims]
        return self._expand_into(
            Independent,
            _instance,
            batch_shape,
            self.event_shape,
            base_dist=self.base_dist.expand(torch.Size(batch_shape) + own),
            reinterpreted_batch_ndims=self.reinterpreted_batch_ndims,
        )

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self):
        support = self.base_dist.support
        if self.reinterpreted_batch_ndims:
            support = constraints.independent(support, self.reinterpreted_batch_ndims)
        return support

    @property
    def mean(self) -> torch.Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> torch.Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> torch.Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> torch.Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> torch.Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"

"""A distribution whose samples are transformed."""

from __future__ import annotations

from typing import Any

import rushlight as torch

from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """Applies ``transforms`` to samples of ``base_distribution``. Densities use the Jacobians of the transforms.

    >>> base = torch.distributions.Normal(0.0, 1.0)
    >>> torch.distributions.TransformedDistribution(base, [torch.distributions.ExpTransform()]).log_prob(torch.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: Any = {}

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list):
            if not all(isinstance(one, Transform) for one in transforms):
                raise ValueError("transforms must be a Transform or a list of Transforms")
            self.transforms = transforms
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        event_dim = len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        if len(base_shape) < whole.domain.event_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{whole.domain.event_dim}, but got {base_shape}."
            )
        # Parameters of a transform may broadcast with the base.
        shape = whole.forward_shape(base_shape)
        expanded = whole.inverse_shape(shape)
        if base_shape != expanded:
            base_distribution = base_distribution.expand(expanded[: len(expanded) - event_dim])
        own = whole.domain.event_dim - event_dim
        self.base_dist: Distribution = Independent(base_distribution, own) if own > 0 else base_distribution
        event_dim = whole.codomain.event_dim + max(event_dim - whole.domain.event_dim, 0)
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        shape = torch.Size(batch_shape) + self.event_shape
        for one in reversed(self.transforms):
            shape = one.inverse_shape(shape)
        base = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return self._expand_into(
            TransformedDistribution,
            _instance,
            batch_shape,
            self.event_shape,
            base_dist=base,
            transforms=self.transforms,
        )

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        missing = len(self.event_shape) - support.event_dim
        return constraints.independent(support, missing) if missing > 0 else support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        with torch.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x):
        for one in self.transforms:
            x = one(x)
        return x

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        event_dim = len(self.event_shape)
        log_prob = 0.0
        y = value
        for one in reversed(self.transforms):
            x = one.inv(y)
            event_dim += one.domain.event_dim - one.codomain.event_dim
            slope = one.log_abs_det_jacobian(x, y)
            log_prob = log_prob - _sum_rightmost(slope, event_dim - one.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return log_prob + _sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value):
        """One minus the value, if the transforms are decreasing."""
        sign = 1
        for one in self.transforms:
            sign = sign * one.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        for one in reversed(self.transforms):
            value = one.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))

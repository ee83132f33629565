"""The multivariate normal distribution."""

from __future__ import annotations

import math

import rushlight as torch

from . import constraints
from .distribution import Distribution
from .utils import _standard_normal, lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["MultivariateNormal"]


def _batch_mahalanobis(factor, x):
    """Squared Mahalanobis distances for a covariance's lower Cholesky factor; both broadcast."""
    return torch.linalg.solve_triangular(factor, x.unsqueeze(-1), upper=False).squeeze(-1).pow(2).sum(-1)


def _factor(covariance):
    return torch.linalg.cholesky(covariance)


def _precision_to_scale_tril(precision):
    """The covariance's lower Cholesky factor, computed from the factor of the reversed precision."""
    factor = torch.linalg.cholesky(torch.flip(precision, (-2, -1)))
    upper = torch.transpose(torch.flip(factor, (-2, -1)), -2, -1)
    unit = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return torch.linalg.solve_triangular(upper, unit, upper=False)


class MultivariateNormal(Distribution):
    """The multivariate normal distribution, with a mean and one of covariance, precision and lower Cholesky factor of
    the covariance.

    ``scale_tril`` is the fastest of the three, because the others are factorised first. Batches broadcast.

    Args:
        loc: the mean, (.., n).
        covariance_matrix: positive definite, (.., n, n).
        precision_matrix: the inverse of the covariance.
        scale_tril: the lower Cholesky factor of the covariance, with a positive diagonal.

    Raises:
        ValueError: not exactly one matrix is given, there are too few dimensions, or a matrix is invalid.

    >>> normal = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
    >>> normal.log_prob(torch.zeros(2)), normal.sample((3,)).shape
    (tensor(-1.8379), torch.Size([3, 2]))
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: torch.Tensor,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrices = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {name: matrix for name, matrix in matrices.items() if matrix is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(
                f"{name}{' matrix' if name == 'scale_tril' else ''} must be at least two-dimensional, "
                "with optional leading batch dimensions"
            )
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = _factor(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        batch_shape = torch.Size(batch_shape)
        loc_shape = batch_shape + self.event_shape
        names = [name for name in self.arg_constraints if name != "loc" and name in self.__dict__]
        matrices = {name: self.__dict__[name].expand(loc_shape + self.event_shape) for name in names}
        return self._expand_into(
            MultivariateNormal,
            _instance,
            batch_shape,
            self.event_shape,
            loc=self.loc.expand(loc_shape),
            _unbroadcasted_scale_tril=self._unbroadcasted_scale_tril,
            **matrices,
        )

    def _whole(self, matrix: torch.Tensor) -> torch.Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> torch.Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> torch.Tensor:
        """The covariance."""
        return self._whole(torch.matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT))

    @lazy_property
    def precision_matrix(self):
        """The precision (inverse covariance)."""
        return self._whole(torch.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> torch.Tensor:
        return self.loc

    @property
    def mode(self) -> torch.Tensor:
        return self.loc

    @property
    def variance(self) -> torch.Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        drawn = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + torch.matmul(self._unbroadcasted_scale_tril, drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        half_log_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - half_log_det

    def entropy(self) -> torch.Tensor:
        half_log_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half_log_det
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)

"""The multivariate normal distribution with a covariance that is a low-rank matrix plus a diagonal."""

from __future__ import annotations

import math

import rushlight as torch

from . import constraints
from .distribution import Distribution
from .multivariate_normal import _batch_mahalanobis
from .utils import _standard_normal, lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["LowRankMultivariateNormal"]


def _add_one_to_diagonals(matrices):
    matrices.diagonal(dim1=-2, dim2=-1).add_(1)
    return matrices


def _batch_capacitance_tril(W, D):
    """The lower Cholesky factor of ``I + W.T @ inv(diag(D)) @ W``."""
    return torch.linalg.cholesky(_add_one_to_diagonals(torch.matmul(W.mT / D.unsqueeze(-2), W)))


def _batch_lowrank_logdet(W, D, capacitance_tril):
    """The logarithm of ``det(W @ W.T + diag(D))``, by the matrix determinant lemma."""
    return 2 * capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W, D, x, capacitance_tril):
    """Squared Mahalanobis distances for the covariance ``W @ W.T + diag(D)``, by the Woodbury identity."""
    seen = torch.matmul(W.mT / D.unsqueeze(-2), x.unsqueeze(-1)).squeeze(-1)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, seen)


class LowRankMultivariateNormal(Distribution):
    """The multivariate normal distribution with covariance ``cov_factor @ cov_factor.T + diag(cov_diag)``.

    Densities need a factorisation of an m by m matrix instead of n by n (Woodbury 1950, also for determinants). Samples
    are differentiable with respect to all parameters.

    Args:
        loc: the mean, (.., n).
        cov_factor: (.., n, m), with m much smaller than n.
        cov_diag: positive, (.., n).

    Raises:
        ValueError: there are too few dimensions, the shapes do not match, or the diagonal is not positive.

    >>> factor = torch.tensor([[1.0], [0.0]])
    >>> normal = torch.distributions.LowRankMultivariateNormal(torch.zeros(2), factor, torch.ones(2))
    >>> normal.covariance_matrix, normal.sample((3,)).shape
    (tensor([[2., 0.],
            [0., 1.]]), torch.Size([3, 2]))
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: torch.Tensor,
        cov_factor: torch.Tensor,
        cov_diag: torch.Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = torch.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand(batch_shape + (-1,))
        self.cov_factor = cov_factor.expand(batch_shape + (-1, -1))
        self.cov_diag = cov_diag.expand(batch_shape + (-1,))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        batch_shape = torch.Size(batch_shape)
        loc_shape = batch_shape + self.event_shape
        return self._expand_into(
            LowRankMultivariateNormal,
            _instance,
            batch_shape,
            self.event_shape,
            loc=self.loc.expand(loc_shape),
            cov_factor=self.cov_factor.expand(loc_shape + self.cov_factor.shape[-1:]),
            cov_diag=self.cov_diag.expand(loc_shape),
            _unbroadcasted_cov_factor=self._unbroadcasted_cov_factor,
            _unbroadcasted_cov_diag=self._unbroadcasted_cov_diag,
            _capacitance_tril=self._capacitance_tril,
        )

    def _covariance(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril

    def _whole(self, matrix: torch.Tensor) -> torch.Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> torch.Tensor:
        return self.loc

    @property
    def mode(self) -> torch.Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> torch.Tensor:
        W, D, _ = self._covariance()
        return (W.pow(2).sum(-1) + D).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> torch.Tensor:
        """The lower Cholesky factor of the covariance."""
        W, D, _ = self._covariance()
        deviation = D.sqrt().unsqueeze(-1)
        scaled = W / deviation
        # Scaled to a unit diagonal, the factorisation is better conditioned.
        return self._whole(deviation * torch.linalg.cholesky(_add_one_to_diagonals(torch.matmul(scaled, scaled.mT))))

    @lazy_property
    def covariance_matrix(self) -> torch.Tensor:
        """The covariance."""
        W, D, _ = self._covariance()
        return self._whole(torch.matmul(W, W.mT) + torch.diag_embed(D))

    @lazy_property
    def precision_matrix(self) -> torch.Tensor:
        """The precision (inverse covariance)."""
        W, D, factor = self._covariance()
        seen = torch.linalg.solve_triangular(factor, W.mT / D.unsqueeze(-2), upper=False)
        return self._whole(torch.diag_embed(D.reciprocal()) - seen.mT @ seen)

    def rsample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        W, D, _ = self._covariance()
        common = _standard_normal(shape[:-1] + W.shape[-1:], self.loc.dtype, self.loc.device)
        own = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + torch.matmul(W, common.unsqueeze(-1)).squeeze(-1) + D.sqrt() * own

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        W, D, factor = self._covariance()
        distance = _batch_lowrank_mahalanobis(W, D, value - self.loc, factor)
        log_det = _batch_lowrank_logdet(W, D, factor)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + log_det + distance)

    def entropy(self) -> torch.Tensor:
        log_det = _batch_lowrank_logdet(*self._covariance())
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + log_det)
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)

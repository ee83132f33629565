"""The Wishart distribution of positive definite matrices."""

from __future__ import annotations

import math
from numbers import Number

import rushlight as torch
from rushlight._warnings import warn

from . import constraints
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .multivariate_normal import _precision_to_scale_tril
from .utils import lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Wishart"]

_LOG_2 = math.log(2)


def _mvdigamma(x, p):
    """The derivative of the logarithm of the multivariate gamma function of dimension p."""
    if not x.gt((p - 1) / 2).all():
        raise AssertionError("Wrong domain for multivariate digamma function.")
    steps = torch.arange(p, dtype=x.dtype, device=x.device).div(2)
    return torch.digamma(x.unsqueeze(-1) - steps).sum(-1)


class Wishart(ExponentialFamily):
    """The sums ``x @ x.T`` of ``df`` normally distributed vectors x with mean zero. One of covariance, precision and
    lower Cholesky factor of the covariance is given.

    With n rows and covariance V the density at S is proportional to ``det(S)**((df - n - 1) / 2) * exp(-tr(inv(V) @ S) /
    2)`` (Wishart 1928); samples use Bartlett's decomposition (1933) and are differentiable.

    Args:
        df: the degrees of freedom, greater than n - 1; a number or a tensor.
        covariance_matrix: positive definite, (.., n, n).
        precision_matrix: the inverse of the covariance.
        scale_tril: the lower Cholesky factor of the covariance, with a positive diagonal.

    Raises:
        AssertionError: not exactly one matrix is given.
        ValueError: there are too few dimensions, ``df`` is too small, or a matrix is invalid.

    >>> wishart = torch.distributions.Wishart(4.0, torch.eye(2))
    >>> wishart.mean, wishart.sample((3,)).shape
    (tensor([[4., 0.],
            [0., 4.]]), torch.Size([3, 2, 2]))
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self):
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        matrices = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {name: matrix for name, matrix in matrices.items() if matrix is not None}
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if isinstance(df, Number):
            batch_shape = torch.Size(matrix.shape[:-2])
            self.df = torch.tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch_shape = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        event_shape = matrix.shape[-2:]
        if self.df.le(event_shape[-1] - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.")
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        if self.df.lt(event_shape[-1]).any():
            warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.")
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)
        self._dist_chi2 = self._diagonals(self.df, batch_shape)

    def _diagonals(self, df: torch.Tensor, batch_shape: Any) -> Chi2:
        """The distributions of the squared diagonals of Bartlett's factors."""
        factor = self._unbroadcasted_scale_tril
        steps = torch.arange(self._event_shape[-1], dtype=factor.dtype, device=factor.device)
        return Chi2(df.unsqueeze(-1) - steps.expand(torch.Size(batch_shape) + (-1,)))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        batch_shape = torch.Size(batch_shape)
        shape = batch_shape + self.event_shape
        names = [name for name in self.arg_constraints if name != "df" and name in self.__dict__]
        df = self.df.expand(batch_shape)
        return self._expand_into(
            Wishart,
            _instance,
            batch_shape,
            self.event_shape,
            df=df,
            _unbroadcasted_scale_tril=self._unbroadcasted_scale_tril.expand(shape),
            _dist_chi2=self._diagonals(df, batch_shape),
            **{name: self.__dict__[name].expand(shape) for name in names},
        )

    def _whole(self, matrix: torch.Tensor) -> torch.Tensor:
        return matrix.expand(self._batch_shape + self._event_shape)

    def _times_df(self, matrix: torch.Tensor) -> torch.Tensor:
        return self.df.view(self._batch_shape + (1, 1)) * matrix

    @lazy_property
    def scale_tril(self) -> torch.Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> torch.Tensor:
        """The covariance of the vectors."""
        return self._whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> torch.Tensor:
        """The precision (inverse covariance)."""
        factor = self._unbroadcasted_scale_tril
        unit = torch.eye(self._event_shape[-1], dtype=factor.dtype, device=factor.device)
        return self._whole(torch.cholesky_solve(unit, factor))

    @property
    def mean(self) -> torch.Tensor:
        return self._times_df(self.covariance_matrix)

    @property
    def mode(self) -> torch.Tensor:
        """The mode. NaN if ``df`` is at most n + 1."""
        factor = self.df - self._event_shape[-1] - 1
        factor[factor <= 0] = torch.nan
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> torch.Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        return self._times_df(covariance.pow(2) + torch.einsum("...i,...j->...ij", diagonal, diagonal))

    def _bartlett_sampling(self, sample_shape: Any) -> torch.Tensor:
        p = self._event_shape[-1]
        roots = self._dist_chi2.rsample(sample_shape).sqrt()
        noise = roots.clamp(min=torch.finfo(roots.dtype).eps).diag_embed(dim1=-2, dim2=-1)
        i, j = torch.tril_indices(p, p, offset=-1)
        below = torch.Size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,)
        noise[..., i, j] = torch.randn(below, dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def _of_samples(self, matrices: torch.Tensor) -> torch.Tensor:
        """Whether any matrix in the batch of a sample is singular."""
        return matrices.flatten(-len(self._batch_shape)).any(-1) if self._batch_shape else matrices

    def rsample(self, sample_shape: Any = torch.Size(), max_try_correction: int | None = None) -> torch.Tensor:
        """Differentiable samples. Singular samples are drawn again, up to ``max_try_correction`` (10) times."""
        sample = self._bartlett_sampling(torch.Size(sample_shape))
        # torch draws twice even if the first draw is not singular, so the first draw only advances the random stream.
        again = self._of_samples(self.support.check(sample))
        for attempt in range(10 if max_try_correction is None else max_try_correction):
            if attempt == 1 and again.any():
                warn("Singular sample detected.")
            sample[again] = self._bartlett_sampling(again[again].shape)
            again = self._of_samples(~self.support.check(sample))
            if not again.any():
                break
        return sample

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        p = self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        half_log_det = p * _LOG_2 / 2 + factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return (
            -self.df * half_log_det
            - torch.mvlgamma(self.df / 2, p=p)
            + (self.df - p - 1) / 2 * torch.linalg.slogdet(value).logabsdet
            - torch.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(dim=-1) / 2
        )

    def entropy(self) -> torch.Tensor:
        p = self._event_shape[-1]
        half_log_det = p * _LOG_2 / 2 + self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return (
            (p + 1) * half_log_det
            + torch.mvlgamma(self.df / 2, p=p)
            - (self.df - p - 1) / 2 * _mvdigamma(self.df / 2, p=p)
            + self.df * p / 2
        )

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        half_df = y + (p + 1) / 2
        return half_df * (-torch.linalg.slogdet(-2 * x).logabsdet + _LOG_2 * p) + torch.mvlgamma(half_df, p=p)

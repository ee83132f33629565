"""Transforms of vectors and matrices, and of parts of them. `transforms` exports them."""

from __future__ import annotations

import math

import rushlight as torch
from rushlight.nn import functional as F

from . import constraints
from ._element_transforms import _clipped_sigmoid
from ._transform import Transform, _ParameterFree
from .utils import (
    _check_all,
    _check_counts,
    _check_dim,
    _sum_rightmost,
    lazy_property,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "CatTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
]


class CorrCholeskyTransform(Transform):
    """A vector of n(n - 1)/2 numbers to the lower Cholesky factor of an n x n correlation matrix (rows of norm one).

    >>> transform = torch.distributions.transforms.CorrCholeskyTransform()
    >>> y = transform(torch.tensor([0.0]))
    >>> y, torch.allclose(transform.inv(y), torch.tensor([0.0]))
    (tensor([[1., 0.],
            [0., 1.]]), True)
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        x = torch.tanh(x)
        eps = torch.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        # The remaining norm of each row after its first elements.
        left = (1 - r**2).sqrt().cumprod(-1)
        r = r + torch.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        left = 1 - torch.cumsum(y * y, dim=-1)
        rows = tril_matrix_to_vec(y, diag=-1)
        before = tril_matrix_to_vec(F.pad(left[..., :-1], [1, 0], value=1), diag=-1)
        t = rows / before.sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        left = 1 - (y * y).cumsum(dim=-1)
        lower = tril_matrix_to_vec(left, diag=-2)
        tanh = -2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return 0.5 * lower.log().sum(-1) + tanh

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = shape[-1]
        side = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if side * (side - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (side, side)

    def inverse_shape(self, shape):
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


class SoftmaxTransform(_ParameterFree):
    """``softmax(x)`` for vectors. The inverse returns one of the preimages (see `StickBreakingTransform`).

    >>> torch.distributions.SoftmaxTransform()(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x):
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_ParameterFree):
    """A vector of n numbers to n + 1 positive numbers that sum to one, each a fraction of the remainder.

    >>> transform = torch.distributions.transforms.StickBreakingTransform()
    >>> y = transform(torch.zeros(2))
    >>> y, torch.allclose(transform.inv(y), torch.zeros(2))
    (tensor([0.3333, 0.3333, 0.3333]), False)
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _call(self, x):
        offset = x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)
        parts = _clipped_sigmoid(x - offset.log())
        left = (1 - parts).cumprod(-1)
        return F.pad(parts, [0, 1], value=1) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y):
        shares = y[..., :-1]
        offset = y.shape[-1] - shares.new_ones(shares.shape[-1]).cumsum(-1)
        left = torch.clamp(1 - shares.cumsum(-1), min=torch.finfo(y.dtype).tiny)
        return shares.log() - left.log() + offset.log()

    def log_abs_det_jacobian(self, x, y):
        offset = x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)
        x = x - offset.log()
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(_ParameterFree):
    """A square matrix to a lower triangular matrix with a positive diagonal, by exponentiating its diagonal.

    >>> transform = torch.distributions.transforms.LowerCholeskyTransform()
    >>> y = transform(torch.zeros(2, 2))
    >>> y, torch.allclose(transform.inv(y), torch.zeros(2, 2))
    (tensor([[1., 0.],
            [0., 1.]]), True)
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_ParameterFree):
    """A square matrix to a positive definite one: the product of its `LowerCholeskyTransform` with the transpose.

    >>> transform = torch.distributions.transforms.PositiveDefiniteTransform()
    >>> y = transform(torch.zeros(2, 2))
    >>> y, torch.allclose(transform.inv(y), torch.zeros(2, 2))
    (tensor([[1., 0.],
            [0., 1.]]), True)
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x):
        x = LowerCholeskyTransform()(x)
        return x @ x.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(torch.linalg.cholesky(y))


class CatTransform(Transform):
    """Applies transforms to consecutive parts along ``dim`` with the given ``lengths`` (1 by default).

    >>> parts = [torch.distributions.ExpTransform(), torch.distributions.AffineTransform(0.0, 2.0)]
    >>> torch.distributions.CatTransform(parts, lengths=[1, 2])(torch.ones(3))
    tensor([2.7183, 2.0000, 2.0000])
    """

    transforms: list[Transform]

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        _check_all(tseq, Transform, "tseq")
        super().__init__(cache_size=cache_size)
        self.transforms = [one.with_cache(cache_size) for one in tseq] if cache_size else list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        _check_counts(self.lengths, self.transforms, "transforms")
        self.dim = dim

    @lazy_property
    def event_dim(self):
        return max(one.event_dim for one in self.transforms)

    @lazy_property
    def length(self):
        """The number of elements along the dimension."""
        return sum(self.lengths)

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, value, name, called="tensor"):
        _check_dim(self.dim, value, called)
        if value.size(self.dim) != self.length:
            raise AssertionError(f"{name}.size({self.dim}) = {value.size(self.dim)} must equal length {self.length}")
        return torch.split(value, self.lengths, self.dim)

    def _call(self, x):
        return torch.cat([one(part) for one, part in zip(self.transforms, self._parts(x, "x"))], dim=self.dim)

    def _inverse(self, y):
        return torch.cat([one.inv(part) for one, part in zip(self.transforms, self._parts(y, "y"))], dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        found = []
        for one, before, after in zip(self.transforms, self._parts(x, "x", "x"), self._parts(y, "y", "y")):
            slope = one.log_abs_det_jacobian(before, after)
            found.append(_sum_rightmost(slope, self.event_dim - one.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        return torch.cat(found, dim=dim) if dim < 0 else sum(found)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(one.bijective for one in self.transforms)

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return constraints.cat([one.domain for one in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return constraints.cat([one.codomain for one in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Applies transforms to the slices along ``dim``.

    >>> parts = [torch.distributions.ExpTransform(), torch.distributions.AffineTransform(0.0, 2.0)]
    >>> torch.distributions.StackTransform(parts)(torch.tensor([0.0, 3.0]))
    tensor([1., 6.])
    """

    transforms: list[Transform]

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        _check_all(tseq, Transform, "tseq")
        super().__init__(cache_size=cache_size)
        self.transforms = [one.with_cache(cache_size) for one in tseq] if cache_size else list(tseq)
        self.dim = dim

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, value, name, called="tensor"):
        _check_dim(self.dim, value, called)
        if value.size(self.dim) != len(self.transforms):
            raise AssertionError(
                f"{name}.size({self.dim}) = {value.size(self.dim)} must equal len(transforms) {len(self.transforms)}"
            )
        return value.unbind(self.dim)

    def _call(self, x):
        return torch.stack([one(part) for one, part in zip(self.transforms, self._slices(x, "x"))], dim=self.dim)

    def _inverse(self, y):
        return torch.stack([one.inv(part) for one, part in zip(self.transforms, self._slices(y, "y"))], dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        triples = zip(self.transforms, self._slices(x, "x", "x"), self._slices(y, "y", "y"))
        return torch.stack([one.log_abs_det_jacobian(*pair) for one, *pair in triples], dim=self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(one.bijective for one in self.transforms)

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return constraints.stack([one.domain for one in self.transforms], self.dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return constraints.stack([one.codomain for one in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function (``cdf``) of a univariate distribution. The inverse is ``icdf``.

    >>> uniform = torch.distributions.CumulativeDistributionTransform(torch.distributions.Normal(0.0, 1.0))
    >>> uniform(torch.tensor(0.0))
    tensor(0.5000)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self):
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)

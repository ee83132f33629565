"""Elementwise transforms. `transforms` exports them."""

from __future__ import annotations

import math

import rushlight as torch
from rushlight.nn import functional as F

from . import constraints
from ._transform import Transform, _ParameterFree
from .utils import broadcast_all, lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "ExpTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
]


class ExpTransform(_ParameterFree):
    """``exp(x)``, from the real numbers to the positive ones.

    >>> transform = torch.distributions.transforms.ExpTransform()
    >>> y = transform(torch.tensor([-1.0, 0.0]))
    >>> y, torch.allclose(transform.inv(y), torch.tensor([-1.0, 0.0]))
    (tensor([0.3679, 1.0000]), True)
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class PowerTransform(Transform):
    """``x ** exponent`` for positive numbers.

    >>> transform = torch.distributions.transforms.PowerTransform(2.0)
    >>> y = transform(torch.tensor([1.0, 3.0]))
    >>> y, torch.allclose(transform.inv(y), torch.tensor([1.0, 3.0]))
    (tensor([1., 9.]), True)
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    @lazy_property
    def sign(self):
        return self.exponent.sign()

    def __eq__(self, other):
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = None

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape):
        return torch.broadcast_shapes(shape, getattr(self.exponent, "shape", ()))

    inverse_shape = forward_shape


def _clipped_sigmoid(x):
    finfo = torch.finfo(x.dtype)
    return torch.clamp(torch.sigmoid(x), min=finfo.tiny, max=1.0 - finfo.eps)


class SigmoidTransform(_ParameterFree):
    """``1 / (1 + exp(-x))``, clamped away from zero and one by the rounding unit of the dtype.

    >>> transform = torch.distributions.transforms.SigmoidTransform()
    >>> y = transform(torch.tensor([-1.0, 0.0]))
    >>> y, torch.allclose(transform.inv(y), torch.tensor([-1.0, 0.0]))
    (tensor([0.2689, 0.5000]), True)
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = +1

    def _call(self, x):
        return _clipped_sigmoid(x)

    def _inverse(self, y):
        finfo = torch.finfo(y.dtype)
        y = y.clamp(min=finfo.tiny, max=1.0 - finfo.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y):
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_ParameterFree):
    """``log(1 + exp(x))``, which equals x if x is large.

    >>> transform = torch.distributions.transforms.SoftplusTransform()
    >>> y = transform(torch.tensor([-1.0, 0.0]))
    >>> y, torch.allclose(transform.inv(y), torch.tensor([-1.0, 0.0]))
    (tensor([0.3133, 0.6931]), True)
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def _call(self, x):
        return F.softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -F.softplus(-x)


class TanhTransform(_ParameterFree):
    """``tanh(x)``, from the real numbers to those between -1 and 1.

    >>> transform = torch.distributions.transforms.TanhTransform()
    >>> y = transform(torch.tensor([-1.0, 0.0]))
    >>> y, torch.allclose(transform.inv(y), torch.tensor([-1.0, 0.0]))
    (tensor([-0.7616,  0.0000]), True)
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x, y):
        # The logarithm of 1 - y², in a form without cancellation.
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(_ParameterFree):
    """``|x|``. It is not invertible: the inverse returns the positive preimage.

    >>> torch.distributions.AbsTransform()(torch.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """``loc + scale * x``. ``event_dim`` is the number of event dimensions, over which the log Jacobian is summed.

    >>> transform = torch.distributions.transforms.AffineTransform(1.0, 2.0)
    >>> y = transform(torch.tensor([-1.0, 0.0]))
    >>> y, torch.allclose(transform.inv(y), torch.tensor([-1.0, 0.0]))
    (tensor([-1.,  1.]), True)
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    codomain = domain

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other):
        def same(a, b):
            if isinstance(a, (int, float)) and isinstance(b, (int, float)):
                return a == b
            return bool(torch.as_tensor(a == b).all())

        return isinstance(other, AffineTransform) and same(self.loc, other.loc) and same(self.scale, other.scale)

    __hash__ = None

    @property
    def sign(self):
        if isinstance(self.scale, (int, float)):
            return 1 if float(self.scale) > 0 else -1 if float(self.scale) < 0 else 0
        return self.scale.sign()

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        shape = x.shape
        if isinstance(self.scale, (int, float)):
            result = torch.full_like(x, math.log(abs(self.scale)))
        else:
            result = torch.abs(self.scale).log()
        if self.event_dim:
            result = result.view(result.size()[: -self.event_dim] + (-1,)).sum(-1)
            shape = shape[: -self.event_dim]
        return result.expand(shape)

    def forward_shape(self, shape):
        return torch.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


def __dir__() -> list[str]:
    return __all__

"""Kullback-Leibler divergences: a registry of formulas for pairs of classes."""

from __future__ import annotations

import math

import rushlight as torch
from rushlight._warnings import warn

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .independent import Independent
from .laplace import Laplace
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[..., Any]] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Registers the decorated function for `kl_divergence` of two classes and their subclasses.

    Where several fit, the nearest classes decide; a RuntimeWarning tells of a tie.

    Raises:
        TypeError: an argument that is no class of distributions.

    >>> class Odd(torch.distributions.Normal):
    ...     pass
    >>> @torch.distributions.register_kl(Odd, Odd)
    ... def _between(p, q):
    ...     return torch.tensor(1.5)
    >>> torch.distributions.kl_divergence(Odd(0.0, 1.0), Odd(0.0, 1.0))
    tensor(1.5000)
    """
    if not isinstance(type_p, type) and issubclass(type_p, Distribution):
        raise TypeError(f"Expected type_p to be a Distribution subclass but got {type_p}")
    if not isinstance(type_q, type) and issubclass(type_q, Distribution):
        raise TypeError(f"Expected type_q to be a Distribution subclass but got {type_q}")

    def decorator(function: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return decorator


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The formula for the nearest classes above a pair."""
    matches = [
        (super_p, super_q)
        for super_p, super_q in _KL_REGISTRY
        if issubclass(type_p, super_p) and issubclass(type_q, super_q)
    ]
    if not matches:
        return NotImplemented

    def distance(pair: tuple[type, type]) -> tuple[int, int]:
        return type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])

    left = min(matches, key=distance)
    right = min(matches, key=lambda pair: distance(pair)[::-1])
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> torch.Tensor:
    """The mean of ``p.log_prob(x) - q.log_prob(x)`` over samples x of p, in closed form.

    Raises:
        NotImplementedError: no formula is registered for the classes.

    >>> torch.distributions.kl_divergence(torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    function = _KL_MEMOIZE[pair]
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type {q.__class__.__name__}"
        )
    return function(p, q)


def _infinite_like(tensor):
    return torch.full_like(tensor, torch.inf)


def _x_log_x(tensor):
    return torch.special.xlogy(tensor, tensor)


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p, q):
    softplus = torch.nn.functional.softplus
    return p.probs * (softplus(-q.logits) - softplus(-p.logits)) + (1 - p.probs) * (
        softplus(q.logits) - softplus(p.logits)
    )


@register_kl(Beta, Beta)
def _kl_beta_beta(p, q):
    total_p, total_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    norm_p = torch.lgamma(p.concentration1) + torch.lgamma(p.concentration0) + torch.lgamma(total_q)
    norm_q = torch.lgamma(q.concentration1) + torch.lgamma(q.concentration0) + torch.lgamma(total_p)
    return (
        norm_q
        - norm_p
        + (p.concentration1 - q.concentration1) * torch.digamma(p.concentration1)
        + (p.concentration0 - q.concentration0) * torch.digamma(p.concentration0)
        + (total_q - total_p) * torch.digamma(total_p)
    )


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    more = p.total_count > q.total_count
    kl[more] = _infinite_like(kl[more])
    return kl


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p, q):
    t = p.probs * (p.logits - q.logits)
    t[(q.probs == 0).expand_as(t)] = torch.inf
    t[(p.probs == 0).expand_as(t)] = 0
    return t.sum(-1)


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p, q):
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    norm = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    gaps = p.concentration - q.concentration
    slopes = p.concentration.digamma() - total_p.digamma().unsqueeze(-1)
    return total_p.lgamma() - total_q.lgamma() - norm + (gaps * slopes).sum(-1)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p, q):
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot"
            + " " * 29  # torch's sentence is a broken line
            + "be computed using Bregman divergences"
        )
    parameters = [parameter.detach().requires_grad_() for parameter in p._natural_params]
    normalizer = p._log_normalizer(*parameters)
    gradients = torch.autograd.grad(normalizer.sum(), parameters, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for own, other, gradient in zip(parameters, q._natural_params, gradients):
        result -= _sum_rightmost((other - own) * gradient, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p, q):
    return (
        q.concentration * (p.rate / q.rate).log()
        + torch.lgamma(q.concentration)
        - torch.lgamma(p.concentration)
        + (p.concentration - q.concentration) * torch.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p, q):
    ratio = p.scale / q.scale
    gap = (p.loc - q.loc).abs()
    return -ratio.log() + gap / q.scale + ratio * torch.exp(-gap / p.scale) - 1


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    own, other = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    half = other.diagonal(dim1=-2, dim2=-1).log().sum(-1) - own.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    batch = torch.broadcast_shapes(other.shape[:-2], own.shape[:-2])
    n = p.event_shape[0]
    solved = torch.linalg.solve_triangular(other.expand(batch + (n, n)), own.expand(batch + (n, n)), upper=False)
    trace = solved.pow(2).sum((-2, -1))
    return half + 0.5 * (trace + _batch_mahalanobis(other, q.loc - p.loc) - n)


@register_kl(Normal, Normal)
def _kl_normal_normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p, q):
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p, q):
    if p.transforms != q.transforms:
        raise NotImplementedError
    if p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _kl_independent_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    result[(q.low > p.low) | (q.high < p.high)] = torch.inf
    return result


# --- Pairs of different classes ----------------------------------------------------------------------------------


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, Exponential)
def _kl_beta_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * (p.concentration1 / (p.concentration1 + p.concentration0))


@register_kl(Beta, Gamma)
def _kl_beta_gamma(p, q):
    total = p.concentration1 + p.concentration0
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    slope = (q.concentration - 1) * (p.concentration1.digamma() - total.digamma())
    return -p.entropy() + norm - slope + q.rate * p.concentration1 / total


@register_kl(Beta, Normal)
def _kl_beta_normal(p, q):
    mean = p.concentration1 / (p.concentration1 + p.concentration0)
    square = q.scale.pow(2)
    norm = 0.5 * (square * 2 * math.pi).log()
    spread = mean * (1 - mean) / (p.concentration1 + p.concentration0 + 1) + mean.pow(2)
    return -p.entropy() + norm + (spread * 0.5 - mean * q.loc + q.loc.pow(2) * 0.5) / square


@register_kl(Beta, Uniform)
def _kl_beta_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    result[(q.low > p.support.lower_bound) | (q.high < p.support.upper_bound)] = torch.inf
    return result


@register_kl(Exponential, Gamma)
def _kl_exponential_gamma(p, q):
    ratio = q.rate / p.rate
    return (
        -q.concentration * torch.log(ratio)
        + ratio
        + q.concentration.lgamma()
        + q.concentration * euler_constant
        - (1 + euler_constant)
    )


@register_kl(Exponential, Normal)
def _kl_exponential_normal(p, q):
    square = q.scale.pow(2)
    rate_square = p.rate.pow(2)
    norm = 0.5 * torch.log(rate_square * square * 2 * math.pi)
    return norm - 1 + (rate_square.reciprocal() - q.loc / p.rate + q.loc.pow(2) / 2) / square


@register_kl(Gamma, Exponential)
def _kl_gamma_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Normal)
def _kl_gamma_normal(p, q):
    square = q.scale.pow(2)
    beta = p.rate.pow(2)
    norm = 0.5 * (beta * square * 2 * math.pi).log() - p.concentration - p.concentration.lgamma()
    slope = (p.concentration - 1) * p.concentration.digamma()
    spread = 0.5 * (p.concentration.pow(2) + p.concentration) / beta
    return norm + slope + (spread - q.loc * p.concentration / p.rate + 0.5 * q.loc.pow(2)) / square


@register_kl(Laplace, Normal)
def _kl_laplace_normal(p, q):
    square = q.scale.pow(2)
    ratio = p.scale.pow(2) / square
    return -0.5 * torch.log(2 * ratio / math.pi) + ratio + 0.5 * (p.loc - q.loc).pow(2) / square - 1


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p, q):
    gap = p.loc - q.loc
    ratio = p.scale / q.scale
    scaled = gap / p.scale
    first = torch.log(ratio)
    second = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * scaled.pow(2))
    third = gap * torch.erf(math.sqrt(0.5) * scaled)
    return -first + (second + third) / q.scale - (0.5 * (1 + math.log(0.5 * math.pi)))


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p, q):
    width = p.high - p.low
    norm = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma()
    high = (q.concentration1 - 1) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    low = (q.concentration0 - 1) * (_x_log_x(1 - p.high) - _x_log_x(1 - p.low) + width) / width
    result = norm - width.log() - high + low
    result[(p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)] = torch.inf
    return result


@register_kl(Uniform, Exponential)
def _kl_uniform_exponential(p, q):
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    result[p.low < q.support.lower_bound] = torch.inf
    return result


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p, q):
    width = p.high - p.low
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    logs = (1 - q.concentration) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    result = -width.log() + norm + logs + q.rate * (p.high + p.low) / 2
    result[p.low < q.support.lower_bound] = torch.inf
    return result


@register_kl(Uniform, Normal)
def _kl_uniform_normal(p, q):
    width = p.high - p.low
    spread = (width / 12**0.5).pow(2) + ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return (math.sqrt(math.pi * 2) * q.scale / width).log() + 0.5 * spread / q.scale.pow(2)


def _never_inside(p, q):
    """A distribution over values that the other never gives."""
    return _infinite_like(p.mean)


for _pair in [
    (Exponential, Beta),
    (Exponential, Uniform),
    (Gamma, Beta),
    (Gamma, Uniform),
    (Laplace, Beta),
    (Laplace, Exponential),
    (Laplace, Gamma),
    (Laplace, Uniform),
    (Normal, Beta),
    (Normal, Exponential),
    (Normal, Gamma),
    (Normal, Uniform),
    (Poisson, Bernoulli),
    (Poisson, Binomial),
]:
    register_kl(*_pair)(_never_inside)


def __dir__() -> list[str]:
    return __all__

"""Divergences between distributions of different classes."""

import math

import rushlight as torch

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import register_kl
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant


def _infinite_like(tensor):
    return torch.full_like(tensor, torch.inf)


def _x_log_x(tensor):
    return torch.special.xlogy(tensor, tensor)


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _kl_beta_continuous_bernoulli(p, q):
    return -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()


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


@register_kl(ContinuousBernoulli, Exponential)
def _kl_continuous_bernoulli_exponential(p, q):
    return -p.entropy() - torch.log(q.rate) + q.rate * p.mean


@register_kl(ContinuousBernoulli, Normal)
def _kl_continuous_bernoulli_normal(p, q):
    norm = 0.5 * (math.log(2.0 * math.pi) + torch.square(q.loc / q.scale)) + torch.log(q.scale)
    spread = p.variance + torch.square(p.mean) - 2.0 * q.loc * p.mean
    return -p.entropy() + norm + spread / (2.0 * torch.square(q.scale))


@register_kl(ContinuousBernoulli, Uniform)
def _kl_continuous_bernoulli_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    # As in torch, an interval whose end equals the end of the support is treated as smaller than the support.
    outside = (q.low >= p.support.lower_bound) | (q.high <= p.support.upper_bound)
    return torch.where(outside, torch.inf, result)


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


@register_kl(Exponential, Gumbel)
def _kl_exponential_gumbel(p, q):
    ratio = p.rate * q.scale
    place = q.loc / q.scale
    return ratio.log() - 1 - place + torch.exp(place) * ratio / (ratio + 1) + ratio.reciprocal()


@register_kl(Exponential, Normal)
def _kl_exponential_normal(p, q):
    square = q.scale.pow(2)
    rate_square = p.rate.pow(2)
    norm = 0.5 * torch.log(rate_square * square * 2 * math.pi)
    return norm - 1 + (rate_square.reciprocal() - q.loc / p.rate + q.loc.pow(2) / 2) / square


@register_kl(Gamma, Exponential)
def _kl_gamma_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _kl_gamma_gumbel(p, q):
    ratio = p.rate * q.scale
    place = q.loc / q.scale
    own = (p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma() - p.concentration
    tail = torch.exp(place) * (1 + ratio.reciprocal()).pow(-p.concentration) - place
    return own + (ratio.log() + p.concentration / ratio) + tail


@register_kl(Gamma, Normal)
def _kl_gamma_normal(p, q):
    square = q.scale.pow(2)
    beta = p.rate.pow(2)
    norm = 0.5 * (beta * square * 2 * math.pi).log() - p.concentration - p.concentration.lgamma()
    slope = (p.concentration - 1) * p.concentration.digamma()
    spread = 0.5 * (p.concentration.pow(2) + p.concentration) / beta
    return norm + slope + (spread - q.loc * p.concentration / p.rate + 0.5 * q.loc.pow(2)) / square


@register_kl(Gumbel, Normal)
def _kl_gumbel_normal(p, q):
    ratio = p.scale / q.scale
    spread = (math.pi * ratio * 0.5).pow(2) / 3
    gap = ((p.loc + p.scale * euler_constant - q.loc) / q.scale).pow(2) * 0.5
    return -(ratio / math.sqrt(2 * math.pi)).log() + spread + gap - (euler_constant + 1)


@register_kl(Laplace, Normal)
def _kl_laplace_normal(p, q):
    square = q.scale.pow(2)
    ratio = p.scale.pow(2) / square
    return -0.5 * torch.log(2 * ratio / math.pi) + ratio + 0.5 * (p.loc - q.loc).pow(2) / square - 1


@register_kl(Normal, Gumbel)
def _kl_normal_gumbel(p, q):
    own, other = p.loc / q.scale, q.loc / q.scale
    square = (p.scale / q.scale).pow(2)
    tail = torch.exp(-own + 0.5 * square + other)
    return -(square.log() * 0.5) + (own - other) + tail - (0.5 * (1 + math.log(2 * math.pi)))


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p, q):
    gap = p.loc - q.loc
    ratio = p.scale / q.scale
    scaled = gap / p.scale
    first = torch.log(ratio)
    second = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * scaled.pow(2))
    third = gap * torch.erf(math.sqrt(0.5) * scaled)
    return -first + (second + third) / q.scale - (0.5 * (1 + math.log(0.5 * math.pi)))


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p, q):
    start = p.scale * q.rate
    mean = p.alpha * start / (p.alpha - 1)
    result = (p.alpha / start).log() - p.alpha.reciprocal() + mean - 1
    result[p.alpha <= 1] = torch.inf
    return result


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p, q):
    log_mean = p.scale.log() + p.alpha.reciprocal()
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    mean = q.rate * p.alpha * p.scale / (p.alpha - 1)
    result = p.alpha.log() - log_mean + norm + (1 - q.concentration) * log_mean + mean - 1
    result[p.alpha <= 1] = torch.inf
    return result


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p, q):
    unit = p.scale / (p.alpha - 1)
    norm = (math.sqrt(2 * math.pi) * q.scale * p.alpha / p.scale).log()
    spread = p.alpha * unit.pow(2) / (p.alpha - 2) + (p.alpha * unit - q.loc).pow(2)
    result = norm - p.alpha.reciprocal() + spread / (2 * q.scale.pow(2)) - 1
    result[p.alpha <= 2] = torch.inf
    return result


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p, q):
    width = p.high - p.low
    norm = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma()
    high = (q.concentration1 - 1) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    low = (q.concentration0 - 1) * (_x_log_x(1 - p.high) - _x_log_x(1 - p.low) + width) / width
    result = norm - width.log() - high + low
    result[(p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)] = torch.inf
    return result


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p, q):
    result = -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()
    # As in torch, an interval whose end equals the end of the support is treated as larger than the support.
    outside = (p.high >= q.support.upper_bound) | (p.low <= q.support.lower_bound)
    return torch.where(outside, torch.inf, result)


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


@register_kl(Uniform, Gumbel)
def _kl_uniform_gumbel(p, q):
    unit = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return unit.log() + 0.5 * (high + low) - unit * (torch.exp(-high) - torch.exp(-low))


@register_kl(Uniform, Normal)
def _kl_uniform_normal(p, q):
    width = p.high - p.low
    spread = (width / 12**0.5).pow(2) + ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return (math.sqrt(math.pi * 2) * q.scale / width).log() + 0.5 * spread / q.scale.pow(2)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p, q):
    width = p.high - p.low
    norm = (q.alpha * q.scale.pow(q.alpha) * width).log()
    result = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width * (q.alpha + 1) - norm
    result[p.low < q.support.lower_bound] = torch.inf
    return result


def _never_inside(p, q):
    """Infinity: the support of the first distribution is not within that of the second."""
    return _infinite_like(p.mean)


_OUTSIDE: dict[type, list[type]] = {
    Beta: [Pareto],
    ContinuousBernoulli: [Pareto],
    Exponential: [Beta, ContinuousBernoulli, Pareto, Uniform],
    Gamma: [Beta, ContinuousBernoulli, Pareto, Uniform],
    Gumbel: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Laplace: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Normal: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Pareto: [Beta, ContinuousBernoulli, Uniform],
    Poisson: [Bernoulli, Binomial],
}

for _type_p, _others in _OUTSIDE.items():
    for _type_q in _others:
        register_kl(_type_p, _type_q)(_never_inside)

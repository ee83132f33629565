"""Divergences between two distributions of the same class."""

import rushlight as torch

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .kl import kl_divergence, register_kl
from .laplace import Laplace
from .lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _batch_lowrank_logdet,
    _batch_lowrank_mahalanobis,
)
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p, q):
    softplus = torch.nn.functional.softplus
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    # Where one of them is certain the logits are limits, which are finite.
    ones = ones.masked_fill(q.probs == 0, torch.inf).masked_fill(p.probs == 0, 0)
    return ones + zeros.masked_fill(q.probs == 1, torch.inf).masked_fill(p.probs == 1, 0)


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
    kl[more] = torch.full_like(kl[more], torch.inf)
    return kl


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p, q):
    t = p.probs * (p.logits - q.logits)
    t[(q.probs == 0).expand_as(t)] = torch.inf
    t[(p.probs == 0).expand_as(t)] = 0
    return t.sum(-1)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p, q):
    distance = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return distance.log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p, q):
    own = p._cont_bern_log_norm() + torch.log1p(-p.probs)
    return p.mean * (p.logits - q.logits) + own + (-q._cont_bern_log_norm() - torch.log1p(-q.probs))


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
            + " " * 29  # torch's message has this gap
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


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p, q):
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p, q):
    ratio = p.scale / q.scale
    own, other = p.loc / q.scale, q.loc / q.scale
    tail = torch.exp(other + (1 + ratio).lgamma() - own)
    return -ratio.log() - other + own + ratio * euler_constant + tail - (1 + euler_constant)


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p, q):
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p, q):
    ratio = p.scale / q.scale
    gap = (p.loc - q.loc).abs()
    return -ratio.log() + gap / q.scale + ratio * torch.exp(-gap / p.scale) - 1


def _refuse_unless_one_event_shape(p, q, kind):
    if p.event_shape != q.event_shape:
        gap = " " * 25  # torch's message has this gap
        raise ValueError(
            f"KL-divergence between two {kind} Normals with {gap}different event shapes cannot be computed"
        )


def _square_sum(matrices):
    """The traces of the matrices times their transposes."""
    return matrices.pow(2).sum((-2, -1))


def _seen_by(q):
    """``inv(L) @ W.T @ inv(diag(D))`` for a low-rank covariance, which the Woodbury identity needs."""
    W, D, factor = q._covariance()
    return torch.linalg.solve_triangular(factor, W.mT / D.unsqueeze(-2), upper=False)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_lowrankmultivariatenormal_lowrankmultivariatenormal(p, q):
    _refuse_unless_one_event_shape(p, q, "Low Rank Multivariate")
    (p_factor, p_diagonal, _), (q_factor, q_diagonal, capacitance) = p._covariance(), q._covariance()
    log_det = _batch_lowrank_logdet(*q._covariance()) - _batch_lowrank_logdet(*p._covariance())
    distance = _batch_lowrank_mahalanobis(q_factor, q_diagonal, q.loc - p.loc, capacitance)
    seen = _seen_by(q)
    trace = (p_diagonal / q_diagonal).sum(-1) + _square_sum(p_factor * q_diagonal.rsqrt().unsqueeze(-1))
    trace = trace - _square_sum(seen * p_diagonal.sqrt().unsqueeze(-2)) - _square_sum(seen.matmul(p_factor))
    return 0.5 * (log_det + trace + distance - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_lowrankmultivariatenormal(p, q):
    _refuse_unless_one_event_shape(p, q, "(Low Rank) Multivariate")
    own = p._unbroadcasted_scale_tril
    q_factor, q_diagonal, capacitance = q._covariance()
    log_det = _batch_lowrank_logdet(*q._covariance()) - 2 * own.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    distance = _batch_lowrank_mahalanobis(q_factor, q_diagonal, q.loc - p.loc, capacitance)
    trace = _square_sum(own * q_diagonal.rsqrt().unsqueeze(-1)) - _square_sum(_seen_by(q).matmul(own))
    return 0.5 * (log_det + trace + distance - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_lowrankmultivariatenormal_multivariatenormal(p, q):
    _refuse_unless_one_event_shape(p, q, "(Low Rank) Multivariate")
    other = q._unbroadcasted_scale_tril
    p_factor, p_diagonal, _ = p._covariance()
    log_det = 2 * other.diagonal(dim1=-2, dim2=-1).log().sum(-1) - _batch_lowrank_logdet(*p._covariance())
    # The triangular solver broadcasts both arguments.
    trace = _square_sum(torch.linalg.solve_triangular(other, p_factor, upper=False)) + _square_sum(
        torch.linalg.solve_triangular(other, torch.diag_embed(p_diagonal.sqrt()), upper=False)
    )
    return 0.5 * (log_det + trace + _batch_mahalanobis(other, q.loc - p.loc) - p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p, q):
    _refuse_unless_one_event_shape(p, q, "Multivariate")
    own, other = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    half = other.diagonal(dim1=-2, dim2=-1).log().sum(-1) - own.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    trace = _square_sum(torch.linalg.solve_triangular(other, own, upper=False))
    return half + 0.5 * (trace + _batch_mahalanobis(other, q.loc - p.loc) - p.event_shape[0])


@register_kl(Normal, Normal)
def _kl_normal_normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p, q):
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p, q):
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    result[p.support.lower_bound < q.support.lower_bound] = torch.inf
    return result


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p, q):
    if p.transforms != q.transforms:
        raise NotImplementedError(
            f"there is no formula for distributions with different transforms: {p.transforms}, {q.transforms}"
        )
    if p.event_shape != q.event_shape:
        raise NotImplementedError(f"the shapes of the events differ: {tuple(p.event_shape)}, {tuple(q.event_shape)}")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _kl_independent_independent(p, q):
    mine, other = p.reinterpreted_batch_ndims, q.reinterpreted_batch_ndims
    if mine != other:
        raise NotImplementedError(f"reinterpreted_batch_ndims differ: {mine}, {other}")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    result[(q.low > p.low) | (q.high < p.high)] = torch.inf
    return result

"""Compares `torch.distributions` with the numbers of torch 2.13 and with the definition of a density."""

import json
import math
import warnings

import pytest
from distribution_cases import CASES, RECORDED, divergences, record

import rushlight as torch
import rushlight.distributions as D

SAID = json.loads(RECORDED.read_text())
t = torch.tensor


def near(values):
    if values is None or isinstance(values, str):
        return values
    return pytest.approx([float(value) for value in values], rel=5e-5, abs=5e-6, nan_ok=True)


def floats(values):
    return [float(value) for value in values] if isinstance(values, list) else values


@pytest.mark.parametrize("code", CASES)
def test_what_a_distribution_says_is_torchs(code):
    ours, torchs = record(torch, code), dict(SAID["distributions"][code])
    assert ours["text"] == torchs.pop("text")
    gradients = torchs.pop("gradient", [])
    assert [floats(gradient) for gradient in ours.get("gradient", [])][: len(gradients)] == list(map(near, gradients))
    assert {name: floats(ours[name]) for name in torchs} == {name: near(torchs[name]) for name in torchs}


def test_divergences_are_torchs():
    ours = divergences(torch)
    missing = {pair for pair, value in ours.items() if value == "NotImplementedError"}
    assert not missing & set(SAID["divergences"])
    assert {pair: floats(value) for pair, value in ours.items() if pair not in missing} == {
        pair: near(value) for pair, value in SAID["divergences"].items()
    }


DENSITIES = [
    ("D.Cauchy(0.5, 2.0)", -2e4, 2e4),
    ("D.ContinuousBernoulli(t(0.2))", 0, 1),
    ("D.ContinuousBernoulli(t(0.5))", 0, 1),
    ("D.GeneralizedPareto(1.0, 2.0, 0.25)", 1, 2000),
    ("D.GeneralizedPareto(1.0, 2.0, 0.0)", 1, 80),
    ("D.GeneralizedPareto(1.0, 2.0, -0.5)", 1, 5),
    ("D.Gumbel(0.5, 2.0)", -9, 60),
    ("D.HalfCauchy(2.0)", 0, 4e4),
    ("D.HalfNormal(2.0)", 0, 20),
    ("D.InverseGamma(3.0, 2.0)", 1e-3, 1000),
    ("D.Kumaraswamy(2.0, 3.0)", 0, 1),
    ("D.Pareto(2.0, 3.0)", 2, 1000),
    ("D.RelaxedBernoulli(t(0.75), t(0.4))", 1e-6, 1 - 1e-6),
    ("D.VonMises(0.5, 3.0)", -math.pi, math.pi),
    ("D.Weibull(2.0, 1.5)", 0, 60),
]


WITHOUT_CDF = ["D.RelaxedBernoulli(t(0.75), t(0.4))", "D.VonMises(0.5, 3.0)"]
WITHOUT_ICDF = ["D.InverseGamma(3.0, 2.0)"]


@pytest.mark.parametrize(("code", "low", "high"), DENSITIES)
def test_a_density_sums_to_one_and_is_the_slope_of_what_is_below(code, low, high):
    torch.set_default_dtype(torch.float64)
    try:
        distribution = eval(code)
        # Closer together near the ends, where some densities are steep.
        x = low + (high - low) * (torch.sin(torch.linspace(-1, 1, 200001)[1:-1] * (math.pi / 2)) + 1) / 2
        x.requires_grad_()
        density = distribution.log_prob(x).exp()
        assert torch.trapezoid(density, x).item() == pytest.approx(1, abs=2e-3)
        if code not in WITHOUT_CDF:
            below = distribution.cdf(x)
            (slope,) = torch.autograd.grad(below.sum(), x)
            torch.testing.assert_close(slope, density, rtol=1e-6, atol=1e-6)
            if code not in WITHOUT_ICDF:
                inner = (below > 1e-3) & (below < 1 - 1e-3)
                torch.testing.assert_close(distribution.icdf(below[inner]), x[inner], rtol=1e-6, atol=1e-9)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "code",
    [
        "D.ContinuousBernoulli(t(0.2))",
        "D.GeneralizedPareto(1.0, 2.0, -0.5)",
        "D.Geometric(t(0.3))",
        "D.Gumbel(0.5, 2.0)",
        "D.HalfNormal(2.0)",
        "D.InverseGamma(6.0, 2.0)",
        "D.Kumaraswamy(2.0, 3.0)",
        "D.LowRankMultivariateNormal(t([0.5, -1.0]), t([[1.0], [0.5]]), t([1.0, 2.0]))",
        "D.Pareto(2.0, 6.0)",
        "D.Weibull(2.0, 1.5)",
        "D.Wishart(t(5.0), t([[2.0, 0.5], [0.5, 1.0]]))",
    ],
)
def test_many_samples_have_the_mean_and_variance(code):
    torch.manual_seed(0)
    distribution = eval(code)
    drawn = distribution.sample((100_000,))
    torch.testing.assert_close(drawn.mean(0), distribution.mean, rtol=0.03, atol=0.01)
    torch.testing.assert_close(drawn.var(0), distribution.variance, rtol=0.1, atol=0.01)


def test_factors_of_correlation_matrices():
    torch.manual_seed(0)
    drawn = D.LKJCholesky(4, 0.7).sample((500,))
    assert D.constraints.corr_cholesky.check(drawn).all()
    # With concentration one, the correlation of two variables is uniform.
    wide = D.LKJCholesky(2, 1.0).sample((20_000,))[:, 1, 0]
    assert wide.mean().item() == pytest.approx(0, abs=0.02) and wide.var().item() == pytest.approx(1 / 3, abs=0.02)


def test_angles_lie_on_the_circle():
    torch.manual_seed(0)
    drawn = D.VonMises(t([0.0, 3.0]), 4.0).sample((20_000,))
    assert drawn.abs().max() <= math.pi
    center = torch.atan2(drawn.sin().mean(0), drawn.cos().mean(0))
    torch.testing.assert_close(center, t([0.0, 3.0]), rtol=0, atol=0.02)


def test_a_wishart_distribution_warns_of_what_is_singular_alone():
    with pytest.warns(UserWarning, match="^Low df values detected. Singular samples are highly likely") as seen:
        D.Wishart(1.5, torch.eye(2))
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert D.constraints.positive_definite.check(D.Wishart(4.0, torch.eye(2)).sample((100,))).all()


@pytest.mark.parametrize(
    ("code", "kind", "sentence"),
    [
        ("D.Cauchy(0.0, -1.0)", ValueError, "Expected parameter scale (Tensor of shape ()) of distribution Cauchy(loc"),
        ("D.ContinuousBernoulli(2.0, validate_args=True)", ValueError, "The parameter probs has invalid values"),
        (
            "D.Geometric(0.0)",
            ValueError,
            "Expected parameter probs (Tensor of shape ()) of distribution Geometric(probs",
        ),
        ("D.Geometric()", ValueError, "Either `probs` or `logits` must be specified, but not both."),
        (
            "D.HalfNormal(1.0).log_prob(t(-1.0))",
            ValueError,
            "Expected value argument (Tensor of shape ()) to be within",
        ),
        ("D.LKJCholesky(1)", ValueError, "Expected dim to be an integer greater than or equal to 2. Found dim=1."),
        ("D.LowRankMultivariateNormal(t(1.0), t(1.0), t(1.0))", ValueError, "loc must be at least one-dimensional."),
        (
            "D.LowRankMultivariateNormal(torch.ones(3, 2), torch.ones(2, 2, 1), torch.ones(2))",
            ValueError,
            "Incompatible batch shapes: loc torch.Size([3, 2]), cov_factor torch.Size([2, 2, 1]), cov_diag",
        ),
        ("D.RelaxedBernoulli(t(1.0))", ValueError, "Either `probs` or `logits` must be specified, but not both."),
        ("D.Wishart(3.0)", AssertionError, "Exactly one of covariance_matrix or precision_matrix or scale_tril may be"),
        ("D.Wishart(1.0, torch.eye(2))", ValueError, "Value of df=1.0 expected to be greater than ndim - 1 = 1."),
        (
            "D.kl_divergence(D.MultivariateNormal(torch.zeros(2), torch.eye(2)),"
            " D.MultivariateNormal(torch.zeros(3), torch.eye(3)))",
            ValueError,
            "KL-divergence between two Multivariate Normals with",
        ),
        ("D.Poisson(1.0).entropy()", NotImplementedError, ""),
        ("D.Normal(0.0, 1.0).sample(2)", TypeError, "'int' object is not iterable"),
    ],
)
def test_errors(code, kind, sentence):
    with pytest.raises(kind) as caught:
        eval(code)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("code", CASES)
def test_expansion_gives_a_distribution_of_the_same_kind(code):
    distribution = eval(code)
    shape = (3, *distribution.batch_shape)
    wide = distribution.expand(shape)
    assert type(wide) is type(distribution) and wide.batch_shape == shape
    drawn = wide.sample()
    assert drawn.shape == shape + distribution.event_shape
    torch.testing.assert_close(wide.log_prob(drawn), distribution.log_prob(drawn))

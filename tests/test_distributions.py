"""`torch.distributions`: samples, densities, entropies and divergences, compared with recorded values of torch 2.13."""

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

import rushlight as torch
import rushlight.distributions as D

NAN, INF = math.nan, math.inf
t = torch.tensor


def flat(tensor):
    return tensor.reshape(-1).tolist()


def near(values):
    return pytest.approx(values, rel=2e-5, abs=2e-6, nan_ok=True)


#: A distribution, its text, samples with seed 3, their log densities, and the entropy.
SAMPLES = [
    (
        "D.Normal(t([0.5, -1.0]), t([1.0, 2.0]))",
        "Normal(loc: torch.Size([2]), scale: torch.Size([2]))",
        [1.30328, -0.650333, 0.588978, -2.22744],
        [-1.24156, -1.62737, -0.922897, -1.80041],
        [1.41894, 2.11209],
    ),
    (
        "D.Uniform(t([0.0, 1.0]), t([2.0, 5.0]))",
        "Uniform(low: torch.Size([2]), high: torch.Size([2]))",
        [0.00852704, 1.42228, 0.571685, 1.10782],
        [-0.693147, -1.38629, -0.693147, -1.38629],
        [0.693147, 1.38629],
    ),
    (
        "D.Exponential(t([0.5, 3.0]))",
        "Exponential(rate: torch.Size([2]))",
        [0.0694069, 0.112637, 2.96486, 0.0640945],
        [-0.727851, 0.760703, -2.17558, 0.906329],
        [1.69315, -0.0986123],
    ),
    (
        "D.Laplace(t([0.0, 1.0]), t([1.0, 0.2]))",
        "Laplace(loc: torch.Size([2]), scale: torch.Size([2]))",
        [-4.7645, 0.688952, -0.559167, 0.415911],
        [-5.45765, -0.638949, -1.25231, -2.00415],
        [1.69315, 0.0837093],
    ),
    (
        "D.Bernoulli(t([0.2, 0.7]))",
        "Bernoulli(probs: torch.Size([2]), logits: torch.Size([2]))",
        [1.0, 1.0, 0.0, 1.0],
        [-1.60944, -0.356675, -0.223144, -0.356675],
        [0.500402, 0.610864],
    ),
    (
        "D.Categorical(t([[1.0, 2.0, 3.0], [0.1, 0.1, 0.8]]))",
        "Categorical(probs: torch.Size([2, 3]), logits: torch.Size([2, 3]))",
        [0.0, 2.0, 1.0, 1.0],
        [-1.79176, -0.223144, -1.09861, -2.30259],
        [1.0114, 0.639032],
    ),
    (
        "D.OneHotCategorical(t([1.0, 2.0, 3.0]))",
        "OneHotCategorical()",
        [1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        [-1.79176, -1.09861],
        [1.0114],
    ),
    (
        "D.Multinomial(5, t([1.0, 2.0, 3.0]))",
        "Multinomial()",
        [1.0, 2.0, 2.0, 0.0, 3.0, 2.0],
        [-1.97408, -2.37955],
        [2.54573],
    ),
    (
        "D.LogNormal(t([0.0, 1.0]), t([1.0, 0.2]))",
        "LogNormal()",
        [2.23284, 2.81501, 1.09306, 2.40429],
        [-2.04484, -0.359751, -1.01188, -0.375082],
        [1.41894, 0.809501],
    ),
    (
        "D.Independent(D.Normal(t([0.0, 1.0]), 1.0), 1)",
        "Independent(Normal(loc: torch.Size([2]), scale: torch.Size([2])), 1)",
        [0.803276, 1.17483, 0.0889781, 0.386282],
        [-2.17579, -2.03016],
        [2.83788],
    ),
    (
        "D.MixtureSameFamily(D.Categorical(t([1.0, 2.0])), D.Normal(t([0.0, 3.0]), t([1.0, 0.5])))",
        "MixtureSameFamily(\n  Categorical(probs: torch.Size([2]), logits: torch.Size([2])),\n  Normal(loc: torch.Size([2]), scale: torch.Size([2])))",
        [0.0889781, 0.0461824],
        [-2.02151, -2.01862],
        None,
    ),
    (
        "D.TransformedDistribution(D.Normal(t([0.0, 1.0]), 1.0), [D.AffineTransform(1.0, -2.0), D.SigmoidTransform()])",
        "TransformedDistribution()",
        [0.352846, 0.205925, 0.69467, 0.556615],
        [-0.457817, 0.183452, -0.0653637, -0.401212],
        None,
    ),
    (
        "D.TransformedDistribution(D.Normal(t([0.0, 1.0]), 1.0), [D.StickBreakingTransform()])",
        "TransformedDistribution()",
        [0.527504, 0.360995, 0.111501, 0.35339, 0.384983, 0.261626],
        [1.67643, 1.30541],
        None,
    ),
]


@pytest.mark.parametrize(("code", "text", "sample", "log_prob", "entropy"), SAMPLES, ids=lambda value: str(value)[:30])
def test_samples_are_torchs(code, text, sample, log_prob, entropy):
    distribution = eval(code)
    torch.manual_seed(3)
    drawn = distribution.sample((2,))
    assert flat(drawn) == near(sample)
    if entropy is None:
        with pytest.raises(NotImplementedError):
            distribution.entropy()
    else:
        assert flat(distribution.entropy()) == near(entropy)
    assert repr(distribution) == text
    assert flat(distribution.log_prob(drawn)) == near(log_prob)


#: A distribution, a value, its log density, entropy, mean, variance.
VALUES = [
    (
        "D.Gamma(t([0.5, 3.0]), 2.0)",
        "t([0.5, 2.0])",
        [-0.879218, -1.22741],
        [-0.602538, 1.15443],
        [0.25, 1.5],
        [0.125, 0.75],
    ),
    (
        "D.Beta(t([0.5, 3.0]), 2.0)",
        "t([0.5, 0.25])",
        [-0.634256, -0.575364],
        [-0.765279, -0.234906],
        [0.2, 0.6],
        [0.0457143, 0.04],
    ),
    (
        "D.Dirichlet(t([0.5, 3.0]))",
        "t([0.25, 0.75])",
        [0.0532445],
        [-1.10805],
        [0.142857, 0.857143],
        [0.0272109, 0.0272109],
    ),
    (
        "D.StudentT(t([0.5, 3.0]), 1.0, 2.0)",
        "t([0.5, 2.0])",
        [-2.09202, -1.85412],
        [4.35988, 2.46662],
        [NAN, 1.0],
        [NAN, 12.0],
    ),
    ("D.Poisson(t([0.5, 3.0]))", "t([1.0, 2.0])", [-1.19315, -1.49592], None, [0.5, 3.0], [0.5, 3.0]),
    (
        "D.Binomial(7, t([0.25, 0.5]))",
        "t([1.0, 7.0])",
        [-1.16648, -4.85203],
        [1.52413, 1.69588],
        [1.75, 3.5],
        [1.3125, 1.75],
    ),
    (
        "D.FisherSnedecor(t([3.0, 5.0]), t([5.0, 6.0]))",
        "t([0.5, 2.0])",
        [-0.53441, -1.83066],
        None,
        [1.66667, 1.5],
        [11.1111, 4.05],
    ),
    (
        "D.NegativeBinomial(t([3.0, 8.0]), t([0.25, 0.5]))",
        "t([1.0, 2.0])",
        [-1.15073, -3.34795],
        None,
        [1.0, 8.0],
        [1.33333, 16.0],
    ),
    ("D.Chi2(t([1.0, 5.0]))", "t([0.5, 2.0])", [-0.822365, -1.97783], [0.783757, 2.42309], [1.0, 5.0], [2.0, 10.0]),
]


@pytest.mark.parametrize(
    ("code", "value", "log_prob", "entropy", "mean", "variance"), VALUES, ids=lambda v: str(v)[:30]
)
def test_values_are_torchs(code, value, log_prob, entropy, mean, variance):
    distribution = eval(code)
    assert flat(distribution.log_prob(eval(value))) == near(log_prob)
    if entropy is not None:
        assert flat(distribution.entropy()) == near(entropy)
    assert flat(distribution.mean) == near(mean) and flat(distribution.variance) == near(variance)


DIVERGENCES = [
    ("D.Normal(0.0, 1.0)", "D.Normal(1.0, 2.0)", 0.443147),
    ("D.Normal(0.0, 1.0)", "D.Laplace(1.0, 2.0)", 0.550671),
    ("D.Laplace(0.5, 1.0)", "D.Normal(1.0, 2.0)", 0.200189),
    ("D.Bernoulli(0.25)", "D.Bernoulli(0.5)", 0.130812),
    ("D.Categorical(t([1.0, 3.0]))", "D.Categorical(t([1.0, 1.0]))", 0.130812),
    ("D.Gamma(2.0, 1.0)", "D.Gamma(1.0, 3.0)", 3.32417),
    ("D.Gamma(2.0, 1.0)", "D.Normal(1.0, 3.0)", 0.607002),
    ("D.Beta(2.0, 3.0)", "D.Beta(1.0, 1.0)", 0.234907),
    ("D.Beta(2.0, 3.0)", "D.Normal(0.0, 1.0)", 1.25384),
    ("D.Dirichlet(t([1.0, 2.0]))", "D.Dirichlet(t([2.0, 2.0]))", 0.401388),
    ("D.Exponential(1.0)", "D.Gamma(2.0, 1.0)", 0.577216),
    ("D.Uniform(0.0, 1.0)", "D.Normal(0.0, 1.0)", 1.08561),
    ("D.Uniform(0.25, 0.5)", "D.Beta(2.0, 2.0)", 1.07129),
    ("D.Poisson(2.0)", "D.Poisson(3.0)", 0.18907),
    ("D.Binomial(3, t(0.25))", "D.Binomial(3, t(0.5))", 0.392436),
    ("D.LogNormal(0.0, 1.0)", "D.LogNormal(1.0, 2.0)", 0.443147),
    ("D.Normal(0.0, 1.0)", "D.Uniform(0.0, 1.0)", INF),
    ("D.Poisson(1.0)", "D.Bernoulli(0.5)", INF),
]


@pytest.mark.parametrize(("p", "q", "value"), DIVERGENCES)
def test_divergences_are_torchs(p, q, value):
    assert D.kl_divergence(eval(p), eval(q)).item() == near(value)


@pytest.mark.parametrize(
    ("code", "kind", "sentence"),
    [
        (
            "D.Normal(0.0, -1.0)",
            ValueError,
            "Expected parameter scale (Tensor of shape ()) of distribution Normal(loc: 0.0, scale: -1.0) to satisfy the "
            "constraint GreaterThan(lower_bound=0.0), but found invalid values:\n-1.0",
        ),
        ("D.Categorical()", ValueError, "Either `probs` or `logits` must be specified, but not both."),
        ("D.Categorical(t(1.0))", ValueError, "`probs` parameter must be at least one-dimensional."),
        ("D.Normal('a', 1.0)", ValueError, "Input arguments must all be instances of Number"),
        (
            "D.Normal(0.0, 1.0).log_prob(3)",
            ValueError,
            "The value argument to log_prob must be a Tensor",
        ),
        (
            "D.Normal(torch.zeros(2), 1.0).log_prob(torch.ones(3))",
            ValueError,
            "Value is not broadcastable with batch_shape+event_shape: torch.Size([3]) vs torch.Size([2]).",
        ),
        (
            "D.Bernoulli(0.5).log_prob(t(0.5))",
            ValueError,
            "Expected value argument (Tensor of shape ()) to be within the support (Boolean()) of the distribution "
            "Bernoulli(probs: 0.5), but found invalid values:\n0.5",
        ),
        (
            "D.kl_divergence(D.Normal(0.0, 1.0), D.Categorical(torch.ones(2)))",
            NotImplementedError,
            "No KL(p || q) is implemented for p type Normal and q type Categorical",
        ),
        ("D.Independent(D.Normal(0.0, 1.0), 1)", ValueError, "Expected reinterpreted_batch_ndims <= len("),
        ("D.transform_to(D.constraints.one_hot)", NotImplementedError, "Cannot transform _OneHot constraints"),
        ("D.Multinomial(t(3), torch.ones(2))", NotImplementedError, "inhomogeneous total_count is not supported"),
    ],
)
def test_errors(code, kind, sentence):
    with pytest.raises(kind) as caught:
        eval(code)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("D.constraints.stack([1])", "All elements of cseq must be Constraint instances"),
        ("D.constraints.cat([D.constraints.real], 0, [1, 2])", "lengths (2) must match cseq (1)"),
        ("D.constraints.cat([D.constraints.real], 4).check(x)", "dim 4 out of range for value with 1 dimensions"),
        ("D.constraints.stack([D.constraints.real], 4).check(x)", "dim 4 out of range for value with 1 dimensions"),
        ("D.constraints.independent(1, 1)", "base_constraint must be a Constraint, got int"),
        (
            "D.constraints.independent(D.constraints.real, 'a')",
            "reinterpreted_batch_ndims must be an int, got str",
        ),
        ("D.constraints.independent(D.constraints.real, -1)", "reinterpreted_batch_ndims must be >= 0, got -1"),
        ("D.CatTransform([1])", "All elements of tseq must be Transform instances"),
        ("D.CatTransform([exp], 0, [1, 2])", "lengths (2) must match transforms (1)"),
        ("D.CatTransform([exp], 0, [2])(x)", "x.size(0) = 3 must equal length 2"),
        ("D.CatTransform([exp], 0, [2]).inv(x)", "y.size(0) = 3 must equal length 2"),
        ("D.CatTransform([exp], 4, [2])(x)", "dim 4 out of range for tensor with 1 dimensions"),
        ("D.CatTransform([exp], 4, [2]).log_abs_det_jacobian(x, x)", "dim 4 out of range for x with 1 dimensions"),
        ("D.StackTransform([1])", "All elements of tseq must be Transform instances"),
        ("D.StackTransform([exp])(x)", "x.size(0) = 3 must equal len(transforms) 1"),
        ("D.StackTransform([exp], 4)(x)", "dim 4 out of range for tensor with 1 dimensions"),
    ],
)
def test_parts_that_do_not_fit(code, sentence):
    with pytest.raises(AssertionError) as caught:
        eval(code, {"D": D, "exp": D.ExpTransform(), "x": torch.ones(3)})
    assert str(caught.value) == sentence


def test_errors_of_constructors_name_the_class():
    for kind in (D.Normal, D.Laplace, D.Cauchy):
        with pytest.raises(TypeError, match=rf"^{kind.__name__}.__init__\(\) missing 2 required positional arguments"):
            kind()


def test_checks_can_be_left_out():
    assert math.isnan(D.Normal(0.0, -1.0, validate_args=False).log_prob(t(0.0)).item())


TRANSFORMS = [
    "D.ExpTransform()",
    "D.AffineTransform(1.0, -2.0)",
    "D.SigmoidTransform()",
    "D.TanhTransform()",
    "D.SoftplusTransform()",
    "D.PowerTransform(3.0)",
    "D.StickBreakingTransform()",
    "D.ComposeTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)])",
    "D.IndependentTransform(D.ExpTransform(), 1)",
    "D.ReshapeTransform((3,), (3, 1))",
    "D.StackTransform([D.ExpTransform(), D.TanhTransform()], 0)",
    "D.CatTransform([D.ExpTransform(), D.TanhTransform()], 1, [1, 2])",
    "D.CorrCholeskyTransform()",
]


@pytest.mark.parametrize("code", TRANSFORMS)
def test_inverses_invert(code):
    transform = eval(code)
    x = t([[0.1, 0.5, 0.2], [0.3, 0.9, 1.4]], dtype=torch.float64)
    y = transform(x)
    torch.testing.assert_close(transform.inv(y), x, rtol=1e-6, atol=1e-6)
    slope = transform.log_abs_det_jacobian(x, y)
    torch.testing.assert_close(transform.inv.log_abs_det_jacobian(y, x), -slope)
    assert transform.inv.inv == transform and transform.forward_shape(x.shape) == y.shape


@pytest.mark.parametrize(
    "code", ["D.ExpTransform()", "D.TanhTransform()", "D.SigmoidTransform()", "D.SoftplusTransform()"]
)
def test_slopes_are_the_derivatives(code):
    transform = eval(code)
    x = t([0.1, -0.5, 1.2], dtype=torch.float64, requires_grad=True)
    y = transform(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(transform.log_abs_det_jacobian(x, y), slope.abs().log())


def test_a_cache_gives_back_the_same_tensor():
    transform = D.SigmoidTransform(cache_size=1)
    x = torch.tensor([40.0])  # its sigmoid rounds to one
    assert transform.inv(transform(x)) is x


@pytest.mark.parametrize(
    "code", ["positive", "unit_interval", "simplex", "lower_cholesky", "corr_cholesky", "interval(-1.0, 3.0)", "real"]
)
def test_constraints_are_met_by_their_transforms(code):
    constraint = eval(f"D.constraints.{code}")
    vector = torch.tensor([0.3, -2.0, 0.7])
    x = torch.randn(3, 3) if code == "lower_cholesky" else vector
    assert constraint.check(D.transform_to(constraint)(x)).all()
    assert constraint.check(D.biject_to(constraint)(x)).all()


def test_gradients_reach_the_parameters():
    loc = torch.zeros(2, requires_grad=True)
    D.Normal(loc, 1.0).rsample((3,)).sum().backward()
    assert loc.grad.tolist() == [3, 3]
    logits = torch.zeros(3, requires_grad=True)
    D.Categorical(logits=logits).log_prob(t(1)).backward()
    assert logits.grad.tolist() == near([-1 / 3, 2 / 3, -1 / 3])


def test_expansion_keeps_parameters_and_checks():
    wide = D.Categorical(t([1.0, 3.0]), validate_args=False).expand((4,))
    assert wide.batch_shape == (4,) and wide.sample((2,)).shape == (2, 4) and wide._validate_args is False
    assert D.LogNormal(0.0, 1.0).expand((3,)).rsample().shape == (3,)


def test_every_value_of_a_discrete_distribution():
    assert D.Categorical(torch.ones(2, 3)).enumerate_support().tolist() == [[0, 0], [1, 1], [2, 2]]
    assert D.OneHotCategorical(torch.ones(2)).enumerate_support().tolist() == [[1, 0], [0, 1]]


def test_a_formula_of_ones_own():
    class Mine(D.Normal):
        pass

    class Stranger:
        """Behaves like a distribution without being one."""

    with pytest.raises(TypeError, match="must be a class"):
        D.register_kl(1, Mine)

    @D.register_kl(Mine, Stranger)
    def to_strangers(p, q):
        return torch.tensor(8.0)

    assert D.kl_divergence(Mine(0.0, 1.0), Stranger()).item() == 8

    @D.register_kl(Mine, Mine)
    def divergence(p, q):
        return torch.tensor(7.0)

    assert D.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0)).item() == 7
    assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 0


def test_distributions_travel():
    assert pickle.loads(pickle.dumps(D.Normal(1.0, 2.0))).scale.item() == 2


def test_it_loads_on_first_use():
    code = "import sys, rushlight; assert 'rushlight.distributions' not in sys.modules; rushlight.distributions.Normal"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


#: Samples with seed 3 of distributions with rejection sampling.
PROPOSED = [
    ("D.Gamma(t([0.5, 3.0]), 2.0)", [0.368875, 3.22363, 0.12051, 2.34102, 0.144999, 0.895549]),
    ("D.Chi2(t([1.0, 5.0]))", [1.4755, 11.378, 0.482038, 8.04357, 0.579994, 2.77711]),
    ("D.Beta(t([0.5, 3.0]), 2.0)", [0.130806, 0.617333, 0.0228494, 0.685427, 0.00201159, 0.418823]),
    (
        "D.Dirichlet(t([0.5, 1.0, 3.0]))",
        [0.126525, 0.546308, 0.327167, 0.0406972, 0.177509, 0.781794, 0.000269413, 0.160258, 0.839473],
    ),
    ("D.StudentT(t([0.5, 5.0]), 1.0, 2.0)", [3.35163, 1.32837, 1.96689, -0.195083, 1.08228, -2.27178]),
    ("D.Poisson(t([0.5, 40.0]))", [0.0, 36.0, 0.0, 45.0, 0.0, 39.0]),
    ("D.Binomial(7, t([0.25, 0.75]))", [0.0, 5.0, 2.0, 5.0, 1.0, 5.0]),
    ("D.Binomial(90, t([0.25, 0.75]))", [12.0, 64.0, 26.0, 72.0, 21.0, 72.0]),
    (
        "D.FisherSnedecor(t([3.0, 5.0]), t([5.0, 6.0]))",
        [3.35312, 0.917099, 0.528823, 0.201921, 0.25583, 3.68881],
    ),
    ("D.NegativeBinomial(t([3.0, 8.0]), t([0.25, 0.5]))", [1.0, 7.0, 0.0, 2.0, 0.0, 11.0]),
]


@pytest.mark.parametrize(("code", "sample"), PROPOSED)
def test_proposed_samples_are_torchs(code, sample):
    torch.manual_seed(3)
    assert flat(eval(code).sample((3,))) == near(sample)


@pytest.mark.parametrize(
    ("code", "gradient"),
    [
        ("D.Gamma(p, 2.0)", [0.63467, 6.9667, 14.316]),
        ("D.Beta(p, 2.0)", [0.39777, 0.21019, 0.02673]),
        ("D.Dirichlet(p)", [-0.18576, -0.091323, 0.027723]),
    ],
)
def test_proposed_samples_move_with_their_parameters(code, gradient):
    p = t([0.3, 3.0, 12.0], requires_grad=True)
    torch.manual_seed(3)
    eval(code).rsample((2,)).pow(2).sum().backward()
    assert p.grad.tolist() == pytest.approx(gradient, rel=1e-3)


@pytest.mark.parametrize("kind", [D.Normal, D.Laplace])
def test_distributions_of_a_place_and_a_width(kind):
    class Named(kind):
        """A subclass without changes."""

    class Unit(kind):
        def __init__(self, loc):
            super().__init__(loc, 1.0)

    wide = Named(t([0.0, 1.0]), 2.0).expand((3, 2))
    assert type(wide) is Named and wide.batch_shape == wide.sample().shape == (3, 2)
    assert wide.mean is wide.mode is wide.loc and wide.scale.tolist() == [[2.0, 2.0]] * 3
    with pytest.raises(NotImplementedError, match=f"Subclass Unit of {kind.__name__} that defines a custom __init__"):
        Unit(0.0).expand((3,))
    with pytest.raises(ValueError, match="Expected parameter scale"):
        kind(0.0, -1.0)


def test_a_mixture_gives_what_all_its_components_may_give():
    constraint = D.constraints.MixtureSameFamilyConstraint(D.constraints.interval(t([0.0, 1.0]), t([2.0, 3.0])))
    assert constraint.check(t([1.5, 0.5, 2.5])).tolist() == [True, False, False]
    vectors = D.constraints.MixtureSameFamilyConstraint(D.constraints.simplex)
    assert vectors.check(t([[0.5, 0.5], [1.0, 1.0]])).tolist() == [True, False]


def test_parameters_are_numbers_of_python_or_tensors():
    for make in (lambda p: D.Normal(p, 1.0), D.Bernoulli, lambda p: D.Gamma(p, 1.0)):
        with pytest.raises(ValueError, match="Input arguments must all be instances of Number, torch.Tensor or"):
            make(np.float32(0.5))
        make(np.float64(0.5))  # a subclass of Python's float


def test_the_divergence_of_certain_bernoullis_is_infinite():
    p, q = torch.tensor([0.0, 1.0, 0.5, 0.5, 0.0, 1.0]), torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 1.0])
    found = D.kl_divergence(D.Bernoulli(p), D.Bernoulli(q))
    assert found.tolist() == [math.inf] * 4 + [0.0, 0.0]
    p = torch.tensor([0.3, 0.7], requires_grad=True)
    (slope,) = torch.autograd.grad(D.kl_divergence(D.Bernoulli(p), D.Bernoulli(torch.tensor([0.5, 0.2]))).sum(), p)
    assert torch.allclose(slope, (p / (1 - p)).log() - torch.tensor([1.0, 0.25]).log())

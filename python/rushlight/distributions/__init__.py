"""`torch.distributions`: probability distributions with samples, densities, and divergences between them.

Samples come from torch's own random streams. A gradient reaches parameters through `rsample`, or through `log_prob`:

>>> probs = torch.tensor([0.2, 0.8], requires_grad=True)
>>> m = torch.distributions.Categorical(probs)
>>> action = torch.tensor(1)
>>> loss = -m.log_prob(action) * 2.0
>>> loss.backward()
>>> probs.grad
tensor([ 2.0000, -0.5000])
"""

from . import constraints, transforms
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .chi2 import Chi2
from .constraint_registry import biject_to, transform_to
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .fishersnedecor import FisherSnedecor
from .gamma import Gamma
from .independent import Independent
from .kl import kl_divergence, register_kl
from .laplace import Laplace
from .log_normal import LogNormal
from .mixture_same_family import MixtureSameFamily
from .multinomial import Multinomial
from .multivariate_normal import MultivariateNormal
from .negative_binomial import NegativeBinomial
from .normal import Normal
from .one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
from .poisson import Poisson
from .studentT import StudentT
from .transformed_distribution import TransformedDistribution
from .transforms import *  # noqa: F403
from .uniform import Uniform

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Chi2",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "Independent",
    "LogNormal",
    "Laplace",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
    *transforms.__all__,
]


def __dir__() -> list[str]:
    return [*__all__, "constraints", "kl", "transforms"]

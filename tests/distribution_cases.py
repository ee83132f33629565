"""Distributions that `test_distribution_records.py` compares with torch 2.13.

`python tests/distribution_cases.py` needs torch and writes `tests/data/distributions.json`.
"""

import json
import math
import warnings
from pathlib import Path

RECORDED = Path(__file__).resolve().parent / "data" / "distributions.json"

#: `D` is the module, `t` creates a tensor. The classes of older tests are listed once, for the divergences.
CASES = [
    "D.Bernoulli(t([0.2, 0.7]))",
    "D.Beta(t([0.5, 3.0]), t([2.0, 1.5]))",
    "D.Binomial(10, t([0.2, 0.7]))",
    "D.Categorical(t([[1.0, 2.0, 3.0], [0.1, 0.1, 0.8]]))",
    "D.Cauchy(t([0.5, -1.0]), t([1.0, 2.0]))",
    "D.Cauchy(0, 1)",
    "D.Chi2(t([1.0, 5.0]))",
    "D.ContinuousBernoulli(t([0.2, 0.5]))",
    "D.ContinuousBernoulli(logits=t([0.2, -3.0, 0.0]))",
    "D.Dirichlet(t([0.5, 3.0]))",
    "D.Exponential(t([0.5, 3.0]))",
    "D.FisherSnedecor(t([3.0, 5.0]), t([5.0, 6.0]))",
    "D.Gamma(t([0.5, 3.0]), t([2.0, 1.0]))",
    "D.GeneralizedPareto(t([0.0, 1.0]), t([1.0, 2.0]), t([0.25, 0.0]))",
    "D.GeneralizedPareto(t([0.0, 1.0]), 1.0, -0.5)",
    "D.GeneralizedPareto(0.0, 1.0, 2.0)",
    "D.Geometric(t([0.2, 0.9]))",
    "D.Geometric(logits=t([0.2, -1.0]))",
    "D.Gumbel(t([0.5, -1.0]), t([1.0, 2.0]))",
    "D.Gumbel(0.0, 1.0)",
    "D.HalfCauchy(t([0.5, 1.0]))",
    "D.HalfNormal(t([0.5, 1.0]))",
    "D.InverseGamma(t([0.5, 3.0]), t([2.0, 1.0]))",
    "D.Kumaraswamy(t([0.5, 3.0]), t([2.0, 1.5]))",
    "D.LKJCholesky(3, t([0.5, 2.0]))",
    "D.LKJCholesky(2)",
    "D.Laplace(t([0.5, -1.0]), t([1.0, 2.0]))",
    "D.LogNormal(t([0.5, -1.0]), t([1.0, 2.0]))",
    "D.LogisticNormal(t([0.5, -1.0]), t([1.0, 2.0]))",
    "D.LogisticNormal(0.0, 1.0)",
    "D.LowRankMultivariateNormal(t([0.5, -1.0]), t([[1.0], [0.5]]), t([1.0, 2.0]))",
    "D.LowRankMultivariateNormal(t([[0.5, -1.0], [0.0, 1.0]]), t([[1.0, 0.2], [0.5, 0.3]]), t([1.0, 2.0]))",
    "D.MultivariateNormal(t([0.5, -1.0]), t([[2.0, 0.5], [0.5, 1.0]]))",
    "D.NegativeBinomial(t([3.0, 8.0]), t([0.25, 0.5]))",
    "D.Normal(t([0.5, -1.0]), t([1.0, 2.0]))",
    "D.OneHotCategorical(t([1.0, 2.0, 3.0]))",
    "D.Pareto(t([1.0, 2.0]), t([3.0, 0.5]))",
    "D.Poisson(t([0.5, 3.0]))",
    "D.RelaxedBernoulli(t(0.5), t([0.2, 0.7]))",
    "D.RelaxedBernoulli(t([0.5, 2.0]), logits=t([0.2, 0.7]))",
    "D.RelaxedOneHotCategorical(t(0.5), t([0.2, 0.7, 1.0]))",
    "D.RelaxedOneHotCategorical(t(0.5), logits=t([[0.2, 0.7], [0.3, 0.1]]))",
    "D.StudentT(t([3.0, 5.0]), t([5.0, 6.0]), t([1.0, 2.0]))",
    "D.Uniform(t([0.25, 0.5]), t([0.75, 2.0]))",
    "D.VonMises(t([0.0, 1.0]), t([2.0, 5.0]))",
    "D.VonMises(t(0.0), t([1e-6, 5.0]))",
    "D.Weibull(t([1.0, 2.0]), t([3.0, 0.5]))",
    "D.Wishart(t(3.0), t([[2.0, 0.5], [0.5, 1.0]]))",
    "D.Wishart(5.0, precision_matrix=t([[2.0, 0.5], [0.5, 1.0]]))",
    "D.Wishart(t([3.0, 4.0]), scale_tril=t([[2.0, 0.0], [0.5, 1.0]]))",
]

#: Compared besides samples, their densities, and the gradients of the densities.
VALUES = ("mean", "mode", "variance", "entropy", "cdf", "icdf")


def numbers(tensor):
    """A tensor's numbers in JSON."""
    values = tensor.detach().double().reshape(-1).tolist()
    return [float(f"{value:.6g}") if math.isfinite(value) else str(value) for value in values]


def record(torch, code):
    """The properties of a distribution, computed with a module that is `torch`."""
    leaves = []

    def leaf(values):
        leaves.append(torch.tensor(values, requires_grad=True))
        return leaves[-1]

    distribution = eval(code, {"D": torch.distributions, "t": leaf})
    torch.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about every sample of a Wishart distribution
        drawn = distribution.sample((2,))
    log_prob = distribution.log_prob(drawn)
    said = {"text": str(distribution), "sample": numbers(drawn), "log_prob": numbers(log_prob)}
    if leaves:
        gradients = torch.autograd.grad(log_prob.sum(), leaves, allow_unused=True)
        said["gradient"] = [None if gradient is None else numbers(gradient) for gradient in gradients]
    arguments = {"entropy": (), "cdf": (drawn,), "icdf": (torch.tensor([[0.1], [0.6]]),)}
    for name in VALUES:
        try:
            value = getattr(distribution, name)
            said[name] = numbers(value(*arguments[name]) if name in arguments else value)
        except NotImplementedError:
            said[name] = "NotImplementedError"
    return said


def divergence(torch, p, q):
    """The divergence between two distributions, if torch has a formula."""
    names = {"D": torch.distributions, "t": torch.tensor}
    try:
        return numbers(torch.distributions.kl_divergence(eval(p, names), eval(q, names)))
    except NotImplementedError:
        return "NotImplementedError"


def divergences(torch):
    """Divergences from the first case of each class to the first of every other, and to all of its own class."""
    kinds = [case.partition("(")[0] for case in CASES]
    firsts = [case for n, case in enumerate(CASES) if kinds[n] not in kinds[:n]]
    pairs = [(p, q) for p in firsts for q in firsts]
    pairs += [(p, q) for p, kind in zip(CASES, kinds) for q, other in zip(CASES, kinds) if kind == other and p != q]
    said = {}
    for p, q in pairs:
        try:
            said[f"{p} | {q}"] = divergence(torch, p, q)
        except (RuntimeError, ValueError):
            pass  # shapes that do not broadcast
    return said


def main():
    import torch

    # The upper triangle of a lower factor has no effect, but torch gives it a gradient.
    said = {code: record(torch, code) for code in CASES}
    said["D.Wishart(t([3.0, 4.0]), scale_tril=t([[2.0, 0.0], [0.5, 1.0]]))"].pop("gradient")
    there = {pair: value for pair, value in divergences(torch).items() if value != "NotImplementedError"}
    lines = [
        ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in part.items()) for part in (said, there)
    ]
    RECORDED.write_text(f'{{"distributions": {{\n{lines[0]}\n}},\n"divergences": {{\n{lines[1]}\n}}}}\n')


if __name__ == "__main__":
    main()

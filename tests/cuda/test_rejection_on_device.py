"""Random numbers by rejection on a device: their moments, their seeds and their ends."""

import pytest
from card import needs_device

import rushlight as torch

pytestmark = needs_device

#: A distribution of two parameters or one, its parameters, and its mean and variance.
REJECTIONS = {
    "gamma": (lambda a, _: torch._standard_gamma(a), [(0.3, 0), (1.0, 0), (20.0, 0)], lambda a, _: (a, a)),
    "poisson": (lambda r, _: torch.poisson(r), [(0.5, 0), (9.5, 0), (300.0, 0)], lambda r, _: (r, r)),
    "binomial": (torch.binomial, [(20, 0.1), (100, 0.4), (50, 0.9)], lambda n, p: (n * p, n * p * (1 - p))),
}


@pytest.mark.parametrize("name", REJECTIONS)
def test_numbers_by_rejection(name):
    """Mean and variance are those of the distribution; numbers follow from the seed, and differ in each call."""
    draw, cases, moments = REJECTIONS[name]
    count = 4000
    for first, second in cases:
        parameters = [torch.full((count,), float(x), device="cuda") for x in (first, second)]
        torch.manual_seed(5)
        x, y = draw(*parameters), draw(*parameters)
        torch.manual_seed(5)
        assert torch.equal(x, draw(*parameters)) and not torch.equal(x, y)
        mean, variance = moments(first, second)
        for sample in (x.double().cpu(), y.double().cpu()):
            assert abs(float(sample.mean()) - mean) < 5 * (variance / count) ** 0.5
            assert 0.8 * variance < float(sample.var()) < 1.2 * variance
            assert name == "gamma" or torch.equal(sample, sample.round())


def test_ends_of_numbers_by_rejection():
    inf, nan = float("inf"), float("nan")
    for device in ("cpu", "cuda"):
        none, all_of_them = torch.poisson(torch.tensor([0.0, inf], device=device)).tolist()
        assert none == 0 and not all_of_them < inf
        counts, chances = torch.tensor([[5.0, nan, inf], [0.0, 1.0, nan]], device=device)
        assert str(torch.binomial(counts, chances).tolist()) == "[0.0, nan, nan]"
        assert torch._standard_gamma(torch.zeros(2, device=device)).min() > 0
        for bad in (-1.0, nan):
            with pytest.raises(RuntimeError, match="invalid Poisson rate, expected rate to be non-negative"):
                torch.poisson(torch.tensor([1.0, bad], device=device))
    # Views and numbers of several shapes are drawn in place.
    x = torch.poisson(torch.full((3, 4), 1e4, device="cuda").t())
    assert x.shape == (4, 3) and (x > 8000).all() and x.unique().numel() > 6

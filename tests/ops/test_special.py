"""Special functions for which NumPy has no reference."""

import math

import pytest

import rushlight as torch


def test_only_round_rounds_integers():
    assert torch.round(torch.tensor([1, 2])).tolist() == [1, 2]
    for options in ({}, {"decimals": 0}):
        with pytest.raises(NotImplementedError, match="^\"round_vml_cpu\" not implemented for 'Long'"):
            torch.special.round(torch.tensor([1, 2]), **options)
    with pytest.raises(TypeError, match=r"^special_round\(\): argument 'decimals' must be int, not str"):
        torch.special.round(torch.ones(2), decimals="x")


@pytest.mark.parametrize(
    "a, x, upper",
    [
        # To 17 digits, computed in higher precision.
        (9900, 10000, 0.15744337553874304),
        (10001, 10100, 0.16107895550326105),
        (20000, 19000, 0.99999999999967631),
        (100000, 100000, 0.49957947788963482),
        (1000000, 1002000, 0.022804095898769863),
        (1e20, 1e20, 0.5 - 1.3298076013381091e-11),
        (1e300, 1e300, 0.5),
        (1e300, 1.1e300, 0),
    ],
)
def test_incomplete_gamma_functions_of_large_parameters(a, x, upper):
    a, x = torch.tensor([a, x], dtype=torch.float64)
    assert torch.igammac(a, x).item() == pytest.approx(upper, rel=1e-10, abs=0)
    assert torch.igamma(a, x).item() == pytest.approx(1 - upper, rel=1e-10, abs=1e-15)


@pytest.mark.parametrize("x", [800.0, 1e308, 1.797e308])
def test_growing_bessel_functions_overflow(x):
    x = torch.tensor([x, -x], dtype=torch.float64)
    assert torch.special.i0(x).tolist() == [math.inf, math.inf]
    assert torch.special.i1(x).tolist() == [math.inf, -math.inf]

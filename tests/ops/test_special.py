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


FAMILIES = [
    *(f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FAMILIES)
def test_polynomials_of_degrees_that_no_integer_holds(name, dtype):
    x = torch.tensor([0.5, 1.0, -1.0, 2.0, 0.0], dtype=dtype)
    for degree in (math.inf, -math.inf, math.nan, 1e19, -1e19, -1.0):
        assert getattr(torch.special, name)(x, degree).tolist() == [0] * 5, degree


@pytest.mark.parametrize("name", FAMILIES)
def test_polynomials_outside_of_the_range_of_a_dtype(name):
    found = getattr(torch.special, name)(torch.tensor(2.0), torch.tensor([20.0, 700.0]))
    wide = getattr(torch.special, name)(torch.tensor(2.0, dtype=torch.float64), torch.tensor([20.0]))
    if name == "laguerre_polynomial_l":
        assert found.isfinite().all()
    else:
        # The next after an infinite one is a difference of two.
        assert found[0] == wide.float() and found[1].isnan()


def test_polynomials_of_great_degrees():
    # By the asymptotic series: sqrt(2 / (pi n sin t)) cos((n + 1 / 2) t - pi / 4) at x = cos t, up to parts of 1 / n.
    n = 3 * 10**7
    angle = math.acos(0.5)
    wanted = math.sqrt(2 / (math.pi * n * math.sin(angle))) * math.cos(
        math.fmod((n + 0.5) * angle, 2 * math.pi) - math.pi / 4
    )
    found = torch.special.legendre_polynomial_p(torch.tensor(0.5, dtype=torch.float64), n).item()
    assert found == pytest.approx(wanted, rel=1e-4)

"""`torch.masked`: each function compared with the same function of the unmasked elements, row by row."""

import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight import masked

#: Four rows: one unmasked, two partly masked, and one completely masked.
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]).bool()

#: Functions with one number per row: the function, the same for a row without a mask, and the result for no elements.
REDUCTIONS = {
    "sum": (masked.sum, torch.sum, 0.0),
    "prod": (masked.prod, torch.prod, 1.0),
    "amax": (masked.amax, torch.amax, -np.inf),
    "amin": (masked.amin, torch.amin, np.inf),
    "mean": (masked.mean, torch.mean, np.nan),
    "median": (masked.median, torch.median, np.nan),
    "logsumexp": (masked.logsumexp, lambda row: torch.logsumexp(row, 0), -np.inf),
    "var": (masked.var, torch.var, np.nan),
    "var of a whole": (lambda *a, **k: masked.var(*a, correction=0, **k), lambda row: row.var(correction=0), np.nan),
    "std": (masked.std, torch.std, np.nan),
    "norm": (lambda x, dim, **k: masked.norm(x, 2.0, dim, **k), torch.linalg.vector_norm, 0.0),
    "norm 1": (lambda x, dim, **k: masked.norm(x, 1.0, dim, **k), lambda row: row.abs().sum(), 0.0),
    "norm inf": (lambda x, dim, **k: masked.norm(x, float("inf"), dim, **k), lambda row: row.abs().amax(), 0.0),
    "norm -inf": (lambda x, dim, **k: masked.norm(x, -float("inf"), dim, **k), lambda row: row.abs().amin(), np.inf),
    "norm 0": (lambda x, dim, **k: masked.norm(x, 0.0, dim, **k), lambda row: (row != 0).sum(), 0.0),
}
#: Functions with as many elements: the function, the same for the unmasked elements, and the value of masked elements.
ROWS = {
    "softmax": (masked.softmax, lambda row: row.softmax(0), 0.0),
    "log_softmax": (masked.log_softmax, lambda row: row.log_softmax(0), -np.inf),
    "softmin": (masked.softmin, lambda row: (-row).softmax(0), 0.0),
    "normalize": (lambda x, dim, **k: masked.normalize(x, 2.0, dim, **k), lambda row: row / row.norm(), 0.0),
}


def values(dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    return (torch.rand(4, 5, generator=generator, dtype=torch.float64) * 9 - 4).to(dtype)


def near(found, wanted):
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), 1e-5, 1e-7)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_sees_what_the_mask_leaves(name, dtype):
    function, plain, _ = REDUCTIONS[name]
    x = values(dtype)
    if not dtype.is_floating_point and name in ("mean", "logsumexp", "var", "var of a whole", "std"):
        wanted = torch.float32 if "mean" not in name and name != "logsumexp" else torch.float64
        x = x.to(wanted)  # those return floating-point numbers
    if not dtype.is_floating_point and name.startswith("norm"):
        x = x.double()
    for dim, laid, mask in (1, x[:3], MASK[:3]), (0, x[:3].t(), MASK[:3].t()), (-1, x[:3], MASK[:3]):
        found = function(laid, dim, mask=mask)
        assert found.dtype == (torch.int64 if x.dtype == torch.int64 else x.dtype)
        left = [row[kept] for row, kept in zip(x, MASK[:3])]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one number has no variance
            near(found, [plain(row).item() for row in left])
        assert torch.equal(function(laid, dim, mask=mask, keepdim=True).squeeze(dim).nan_to_num(), found.nan_to_num())
    near(function(x[:1], 1), [plain(x[0]).item()])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_what_nothing_gives(name):
    function, _, nothing = REDUCTIONS[name]
    near(function(values()[3:], 1, mask=MASK[3:]), [nothing])


@pytest.mark.parametrize("name", [name for name in REDUCTIONS if name != "median"])
def test_a_reduction_of_all_dimensions(name):
    function, plain, _ = REDUCTIONS[name]
    near(function(values(), None, mask=MASK), plain(values()[MASK]).item())
    near(function(values()[:3], (0, 1), mask=MASK[:3, 3:4]), plain(values()[:3].reshape(-1)).item())


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_that_of_what_the_mask_leaves(name):
    function, plain, hidden = ROWS[name]
    x = values()
    for dim, laid, mask in (1, x[:3], MASK[:3]), (0, x[:3].t(), MASK[:3].t()):
        found = function(laid, dim, mask=mask)
        found = found if dim else found.t()
        for row, kept, own in zip(found, MASK[:3], x):
            near(row[kept], plain(own[kept]))
            near(row[~kept], [hidden] * (~kept).sum().item())
    near(function(x, 1), torch.stack([plain(row) for row in x]))


@pytest.mark.parametrize("name, neutral", [("cumsum", 0), ("cumprod", 1)])
def test_running_totals_pass_over_what_is_hidden(name, neutral):
    x = values()
    left = np.where(MASK.numpy(), x.numpy(), neutral)
    for dim in (0, 1):
        near(getattr(masked, name)(x, dim, mask=MASK), getattr(np, name)(left, dim))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_place_of_an_extreme_is_one_that_is_shown(name):
    function, worst = getattr(masked, name), -np.inf if name == "argmax" else np.inf
    x = values()
    left = np.where(MASK.numpy(), x.numpy(), worst)[:3]
    near(function(x[:3], 1, mask=MASK[:3]), getattr(np, name)(left, 1))
    near(function(x[:3], mask=MASK[:3]), getattr(np, name)(left))
    assert function(x[:3], 1, mask=MASK[:3]).dtype == x.dtype and function(x, 1, dtype=torch.int64).dtype == torch.int64


def test_pairs_of_which_each_side_has_a_mask():
    x, y = values()[0], values()[1]
    left, right = MASK[1], MASK[2]
    wanted = np.logaddexp(np.where(left, x, -np.inf), np.where(right, y, -np.inf))
    near(masked.logaddexp(x, y, input_mask=left, other_mask=right), wanted)


@pytest.mark.parametrize("name", [*REDUCTIONS, *ROWS])
def test_no_gradient_comes_from_what_is_hidden(name):
    function = {**REDUCTIONS, **ROWS}[name][0]
    if name == "norm 0":
        pytest.skip("it counts: its gradient is zero everywhere")
    x = values()[:2].requires_grad_()
    found = function(x, 1, mask=MASK[:2])
    weights = torch.arange(found.numel(), dtype=x.dtype).reshape(found.shape) + 1
    shown = MASK[:2] if name in ROWS else found.isfinite()
    (found * weights)[shown].sum().backward()
    assert (x.grad[~MASK[:2]] == 0).all() and x.grad.isfinite().all() and (x.grad != 0).any()


def test_what_is_refused():
    with pytest.raises(IndexError, match="mask dimensionality higher than of the input"):
        masked.sum(torch.ones(2), 0, mask=MASK)
    with pytest.raises(ValueError, match="Could not infer output dtype"):
        masked.mean(torch.ones(2, dtype=torch.int64), 0)
    with pytest.raises(ValueError, match="no fully masked out rows"):
        masked.median(values(torch.int64), 1, mask=MASK)
    with pytest.raises(ValueError, match="Only one of unbiased and correction"):
        masked.var(torch.ones(2), 0, True, correction=1)
    with pytest.raises(NotImplementedError, match="identity of amax"):
        masked.amax(MASK, 0, mask=MASK)


def test_complex_numbers_can_be_left_out_of_a_logarithm_of_sums():
    x = torch.tensor([1 + 2j, 5 - 1j, 0.5j])
    mask = torch.tensor([True, False, True])
    wanted = np.log(np.exp(1 + 2j) + np.exp(0.5j))
    assert np.allclose(torch.masked.logsumexp(x, 0, mask=mask).numpy(), wanted)
    assert torch.masked.logsumexp(torch.tensor([1, 2, 3]), 0, mask=mask).isfinite()

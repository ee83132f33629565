"""Cumulative results and sorts of lines that several threads, blocks or kernels share: results on a device are those of the CPU."""

import pytest
from both_devices import equal
from card import needs_device

import rushlight as torch

pytestmark = needs_device

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8]
#: Shapes and dimensions: one long line, a few, lines across memory, and many short ones.
LINES = [
    ((300000,), 0),
    ((2, 100001), 1),
    ((70000, 3), 0),
    ((2, 9000, 40), 1),
    ((3000, 17), 1),
    ((17, 3000), 0),
    ((0, 4), 1),
]
each_kind = pytest.mark.parametrize("dtype", DTYPES, ids=str)
each_shape = pytest.mark.parametrize(("shape", "dim"), LINES)


def drawn(shape, dtype, special=True):
    """Numbers with ties, and among floats some that are not finite."""
    torch.manual_seed(0)
    x = torch.randint(0, 200, shape).to(dtype)
    if dtype.is_floating_point:
        x = (torch.randn(shape) / 4).to(dtype)
        if special and x.numel() > 100:
            x.view(-1)[x.numel() // 2] = float("nan")
            x.view(-1)[7:9] = float("inf")
            x.view(-1)[9:12] = -0.0
    return x


@each_kind
@each_shape
def test_cumulative_results(shape, dim, dtype):
    tolerance = {torch.float32: 1e-4, torch.float64: 1e-10, torch.bfloat16: 1e-2}.get(dtype, 0.0)
    for special in (False, True):
        x = drawn(shape, dtype, special)
        y = x.to("cuda")
        assert equal(y.cumsum(dim), x.cumsum(dim), tolerance)
        # The bits depend on the shape alone.
        assert equal(y.cumsum(dim), y.cumsum(dim).cpu())
    if dtype.is_floating_point:
        assert equal(y.logcumsumexp(dim), x.logcumsumexp(dim), tolerance)
    assert equal((y * 0 + 1).cumprod(dim), (x * 0 + 1).cumprod(dim))


@each_kind
@each_shape
def test_best_elements_and_their_indices(shape, dim, dtype):
    x = drawn(shape, dtype)
    y = x.to("cuda")
    for name in ("cummax", "cummin"):
        got, wanted = getattr(y, name)(dim), getattr(x, name)(dim)
        assert equal(got[0], wanted[0])
        assert equal(got[1], wanted[1])
    if x.numel():
        assert equal(y.argmax(dim), x.argmax(dim))
        assert y.argmin().item() == x.argmin().item()


@pytest.mark.parametrize(
    ("shape", "dim", "dtype"),
    [
        ((100001,), 0, torch.float32),
        ((2, 9001), 1, torch.float64),
        ((3000, 3), 0, torch.bfloat16),
        ((5000,), 0, torch.int64),
        ((30001,), 0, torch.uint8),
        ((300, 17), 1, torch.float32),
        ((40, 2, 3), 0, torch.float64),
        ((0, 4), 1, torch.float32),
    ],
)
def test_sorting(shape, dim, dtype):
    x = drawn(shape, dtype)
    y = x.to("cuda")
    for descending in (False, True):
        got, wanted = (z.sort(dim=dim, descending=descending, stable=True) for z in (y, x))
        assert equal(got.values, wanted.values)
        assert equal(got.indices, wanted.indices)
        assert equal(torch.signbit(got.values), torch.signbit(wanted.values))
    if x.numel():
        assert equal(y.kthvalue(3, dim).indices, x.sort(dim=dim, stable=True).indices.select(dim, 2))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.int16, torch.int32, torch.float16], ids=str)
@pytest.mark.parametrize("n", [1, 33, 2048, 2049])
def test_sorting_other_kinds(n, dtype):
    torch.manual_seed(0)
    x = (torch.randn(3, n) * 100).to(dtype) if dtype != torch.bool else torch.randn(3, n) > 0
    y = x.to("cuda")
    for descending in (False, True):
        got, wanted = (z.sort(dim=1, descending=descending, stable=True) for z in (y, x))
        assert equal(got.values, wanted.values)
        assert equal(got.indices, wanted.indices)
    assert equal(y.T.argsort(dim=0, stable=True), x.T.argsort(dim=0, stable=True))


def test_permutations():
    torch.manual_seed(0)
    found = torch.randperm(100000, device="cuda")
    assert equal(found.sort().values, torch.arange(100000))

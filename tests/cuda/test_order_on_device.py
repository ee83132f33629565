"""Elements of sorted lines, searches, positions of true and of different elements, and counts: results are the CPU's."""

import pytest
from both_devices import exact
from card import needs_device

import rushlight as torch
from rushlight.nn import functional as F

pytestmark = needs_device

VALUES = torch.tensor([[3.0, 1.0, float("nan"), 1.0, 2.0], [0.0, -0.0, 5.0, 5.0, -1.0], [float("nan")] * 5])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64], ids=str)
def test_elements_of_sorted_lines(dtype):
    x = VALUES.nan_to_num(7.0).to(dtype) if dtype == torch.int64 else VALUES.to(dtype)
    for function in (torch.median, torch.nanmedian, torch.mode):
        for dim in (0, 1):
            exact(lambda x, f=function, dim=dim: tuple(f(x, dim)), x)
            exact(lambda x, f=function, dim=dim: tuple(f(x, dim, keepdim=True)), x.t())
    exact(torch.median, x)
    exact(torch.nanmedian, x)
    exact(lambda x: tuple(torch.topk(x, 3)), x)
    exact(lambda x: tuple(torch.kthvalue(x, 2, 0)), x.t())


def test_searches():
    line = torch.tensor([-1.0, 0.0, 0.0, 2.0, float("nan")])
    values = torch.tensor([[-2.0, 0.0, 1.0], [2.0, float("nan"), 9.0]])
    for right in (False, True):
        exact(lambda a, b, right=right: torch.searchsorted(a, b, right=right), line, values)
        exact(lambda a, b, right=right: torch.bucketize(b, a, right=right, out_int32=True), line, values)
    lines = torch.tensor([[1, 5, 9], [2, 2, 8]], dtype=torch.int16)
    exact(torch.searchsorted, lines, torch.tensor([[5, 6], [2, 100]]))
    sorter = torch.tensor([2, 0, 1])
    exact(
        lambda a, s: torch.searchsorted(a, torch.tensor([4, 6], device=a.device), sorter=s),
        torch.tensor([5, 9, 1]),
        sorter,
    )
    with pytest.raises(RuntimeError, match="sorter index out of range"):
        torch.searchsorted(torch.tensor([5, 9, 1]).cuda(), torch.tensor([4]).cuda(), sorter=(sorter + 1).cuda())


def test_members():
    tests = torch.tensor([2.0, -0.0, float("nan"), 5.0])
    for dtype in (torch.float32, torch.float16, torch.int64, torch.uint8, torch.uint16):
        x = torch.tensor([0, 1, 2, 3, 5]).to(dtype)
        own = tests.nan_to_num(1.0).to(dtype) if not dtype.is_floating_point else tests.to(dtype)
        exact(torch.isin, x, own)
        exact(lambda x, y: torch.isin(x, y, invert=True), x, own)
    exact(torch.isin, VALUES, tests)
    exact(lambda x: torch.isin(x, 1.0), VALUES)
    exact(lambda x: torch.isin(2.0, x), VALUES)
    exact(torch.isin, VALUES, torch.tensor([]))


@pytest.mark.parametrize("count", [0, 1, 5, 4095, 4097, 13000])
def test_true_elements(count):
    """Positions in chunks, whole ones and parts of them, and what is made of them."""
    torch.manual_seed(count)
    mask = torch.rand(count) > 0.7
    exact(torch.nonzero, mask)
    exact(lambda m: torch.nonzero(m, as_tuple=True), mask)
    exact(lambda x, m: x[m], torch.randn(count), mask)
    exact(torch.masked_select, torch.randn(count), mask)
    exact(lambda x, m: x.masked_scatter(m, torch.arange(float(count)).to(x.device)), torch.randn(count), mask)
    exact(torch.nonzero, torch.zeros(count))
    exact(torch.nonzero, torch.ones(count))


def test_coordinates_of_true_elements():
    x = torch.randint(0, 2, (3, 4, 5, 2))
    for own in (x, x.transpose(0, 2), x.to(torch.complex64), x.bool()[1:]):
        exact(torch.nonzero, own)
        exact(torch.argwhere, own)
        exact(lambda m: torch.where(m), own)
    exact(lambda x, m: x[m[..., 0] > 0], torch.randn(3, 4, 5, 2), x)
    exact(torch.nonzero, torch.tensor(3.0))
    found = torch.nonzero(torch.zeros(2, 3).cuda())
    assert (found.shape, found.stride()) == ((0, 2), torch.nonzero(torch.zeros(2, 3)).stride())


def test_different_elements():
    for x in (
        torch.tensor([3, 1, 1, 2, 3, 3]),
        torch.tensor([[1.0, float("nan")], [float("nan"), -0.0]]),
        torch.tensor([]),
    ):
        for dtype in (
            (x.dtype, torch.float16) if x.is_floating_point() else (x.dtype, torch.uint8, torch.bool, torch.uint32)
        ):
            exact(torch.unique, x.to(dtype))
            exact(lambda x: torch.unique(x, return_inverse=True, return_counts=True), x.to(dtype))
    exact(lambda x: torch.unique(x, return_counts=True), torch.randint(0, 50, (9000,)))


def test_counts():
    numbers = torch.randint(0, 20, (5000,))
    exact(torch.bincount, numbers)
    exact(lambda x: torch.bincount(x, minlength=40), numbers.to(torch.uint8))
    for dtype in (torch.float32, torch.float64, torch.int64):
        weights = (torch.randn(5000) * 10).to(dtype)
        exact(torch.bincount, numbers, weights)
    for bad, message in ((torch.tensor([1, -1]), "non-negative"), (torch.tensor([[1]]), "1-d")):
        with pytest.raises(RuntimeError, match=message):
            torch.bincount(bad.cuda())
    with pytest.raises(RuntimeError, match="same length"):
        torch.bincount(numbers.cuda(), torch.ones(3).cuda())
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.randn(3000).to(dtype)
        exact(lambda x: torch.histc(x, 30), x)
        exact(lambda x: torch.histc(x, 7, -1, 2), x)
    with pytest.raises(RuntimeError, match="is not finite"):
        torch.histc(torch.tensor([1.0, float("nan")]).cuda())


def test_rows_of_classes():
    numbers = torch.tensor([[0, 2], [1, 0]])
    exact(F.one_hot, numbers)
    exact(lambda x: F.one_hot(x, 5), numbers)
    for own, classes, message in ((numbers, 2, "smaller than num_classes"), (numbers - 1, -1, "non-negative")):
        with pytest.raises(RuntimeError, match=message):
            F.one_hot(own.cuda(), classes)

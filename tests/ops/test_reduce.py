"""Reductions: accuracy, equal bits for any number of threads, special values, names of results."""

import math

import numpy as np
import pytest

import rushlight as torch

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "shape, dim", [((10_000_000,), 0), ((1_000_000, 10), 0), ((10, 1_000_000), 1), ((3_000_000,), 0)]
)
def test_float32_sums_err_by_the_logarithm_of_the_count(shape, dim):
    numbers = np.random.default_rng(0).random(shape, dtype=np.float32) + np.float32(0.1)
    exact = numbers.sum(axis=dim, dtype=np.float64)
    got = torch.from_numpy(numbers).sum(dim).numpy().astype(np.float64)
    bound = math.log2(shape[dim]) * np.finfo(np.float32).eps
    assert np.max(np.abs(got - exact) / exact) <= bound


def test_a_constant_sums_as_well_as_random_numbers():
    n = 10_000_000
    got = torch.full((n,), 0.1).sum().item()
    exact = float(np.float32(0.1)) * n
    assert abs(got - exact) / exact <= math.log2(n) * np.finfo(np.float32).eps


def test_the_variance_survives_a_large_mean():
    numbers = np.random.default_rng(1).standard_normal(1_000_000) + 1e8
    got = torch.from_numpy(numbers).var().item()
    assert abs(got - np.var(numbers, ddof=1)) < 1e-6


@pytest.mark.parametrize("value", [1e200, 1.1e200, -3e300])
@pytest.mark.parametrize("shape", [(10, 70), (200, 70), (3, 5)], ids=str)
def test_equal_numbers_beyond_the_root_of_the_largest_have_no_variance(shape, value):
    x = torch.full(shape, value, dtype=torch.float64)
    for measured in (x.var(0), x.var(1), x.t().var(0), x.var()):
        assert not measured.any()


def test_a_variance_beyond_the_largest_number_is_infinite():
    x = torch.tensor([1e200, 2e200, 3e200], dtype=torch.float64)
    assert x.var().item() == math.inf
    assert torch.stack([x] * 70, 1).var(0).tolist() == [math.inf] * 70


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64, torch.complex64], ids=str
)
def test_rows_of_every_length_count_each_element_once(dtype):
    for n in range(1, 300):
        rows = (np.arange(3 * n).reshape(3, n) * 7919) % 101
        x = torch.tensor(rows, dtype=dtype)
        assert x.sum(1).tolist() == rows.sum(1).tolist(), n
        assert x.count_nonzero(1).tolist() == np.count_nonzero(rows, 1).tolist(), n
        last = torch.arange(n) == n - 1
        assert [last[None].repeat(3, 1).any(1).all().item(), last[None].repeat(3, 1).all(1).any().item()] == [
            True,
            n == 1,
        ]


REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.sum(1),
    "sum of columns": lambda x: x.sum(0),
    "sum, transposed": lambda x: x.t().sum(0),
    "strided sum": lambda x: x[:, ::2].sum(),
    "mean": lambda x: x.mean(),
    "var": lambda x: x.var(),
    "var of columns": lambda x: x.var(0),
    "logsumexp": lambda x: x.logsumexp((0, 1)),
    "norm": lambda x: x.norm(),
    "prod": lambda x: (1 + x / 1e4).prod(),
    "argmax": lambda x: x.argmax(),
    "softmax": lambda x: x.softmax(1),
    "cumsum": lambda x: x.cumsum(0),
}


@pytest.mark.parametrize("shape", [(1, 1_000_003), (700_001, 3), (3, 400_001), (1009, 997)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_the_bits_do_not_depend_on_threads(name, shape, threads):
    x = torch.from_numpy(np.random.default_rng(2).standard_normal(shape).astype(np.float32))
    seen = set()
    for count in (1, 2, 3, 7):
        threads(count)
        seen.add(REDUCTIONS[name](x).numpy().tobytes())
    assert len(seen) == 1


@pytest.mark.parametrize(
    "shape", [(5,), (3, 4), (100, 7), (7, 100), (2000, 3), (3, 2000), (17, 33, 5), (64, 3, 300), (70, 1, 41)]
)
@pytest.mark.parametrize("turned", [False, True])
def test_every_walk_gives_the_same_sums(shape, turned):
    numbers = np.random.default_rng(3).integers(-9, 9, shape)
    for dtype in (np.int64, np.float32, np.float64, np.int16):
        array = numbers.astype(dtype)
        array = array.transpose() if turned else array
        x = torch.from_numpy(array)
        for mask in range(1, 1 << array.ndim):
            dims = tuple(dim for dim in range(array.ndim) if mask >> dim & 1)
            assert np.array_equal(x.sum(dims).numpy(), array.sum(axis=dims))
            assert np.array_equal(x.amax(dims).numpy(), array.max(axis=dims))


@pytest.mark.parametrize("length", [511, 512, 600, 5000, 20_000])
def test_long_runs_with_others_between_them(length):
    """Results that reduce several runs of adjacent elements each, which are folded where they lie."""
    array = np.random.default_rng(length).standard_normal((3, 2, length)).astype(np.float32)
    x = torch.from_numpy(array)
    exact = array.astype(np.float64)
    np.testing.assert_allclose(x.sum((0, 2)).numpy(), exact.sum((0, 2)), atol=1e-3)
    np.testing.assert_allclose(x.var((0, 2)).numpy(), exact.var((0, 2), ddof=1), rtol=1e-5)
    np.testing.assert_array_equal(x.amax((0, 2)).numpy(), array.max((0, 2)))
    np.testing.assert_array_equal((x > 1).count_nonzero((0, 2)).numpy(), (array > 1).sum((0, 2)))
    places = x.transpose(0, 1).argmax().item()
    assert places == array.transpose(1, 0, 2).argmax()


def test_nan_is_the_largest_and_the_smallest():
    x = torch.tensor([1.0, NAN, 3.0, NAN])
    assert math.isnan(x.max()) and math.isnan(x.min()) and math.isnan(x.amax())
    assert x.argmax().item() == 1 and x.argmin().item() == 1
    values, indices = x.max(0)
    assert math.isnan(values) and indices.item() == 1


def test_the_first_of_equals_is_found_anywhere():
    x = torch.zeros(100_000)
    x[70_001] = 1.0
    x[90_000] = 1.0
    assert x.argmax().item() == 70_001 and x.argmin().item() == 0
    assert torch.full((5000,), -INF).argmax().item() == 0


def test_infinities_in_sums_of_exponentials():
    assert torch.tensor([INF, 1.0]).logsumexp(0).item() == INF
    # NaN lasts beside an infinite sum of another part.
    assert torch.tensor([[[INF, INF], [1.0, 2.0]], [[INF, NAN], [3.0, 1.0]]]).logsumexp((0, 2)).isnan().tolist() == [
        True,
        False,
    ]
    assert torch.tensor([INF] * 2000 + [NAN]).logsumexp(0).isnan()
    assert torch.tensor([-INF, -INF]).logsumexp(0).item() == -INF
    assert torch.tensor([-1e4, -INF, -1e4]).logsumexp(0).item() == pytest.approx(-1e4 + math.log(2))
    assert torch.empty(0).logsumexp(0).item() == -INF
    assert math.isnan(torch.tensor([NAN, 1.0]).logsumexp(0))


def test_softmax_of_extremes():
    assert torch.softmax(torch.tensor([1000.0, 1000.0]), 0).tolist() == [0.5, 0.5]
    assert torch.log_softmax(torch.tensor([0.0, -INF]), 0).tolist() == [0.0, -INF]
    assert all(math.isnan(x) for x in torch.softmax(torch.tensor([-INF, -INF]), 0).tolist())


@pytest.mark.parametrize("order", [1, 2, 3, 0.5, -2, float("inf")])
def test_the_norm_of_one_element_is_its_magnitude(order):
    x = torch.tensor([[1e-30], [-1e30], [0.0]])
    assert torch.linalg.vector_norm(x, order, dim=1).tolist() == x.abs()[:, 0].tolist()
    assert torch.tensor([-1e-30]).norm(order) == torch.tensor(1e-30)
    assert torch.linalg.vector_norm(x, 0, dim=1).tolist() == [1, 1, 0]


def test_sums_of_nothing():
    assert torch.empty(0).sum().item() == 0.0
    assert torch.empty(0).prod().item() == 1.0
    assert math.isnan(torch.empty(0).mean())
    assert torch.empty(0, 3).sum(0).tolist() == [0.0, 0.0, 0.0]
    assert torch.empty(0).all().item() is True and torch.empty(0).any().item() is False


def test_integers_wrap_and_add_up_in_int64():
    assert torch.tensor([200, 100], dtype=torch.uint8).sum().item() == 300
    assert torch.tensor([200, 100], dtype=torch.uint8).sum(dtype=torch.uint8).item() == 44
    assert torch.tensor([2**62, 2**62]).sum().item() == -(2**63)


def test_results_have_names():
    found = torch.tensor([[1.0, 3.0], [4.0, 2.0]]).max(dim=1)
    assert found.values.tolist() == [3.0, 4.0] and found.indices.tolist() == [1, 0]
    assert type(found) is torch.return_types.max
    values = torch.empty(0)
    places = torch.empty(0, dtype=torch.int64)
    written = torch.max(torch.tensor([[1.0, 3.0]]), 1, out=(values, places))
    assert written.values is values and places.tolist() == [1]


def test_a_product_with_zeros_has_its_gradient():
    for numbers, expected in (
        ([2.0, 0.0, 3.0], [0.0, 6.0, 0.0]),
        ([0.0, 0.0, 3.0], [0.0, 0.0, 0.0]),
        ([2.0, 3.0, 4.0], [12.0, 8.0, 6.0]),
    ):
        x = torch.tensor(numbers, requires_grad=True)
        x.prod().backward()
        assert x.grad.tolist() == expected
        y = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda y: y.cumprod(0), (y,))
        assert torch.autograd.gradgradcheck(lambda y: y.prod(0), (y,))


def test_sorting_keeps_the_order_of_equals():
    rng = np.random.default_rng(4)
    numbers = rng.integers(0, 50, 10_000)
    for dtype in (np.uint8, np.int32, np.int64, np.float32, np.float64):
        array = numbers.astype(dtype)
        values, indices = torch.from_numpy(array).sort()
        order = np.argsort(array, kind="stable")
        assert np.array_equal(indices.numpy(), order) and np.array_equal(values.numpy(), array[order])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 7, 2000])
@pytest.mark.parametrize("kind", ["random", "equal", "rising", "falling"])
def test_the_largest_of_a_long_line_are_those_of_the_sorted_one(kind, k, largest):
    n = 100_001
    array = {
        "random": lambda: np.random.default_rng(5).integers(0, 3000, n),
        "equal": lambda: np.zeros(n),
        "rising": lambda: np.arange(n),
        "falling": lambda: -np.arange(n),
    }[kind]().astype(np.float32)
    array[n // 2] = NAN
    line = torch.from_numpy(array)
    for own in (line, torch.stack([line, line.flip(0)], 1)):
        got, all_ = own.topk(k, 0, largest), own.sort(dim=0, descending=largest, stable=True)
        assert torch.equal(got.indices, all_.indices[:k])
        assert np.array_equal(got.values.numpy(), all_.values[:k].numpy(), equal_nan=True)


@pytest.mark.parametrize(
    "call, error, sentence",
    [
        (lambda: torch.ones(2, dtype=torch.int64).mean(), RuntimeError, "mean(): could not infer output dtype."),
        (
            lambda: torch.empty(0).max(),
            RuntimeError,
            "max(): Expected reduction dim to be specified for input.numel() == 0.",
        ),
        (lambda: torch.empty(0, 3).argmax(0), IndexError, "argmax(): Expected reduction dim 0 to have non-zero size."),
        (lambda: torch.ones(2, 3).sum((0, -2)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
        (
            lambda: torch.ones(2, dtype=torch.int64).softmax(0),
            NotImplementedError,
            "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'",
        ),
        (lambda: torch.ones(3).topk(4), RuntimeError, "selected index k out of range"),
        (
            lambda: torch.ones(3, requires_grad=True).sum(dtype=torch.int32),
            RuntimeError,
            "Autograd not support dtype: Int",
        ),
        (
            lambda: torch.ones(3, requires_grad=True).prod(dtype=torch.bool),
            RuntimeError,
            "Autograd not support dtype: Bool",
        ),
        (
            lambda: torch.nanmean(torch.ones(3), dtype=torch.int32),
            RuntimeError,
            "nanmean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype.",
        ),
        (
            lambda: torch.trapezoid(torch.ones(3, dtype=torch.bool)),
            RuntimeError,
            "trapezoid: received a bool input for `y`, but bool is not supported",
        ),
        (
            lambda: torch.trapezoid(torch.ones(3), torch.ones(3, dtype=torch.bool)),
            RuntimeError,
            "trapezoid: received a bool input for `x` or `y`, but bool is not supported",
        ),
    ],
)
def test_errors_say_what_torch_says(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(sentence)


def test_sums_without_nan_of_any_dtype():
    x = torch.tensor([float("nan"), 1.5, 2.5])
    assert x.nansum(dtype=torch.int32).item() == 3 and x.nansum(dtype=torch.int32).dtype == torch.int32
    assert x.nansum(dtype=torch.bool).item() is True
    assert torch.tensor([1, 2]).nansum(dtype=torch.complex64).item() == 3


def test_the_extremes_of_all_dimensions():
    x = torch.tensor([[1.0, 5.0], [3.0, 2.0]])
    assert torch.amax(x, dim=None).item() == 5 and x.amin(None, True).tolist() == [[1.0]]


@pytest.mark.parametrize("name", ["sort", "topk", "max", "cummax", "cummin"])
def test_results_over_the_operand(name):
    x, places = torch.tensor([3.0, 1.0, 2.0]), torch.empty(3, dtype=torch.int64)
    arguments = {"sort": (), "topk": (3,)}.get(name, (0,))
    wanted = getattr(torch, name)(x, *arguments)
    getattr(torch, name)(x, *arguments, out=(x, places if name != "max" else places.resize_(0)))
    assert torch.equal(x, wanted[0]) and torch.equal(places, wanted[1])


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
def test_segments_are_reduced_one_by_one(name):
    data = np.random.default_rng(3).normal(size=(7, 2))
    lengths = [3, 0, 1, 3]
    empty = {"sum": 0.0, "mean": np.nan, "max": -np.inf, "min": np.inf, "prod": 1.0}[name]
    parts = np.split(data, np.cumsum(lengths)[:-1])
    wanted = np.stack([getattr(np, name)(part, 0) if len(part) else np.full(2, empty) for part in parts])
    own, offsets = torch.from_numpy(data), torch.tensor([0, *np.cumsum(lengths).tolist()])
    np.testing.assert_allclose(torch.segment_reduce(own, name, lengths=torch.tensor(lengths)), wanted)
    np.testing.assert_allclose(torch.segment_reduce(own, name, offsets=offsets), wanted)


def test_sorting_keeps_the_order_of_memory():
    x = torch.rand(2, 3, 4).permute(2, 0, 1)
    values, places = x.sort(1)
    assert values.stride() == places.stride() == x.stride() == (1, 12, 4)
    assert torch.equal(values, x.contiguous().sort(1).values) and torch.equal(x.gather(1, places), values)
    assert x.argsort().stride() == torch.msort(x).stride() == x.stride()


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_sorting_wide_unsigned_numbers(dtype):
    values, places = torch.tensor([3, 1, 2], dtype=dtype).sort()
    assert values.tolist() == [1, 2, 3] and values.dtype == dtype and places.tolist() == [1, 2, 0]


@pytest.mark.parametrize("name", ["mode", "median", "nanmedian", "kthvalue"])
def test_one_of_more_dimensions_than_a_set_has(name):
    x = torch.ones([1] * 65)
    arguments = (1, 0) if name == "kthvalue" else (0,)
    values, places = getattr(x, name)(*arguments)
    assert values.dim() == places.dim() == 64 and values.item() == 1 and places.item() == 0
    assert getattr(x, name)(*arguments, keepdim=True).values.dim() == 65


def test_areas_of_nothing():
    assert torch.cumulative_trapezoid(torch.zeros(2, 0)).shape == (2, 0)
    assert torch.cumulative_trapezoid(torch.zeros(0, 2), dim=0).shape == (0, 2)
    assert torch.cumulative_trapezoid(torch.zeros(0, 2), torch.zeros(0), dim=0).shape == (0, 2)
    with pytest.raises(RuntimeError, match="There must be one `x` value for each sample point"):
        torch.cumulative_trapezoid(torch.zeros(0, 2), torch.zeros(3), dim=0)


def test_norms_are_not_narrowed():
    assert torch.linalg.vector_norm(torch.ones(2, dtype=torch.float16), dtype=torch.float32).dtype is torch.float32
    for own, asked in [(torch.float32, torch.float16), (torch.float16, torch.bfloat16), (torch.float64, torch.float32)]:
        with pytest.raises(RuntimeError, match="should be convertible without narrowing to the specified dtype"):
            torch.linalg.vector_norm(torch.ones(2, dtype=own), dtype=asked)


@pytest.mark.parametrize("shape", [(2,), (3000,), (2, 70), (2, 70, 3)])
@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e20])
def test_deviations_of_very_small_and_very_large_numbers(scale, shape):
    """Their squares are no numbers of single precision."""
    torch.manual_seed(0)
    unit = torch.rand(shape, dtype=torch.float64)
    x = (unit * scale).float()
    for dim in range(unit.dim()):
        assert torch.allclose(x.std(dim).double(), x.double().std(dim), rtol=1e-5)
    x = x.requires_grad_()
    x.std().backward()
    wide = unit.requires_grad_()
    wide.std().backward()
    assert torch.allclose(x.grad.double(), wide.grad, rtol=1e-4, atol=1e-7)


def test_moments_of_infinite_numbers():
    for x in (torch.tensor([1, math.inf]), torch.cat([torch.ones(5000), torch.tensor([math.inf])])):
        for column in (x, x[:, None].expand(-1, 9).contiguous()):
            for moments in (torch.var_mean, torch.std_mean):
                spread, mean = moments(column, 0)
                assert spread.isnan().all() and (mean == math.inf).all()
    assert torch.var_mean(torch.tensor([-math.inf, math.inf]))[1].isnan()
    assert torch.std_mean(torch.tensor([math.inf, math.inf]))[1] == math.inf
    assert torch.tensor([3.0, 3.0, 3.0]).var() == 0


def test_quantiles_beside_infinite_numbers():
    inf = math.inf
    assert torch.quantile(torch.tensor([-inf, 1, 2]), 0.3) == -inf
    assert torch.quantile(torch.tensor([1, 2, inf]), 0.6) == inf
    assert torch.quantile(torch.tensor([1, 2, inf]), 0.3) == torch.tensor(1.6)
    assert torch.quantile(torch.tensor([-inf, 1, 2]), 0.3, interpolation="midpoint") == -inf


def test_gradients_of_logarithms_of_running_sums():
    inf = math.inf
    x = torch.tensor([1.0, 200.0, -300.0, 5.0], requires_grad=True)
    torch.logcumsumexp(x, 0).backward(torch.tensor([1.0, -1.0, 0.0, 3.0]))
    assert x.grad.tolist() == [1, 2, 0, 0]
    x = torch.tensor([1, inf, 1], requires_grad=True)
    torch.logcumsumexp(x, 0).sum().backward()
    assert x.grad[0] == 1 and x.grad[1].isnan() and x.grad[2] == 0


def test_trapezoids_count_dimensions_from_the_front():
    y, x = torch.tensor([1.0, 3.0]), torch.arange(8.0).reshape(2, 1, 4)
    assert torch.trapezoid(y, x, dim=0).tolist() == [[8.0] * 4]
    assert torch.trapezoid(torch.tensor([1.0, float("inf"), float("inf")])).isnan()
    assert torch.cumulative_trapezoid(torch.tensor([1, 2, 4])).tolist() == [1.5, 4.5]


def test_unique_slices_have_elements():
    for find in (torch.unique, torch.unique_consecutive):
        with pytest.raises(
            RuntimeError, match="^There are 0 sized dimensions, and they aren't selected, so unique cannot be"
        ):
            find(torch.empty(2, 0), dim=0)
        with pytest.raises(
            RuntimeError, match="^Number of zero sized dimensions is more than one, so unique cannot be"
        ):
            find(torch.empty(0, 0, 2), dim=0)
        assert find(torch.empty(0, 2), dim=0).shape == (0, 2)
        for dim in (0, -1, 2):
            with pytest.raises(IndexError, match=f"^Dimension specified as {dim} but tensor has no dimensions"):
                find(torch.tensor(1.0), dim=dim)
        with pytest.raises(NotImplementedError, match="^\"unique_dim\" not implemented for 'ComplexFloat'"):
            find(torch.ones(2, 2) * 1j, dim=0)


def test_unique_names_its_operator_in_errors():
    with pytest.raises(TypeError, match=r"^_unique2\(\): argument 'input' \(position 1\) must be Tensor, not int"):
        torch.unique(5)
    with pytest.raises(TypeError, match=r"^_unique2\(\): argument 'sorted' must be bool, not str"):
        torch.unique(torch.ones(2), sorted="x")
    with pytest.raises(TypeError, match=r"^unique_consecutive\(\): argument 'dim' must be int, not str"):
        torch.unique_consecutive(torch.ones(2), dim="x")


def test_unique_slices_with_nan_are_apart():
    nan = NAN
    x = torch.tensor([[1, nan], [1, 2], [1, nan], [1, 2]])
    values, places, counts = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
    assert counts.tolist() == [2, 1, 1] and places.tolist() == [1, 0, 2, 0] and values.isnan().sum() == 2
    assert torch.unique_consecutive(x[[0, 2, 1, 3]], dim=0).shape == (3, 2)


def test_means_of_complex_numbers_with_an_infinite_part():
    inf = math.inf
    mean = torch.tensor([complex(inf, 1), 2 + 1j]).mean()
    assert mean.real == inf and mean.imag.isnan()
    assert torch.view_as_real(torch.tensor([complex(inf, inf), 2 + 1j]).mean(0)).isnan().all()
    x = torch.randn(7, dtype=torch.complex128)
    assert torch.equal(x.mean(), x.sum() / 7)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ((3, 2, 1), "torch.histc: max must be larger than min"),
        ((0, 0, 1), "torch.histogram(): bins must be > 0, but got 0 for dimension 0"),
        ((3, 0, float("inf")), "torch.histc: range of [0, inf] is not finite"),
    ],
)
def test_histograms_of_integers_check_their_range_first(arguments, sentence):
    for dtype in (torch.float32, torch.int64, torch.bool):
        with pytest.raises(RuntimeError) as caught:
            torch.histc(torch.ones(3, dtype=dtype), *arguments)
        assert str(caught.value).startswith(sentence)
    with pytest.raises(NotImplementedError, match="histogram_cpu"):
        torch.histc(torch.ones(3, dtype=torch.int64), 3, 1, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int8])
def test_the_last_of_the_most_frequent(dtype):
    # torch's numbers: which of the equal elements comes last follows from the steps of its sort.
    for n, values, index in [(16, 3, 15), (17, 3, 12), (40, 4, 16), (300, 5, 235), (1000, 2, 224)]:
        found = (torch.arange(n) * 7919 % values).to(dtype).mode()
        assert (found.values.item(), found.indices.item()) == (0, index)


def test_nan_is_never_frequent():
    found = torch.tensor([1.0, NAN, NAN, 0.0]).mode()
    assert (found.values.item(), found.indices.item()) == (0, 3)
    assert torch.tensor([NAN, NAN]).mode().indices.item() == 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_a_sum_of_floats_without_nan_is_no_integer(dtype):
    x, out = torch.tensor([[1.0, NAN]]), torch.zeros((), dtype=dtype)
    with pytest.raises(NotImplementedError, match="^\"nansum_cpu\" not implemented for '(Long|Byte|Bool)'"):
        torch.nansum(x, out=out)
    assert torch.nansum(x, dtype=dtype, out=out).item() == 1
    assert torch.nansum(x.nan_to_num().int(), out=out).item() == 1


def test_bins_of_bfloat16_are_computed_in_it():
    x = (torch.arange(400) * 7919 % 1000).float() / 100
    found = torch.histc(x.bfloat16(), bins=100, min=0, max=10)[:16].tolist()
    assert found == [6, 3, 4, 4, 4, 5, 3, 3, 5, 4, 4, 4, 3, 5, 4, 3]


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_half_types_are_counted_between_given_edges(dtype):
    x, edges = torch.ones(3, dtype=dtype), torch.tensor([0.0, 1.0, 2.0], dtype=dtype)
    assert torch.histogram(x, edges).hist.tolist() == [0.0, 3.0]
    assert torch.histogram(x, 2, range=(0.0, 2.0)).hist.tolist() == [0.0, 3.0]
    with pytest.raises(NotImplementedError, match="histogramdd"):
        torch.histogram(x, 2)

"""Kernels that take the place of a composition or of the host: results and gradients are the CPU's."""

import pytest
from card import needs_device

import rushlight as torch
from rushlight.nn import functional as F

pytestmark = needs_device


def both(function, *operands):
    """The results and the gradients of the operands that are floats, on the CPU and on the device."""
    outcomes = []
    for device in ("cpu", "cuda"):
        own = [
            x.detach().to(device).requires_grad_(x.is_floating_point() and x.requires_grad)
            if isinstance(x, torch.Tensor)
            else x
            for x in operands
        ]
        results = function(*own)
        results = results if isinstance(results, tuple) else (results,)
        floats = [x for x in results if x.requires_grad]
        weights = [torch.cos(torch.arange(x.numel(), device=device).reshape(x.shape)).to(x.dtype) for x in floats]
        wanted = [x for x in own if isinstance(x, torch.Tensor) and x.requires_grad]
        grads = torch.autograd.grad(floats, wanted, weights) if floats else ()
        outcomes.append([x.detach().cpu() for x in (*results, *grads)])
    return zip(*outcomes, strict=True)


def exact(function, *operands):
    for wanted, found in both(function, *operands):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert torch.equal(torch.nan_to_num(found, nan=12345.0), torch.nan_to_num(wanted, nan=12345.0))


def close(function, *operands, tolerance=2e-5):
    for wanted, found in both(function, *operands):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert torch.allclose(found.double(), wanted.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def floats(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype).requires_grad_()


#: Queries and keys, and the widths of keys and values: whole tiles, parts of them, more keys than queries and the reverse.
SHAPES = [(64, 64, 16, 16), (70, 130, 20, 8), (130, 65, 64, 40), (3, 5, 128, 1), (1, 200, 33, 128)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "added", "row"])
def test_attention(shape, mask):
    queries, keys, width, depth = shape
    torch.manual_seed(1)
    masks = {
        "bool": torch.rand(queries, keys) > 0.4,
        "added": torch.randn(2, 1, queries, keys),
        "row": torch.arange(keys) < keys // 2,
    }
    close(
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, masks[mask].to(q.device) if mask in masks else None, is_causal=mask == "causal"
        ),
        floats(2, 3, queries, width),
        floats(2, 3, keys, width),
        floats(2, 3, keys, depth),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(70, 90, 64, 64), (200, 65, 32, 48), (130, 200, 20, 128)], ids=str)
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "added", "row"])
def test_attention_in_half_precision(shape, mask, dtype):
    """Whole tiles and parts of them, in copies of 16 bytes and, with 20 columns, of single elements."""
    queries, keys, width, depth = shape
    torch.manual_seed(2)
    masks = {
        "bool": torch.rand(queries, keys) > 0.4,
        "added": torch.randn(2, 1, queries, keys).to(dtype),
        "row": torch.arange(keys) < keys // 2,
    }
    close(
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, masks[mask].to(q.device) if mask in masks else None, is_causal=mask == "causal"
        ),
        floats(2, 2, queries, width, dtype=dtype),
        floats(2, 1, keys, width, dtype=dtype).expand(2, 2, keys, width),
        floats(2, 2, keys, depth, dtype=dtype),
        tolerance=1e-2 if dtype == torch.float16 else 5e-2,
    )


def in_half_precision(operands, grad, dtype, **options):
    """The results and gradients of attention on the device, and those of the same numbers in `float32` on the CPU."""
    outcomes = []
    for device, wide in (("cuda", dtype), ("cpu", torch.float32)):
        own = [x.to(dtype).to(device, wide).requires_grad_() for x in operands]
        result = F.scaled_dot_product_attention(*own, **options)
        grads = torch.autograd.grad(result, own, grad.to(dtype).to(device, wide))
        outcomes.append([x.detach().cpu().float() for x in (result, *grads)])
    return outcomes


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", range(16, 129, 16))
def test_attention_in_half_precision_of_each_width(width, dtype):
    """Each width has kernels of its own. Results and gradients differ from those in `float32` by the rounding of weights, of what
    they are multiplied with, and of the results."""
    torch.manual_seed(3)
    *operands, grad = (torch.randn(1, 150, width) for _ in range(4))
    tolerance = 2 ** (-9 if dtype == torch.float16 else -6)
    for found, wanted in zip(*in_half_precision(operands, grad, dtype, is_causal=True), strict=True):
        assert (found - wanted).abs().max() <= tolerance * wanted.abs().max()


@pytest.mark.parametrize("scale", [-0.4, 0.0, 2.0])
def test_attention_in_half_precision_with_any_scale(scale):
    """A negative factor turns the order of scores, and zero makes all weights equal; hidden keys stay hidden."""
    torch.manual_seed(4)
    *operands, grad = (torch.randn(1, 40, 24) for _ in range(4))
    found, wanted = in_half_precision(operands, grad, torch.float16, is_causal=True, scale=scale)
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).abs().max() <= 2e-3 * max(1, float(other.abs().max()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("step", [0.01, 0.1, 3.0])
def test_attention_in_half_precision_of_rising_scores(step, dtype):
    """Weights stay relative to a former greatest score as long as it is not far below the present one. In the gradients of queries,
    such keys cancel each other."""
    torch.manual_seed(5)
    query, key, value, grad = (torch.randn(1, 200, 16) for _ in range(4))
    query[..., 0], key[..., 0] = 4.0, torch.arange(200) * step
    (result, *_, to_value), (wanted, *_, wanted_to_value) = in_half_precision((query, key, value), grad, dtype)
    for one, other in ((result, wanted), (to_value, wanted_to_value)):
        assert (one - other).abs().max() <= 2 ** (-9 if dtype == torch.float16 else -6) * other.abs().max()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("first", [0, 1, 8])
def test_attention_in_half_precision_of_heads_in_rows(first, causal):
    """Heads as a dimension of rows, which begin at any element: copies of 16 bytes need whole packs. Several blocks have several
    tiles each, and the last ones are not whole."""
    torch.manual_seed(6)
    whole = [torch.randn(2, rows, 2, 48) for rows in (270, 150 + 120 * causal, 150 + 120 * causal)]
    outcomes = []
    for device, wide in (("cuda", torch.float16), ("cpu", torch.float32)):
        own = [x.half().to(device, wide).requires_grad_() for x in whole]
        heads = [x[..., first : first + 32].transpose(1, 2) for x in own]
        result = F.scaled_dot_product_attention(*heads, is_causal=causal)
        grads = torch.autograd.grad(result.square().sum(), own)
        outcomes.append([x.detach().cpu().float() for x in (result, *grads)])
    for found, wanted in zip(*outcomes, strict=True):
        assert (found - wanted).abs().max() <= 4e-3 * wanted.abs().max()


def test_attention_of_strided_and_repeated_operands():
    """Heads as a dimension of rows, one key for several heads, and a query that sees nothing."""
    mask = torch.ones(10, 12, dtype=torch.bool)
    mask[3] = False
    close(
        lambda q, k, v: F.scaled_dot_product_attention(
            q.reshape(2, 10, 3, 8).transpose(1, 2), k.expand(2, 3, 12, 8), v.transpose(-1, -2), mask.to(q.device)
        ),
        floats(2, 10, 24),
        floats(2, 1, 12, 8),
        floats(2, 3, 5, 12),
    )


def test_attention_without_a_kernel():
    """Wide heads and double precision are composed."""
    close(F.scaled_dot_product_attention, floats(2, 5, 130), floats(2, 7, 130), floats(2, 7, 3))
    close(F.scaled_dot_product_attention, *(floats(2, 5, 8, dtype=torch.float64) for _ in range(3)))


def test_attention_needs_no_matrix_of_scores():
    """The memory that a call takes grows with the length, not with its square."""
    needed = []
    for length in (256, 512):
        operands = [torch.randn(1, length, 8, device="cuda") for _ in range(3)]
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        F.scaled_dot_product_attention(*operands)
        needed.append(torch.cuda.max_memory_allocated() - before)
    assert needed[1] <= 2 * needed[0]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_layers(kind, bidirectional):
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(5, 6, num_layers=2, bidirectional=bidirectional)
    names, values = zip(*layer.named_parameters(), strict=True)

    def run(x, *values):
        out, state = torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,))
        return (out, *state) if isinstance(state, tuple) else (out, state)

    with torch.backends.cudnn.flags(enabled=False):
        close(run, floats(7, 3, 5), *values)


def test_lstm_in_half_precision():
    torch.manual_seed(0)
    layer = torch.nn.LSTM(5, 6).half()
    names, values = zip(*layer.named_parameters(), strict=True)
    with torch.backends.cudnn.flags(enabled=False):
        close(
            lambda x, *values: torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,))[0],
            floats(4, 3, 5, dtype=torch.float16),
            *values,
            tolerance=4e-3,
        )


def test_gru_in_half_precision():
    torch.manual_seed(0)
    cell = torch.nn.GRUCell(5, 6).half()
    names, values = zip(*cell.named_parameters(), strict=True)
    close(
        lambda x, h, *values: torch.func.functional_call(cell, dict(zip(names, values, strict=True)), (x, h)),
        floats(4, 5, dtype=torch.float16),
        floats(4, 6, dtype=torch.float16),
        *values,
        tolerance=4e-3,
    )


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 7, 3, 4), (0, 7)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_negative_log_likelihood(shape, weighted, reduction):
    torch.manual_seed(0)
    target = torch.randint(0, 7, (*shape[:1], *shape[2:]) if len(shape) > 1 else ())
    weight = torch.rand(7) if weighted else None
    for dtype, tolerance in ((torch.float32, 2e-6), (torch.float64, 1e-12), (torch.float16, 2e-3)):

        def loss(x, dtype=dtype):
            own = None if weight is None else weight.to(x.device, dtype)
            return F.nll_loss(x, target.to(x.device), own, ignore_index=2, reduction=reduction)

        close(loss, floats(*shape, dtype=dtype), tolerance=tolerance)


@pytest.mark.parametrize("bad", [-1, 7])
def test_a_target_that_is_no_class(bad):
    """It is found by the loss, and the device stays usable."""
    x = floats(3, 7).detach().cuda().requires_grad_()
    with pytest.raises(IndexError, match=f"Target {bad} is out of bounds"):
        F.cross_entropy(x, torch.tensor([0, bad, 6], device="cuda"))
    F.cross_entropy(x, torch.tensor([0, -100, 6], device="cuda")).backward()
    assert x.grad.count_nonzero(1).tolist() == [7, 0, 7]


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


RESIZES = [
    ((2, 3, 7), {"size": 11, "mode": "linear"}),
    ((2, 3, 7, 5), {"size": (4, 9), "mode": "nearest"}),
    ((2, 3, 7, 5), {"scale_factor": 1.7, "mode": "nearest-exact"}),
    ((2, 3, 7, 5), {"size": (4, 9), "mode": "bilinear", "align_corners": True}),
    ((1, 2, 9, 8), {"size": (3, 12), "mode": "bilinear", "antialias": True}),
    ((1, 2, 9, 8), {"size": (5, 12), "mode": "bicubic"}),
    ((1, 2, 9, 8), {"size": (3, 4), "mode": "bicubic", "antialias": True}),
    ((1, 2, 3, 4, 5), {"size": (5, 2, 7), "mode": "trilinear"}),
]


@pytest.mark.parametrize("shape, options", RESIZES, ids=[f"{len(s)}D {o['mode']}" for s, o in RESIZES])
def test_resizing(shape, options):
    """Sums have the CPU's order; in double precision the weights are the same too."""
    torch.manual_seed(0)
    exact(lambda x: F.interpolate(x, **options), floats(*shape, dtype=torch.float64))
    close(lambda x: F.interpolate(x, **options), floats(*shape))
    close(lambda x: F.interpolate(x, **options), floats(*shape, dtype=torch.bfloat16), tolerance=2e-2)


def test_resizing_keeps_elements_and_order():
    x = torch.tensor([[[[-0.0, float("inf"), float("nan")]]]], device="cuda")
    assert str(F.interpolate(x, scale_factor=(1, 2)).tolist()) == "[[[[-0.0, -0.0, inf, inf, nan, nan]]]]"
    x = torch.randn(2, 3, 4, 5, device="cuda").to(memory_format=torch.channels_last)
    assert F.interpolate(x, scale_factor=2, mode="bilinear").is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_sampling(mode, padding):
    """Points outside, and several points at one element, whose sums have the CPU's order."""
    torch.manual_seed(0)
    grid = (torch.rand(2, 6, 5, 2) * 3 - 1.5).requires_grad_()
    close(lambda x, g: F.grid_sample(x, g, mode, padding, align_corners=False), floats(2, 3, 7, 8), grid)


def test_sums_of_mixtures_have_the_bits_of_the_cpu():
    indices = torch.randint(-1, 6, (2, 40, 4))
    for dtype in (torch.float32, torch.float64, torch.float16):
        x, weights = floats(2, 3, 5, dtype=dtype), torch.randn(2, 40, 4).to(dtype).requires_grad_()
        exact(lambda x, w: torch._mix(x, indices.to(x.device), w), x, weights)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
def test_interpolation(mode):
    for size in ((7, 3), (12, 17)):
        close(lambda x, size=size: F.interpolate(x, size, mode=mode), floats(2, 3, 6, 9))


def test_blocks_of_images():
    for options in ((2,), ((3, 2), (1, 2), (1, 0), (2, 1)), (3, 2, 2, 1)):
        exact(lambda x, options=options: F.unfold(x, *options), floats(2, 3, 7, 8))
        columns = F.unfold(torch.randn(2, 3, 7, 8), *options).requires_grad_()
        exact(lambda x, options=options: F.fold(x, (7, 8), *options), columns)
    for dtype in (torch.complex64, torch.float16):
        exact(lambda x: F.fold(x, (4, 5), 2), torch.randn(2, 12, 12).to(dtype))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, float("inf"), 3.0])
def test_distances(p):
    """Rows that meet have a slope of zero."""
    rows, others = torch.randn(2, 5, 7), torch.randn(2, 40, 7)
    others[0, 3] = rows[0, 2]
    for dtype in (torch.float32, torch.float64):
        a, b = rows.to(dtype).requires_grad_(), others.to(dtype).requires_grad_()
        close(lambda a, b: torch.cdist(a, b, p, "donot_use_mm_for_euclid_dist"), a, b)
        close(lambda b: F.pdist(b, p), others[0].to(dtype).requires_grad_())


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


def test_mantissas():
    x = torch.tensor([[0.0, -0.0, 1.0, -3.0], [5e-324, float("inf"), float("nan"), 1e300]], dtype=torch.float64)
    exact(lambda x: tuple(torch.frexp(x)), x)
    exact(lambda x: tuple(torch.frexp(x)), x.t())
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        exact(lambda x: tuple(torch.frexp(x)), torch.tensor([6e-8, 65504.0, -0.3, 0.0]).to(dtype))


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


def test_powers_of_two():
    x, powers = torch.tensor([1.0, -3.0, 1e30]), torch.tensor([1, 200, -300])
    exact(torch.ldexp, x, powers)
    close(torch.ldexp, x[:2], torch.tensor([0.5, -2.0]))


@pytest.mark.parametrize("eps", [1e-5, 1e-12])
def test_batch_normalisation_with_a_small_epsilon(eps):
    """cuDNN takes none below 1e-5; the engine's kernel takes any. The variance of the elements is 1e-8."""
    torch.manual_seed(0)
    x = 1e-4 * torch.randn(6, 3, 4, 4)
    given = [x.clone().requires_grad_(), x.cuda().requires_grad_()]
    results = [F.batch_norm(one, None, None, training=True, eps=eps) for one in given]
    torch.testing.assert_close(results[1].cpu(), results[0], rtol=1e-4, atol=1e-5)
    assert (results[1].std().item() > 0.9) == (eps == 1e-12)
    for result in results:
        (result**3).sum().backward()
    most = given[0].grad.abs().max().item()
    torch.testing.assert_close(given[1].grad.cpu(), given[0].grad, rtol=1e-3, atol=1e-4 * most)

"""Kernels of layers that take the place of a composition or of the host: results and gradients are the CPU's."""

import pytest
from both_devices import close, exact, floats
from card import needs_device

import rushlight as torch
from rushlight.nn import functional as F

pytestmark = needs_device


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

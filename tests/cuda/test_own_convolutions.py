"""Convolutions without cuDNN, by the engine's own kernels: results and gradients are the CPU's, and need no other memory."""

import pytest
from convolution_forms import COUNTERS, FORMS
from soft_card import needs_soft_card, run

pytestmark = needs_soft_card

WITHOUT_LIBRARY = (
    COUNTERS
    + FORMS
    + """
cudnn.enabled = False
torch.manual_seed(0)
"""
)

#: More than one square of each kind, and parts of squares; features and channels of a group, of which there are few or many.
WIDE = """
WIDE = [
    ((2, 9, 70), (66, 9, 3), {"padding": 1}, False),
    ((1, 70, 6, 7), (5, 70, 3, 3), {"padding": 2, "dilation": 2}, False),
    ((1, 12, 9, 10), (72, 6, 3, 2), {"stride": (2, 3), "groups": 2}, False),
    ((2, 6, 5, 5), (12, 1, 3, 3), {"padding": 1, "groups": 6}, False),
    ((1, 10, 5, 4), (10, 70, 2, 3), {"stride": (2, 3), "padding": (0, 1)}, True),
    ((1, 8, 2, 4, 3), (8, 5, 3, 2, 2), {"stride": 2, "dilation": (1, 2, 3)}, True),
    ((2, 6, 5), (6, 6, 4), {"stride": 6, "dilation": 4, "output_padding": 3}, True),
]
"""


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64", "complex128"])
def test_every_form_is_that_of_the_host(dtype):
    run(
        WITHOUT_LIBRARY
        + WIDE
        + f"""
dtype = torch.{dtype}
for sizes, own, settings, transposed in ALL + WIDE:
    given = operands(sizes, own, transposed, settings, dtype)
    if dtype.is_complex:
        given = [x + 1j * x.flip(-1) for x in given]
    same(*given, settings, transposed, 0)
""",
        SOFTCUDA_SEED=5,
    )


def test_gradients_of_gradients_are_those_of_the_host():
    run(
        WITHOUT_LIBRARY
        + """
for sizes, own, settings, transposed in ALL:
    same(*operands(sizes, own, transposed, settings), settings, transposed, 0, again=True)
""",
        SOFTCUDA_SEED=7,
    )


def test_integers_are_exact():
    """Sums wrap, as those of the host do."""
    run(
        WITHOUT_LIBRARY
        + WIDE
        + """
for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
    for sizes, own, settings, transposed in ALL + WIDE:
        features = own[1] * settings.get("groups", 1) if transposed else own[0]
        x, weight, bias = (torch.randint(0, 100, shape).to(dtype) for shape in (sizes, own, (features,)))
        found = convolution(x.cuda(), weight.cuda(), bias.cuda(), settings, transposed)
        assert torch.equal(found.cpu(), convolution(x, weight, bias, settings, transposed)), (dtype, sizes, settings)
"""
    )


def test_operands_are_read_where_they_lie():
    """Channels-last, with gaps, repeated, and at odd addresses; nothing is copied, and the result has the host's order."""
    run(
        WITHOUT_LIBRARY
        + """
x, weight, bias = torch.randn(2, 9, 9, 9), torch.randn(7, 9, 3, 3), torch.randn(14)[::2]
last = torch.channels_last
images = [
    lambda x: x, lambda x: x.to(memory_format=last), lambda x: x[:, :, 1:, ::2], lambda x: x.mT,
    lambda x: x[:1].expand(2, 9, 9, 9), lambda x: x.reshape(-1)[1:649].reshape(1, 9, 8, 9),
]
weights = [
    lambda w: w, lambda w: w.to(memory_format=last), lambda w: w.mT, lambda w: w[:, :1].expand(7, 9, 3, 3), lambda w: w[:, :, :2],
]
for image in images:
    for own in weights:
        device = [image(x.cuda()), own(weight.cuda()), bias.cuda()]
        wanted = F.conv2d(image(x), own(weight), bias)
        before = launches()
        found = F.conv2d(*device)
        assert launches() == before + 1 and found.stride() == wanted.stride()
        assert torch.allclose(found.cpu(), wanted, atol=1e-4)
for dtype in (torch.float32, torch.bfloat16):
    for sizes, own, settings, transposed in ALL:
        given = operands(sizes, own, transposed, settings, dtype)
        if len(own) > 3:
            given[0] = given[0].to(memory_format=last if len(own) == 4 else torch.channels_last_3d)
        same(*given, settings, transposed, 0)
""",
        SOFTCUDA_SEED=3,
    )


def test_nothing_needs_memory_besides_the_result():
    """Each is one kernel. The input lies in channels-last order; a bias is added by the same kernel."""
    run(
        WITHOUT_LIBRARY
        + """
def needed(function, launched):
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before, kernels = torch.cuda.memory_allocated(), launches()
    result = function()
    assert launches() - kernels == launched, launches() - kernels
    peak, kept = (torch.cuda.memory_stats()[f"requested_bytes.all.{what}"] for what in ("peak", "current"))
    assert torch.cuda.memory_allocated() - before >= result.nbytes
    return peak - kept
for dtype in (torch.float32, torch.float16, torch.int64):
    for groups in (1, 16):
        x = torch.ones(2, 16, 12, 12, dtype=dtype, device="cuda").to(memory_format=torch.channels_last)
        weight = torch.ones(16, 16 // groups, 3, 3, dtype=dtype, device="cuda")
        bias = torch.ones(16, dtype=dtype, device="cuda")
        settings = (1,), (1, 1, 1, 1), (1, 1), groups
        y = F.conv2d(x, weight, bias, padding=1, groups=groups)
        assert needed(lambda: F.conv2d(x, weight, bias, padding=1, groups=groups), 1) == 0
        assert needed(lambda: F.conv_transpose2d(y, weight, bias, 2, 1, groups=groups), 1) == 0
        assert needed(lambda: torch._conv_input(y, weight, x.shape, (1, 1), (1, 1, 1, 1), (1, 1), groups), 1) == 0
        # The sums of the weight's gradient are long: 288 pixels are not, 2048 are.
        assert needed(lambda: torch._conv_weight(x, y, weight.shape, (1, 1), (1, 1, 1, 1), (1, 1), groups), 1) == 0
x, y = torch.ones(2, 8, 32, 32, device="cuda"), torch.ones(2, 8, 32, 32, device="cuda")
weight = needed(lambda: torch._conv_weight(x, y, (8, 8, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1), 2)
assert weight == 8 * 64 * 4, weight
"""
    )


def test_each_run_has_the_same_bits():
    """Also where long sums are cut into pieces, and whatever the order of threads."""
    program = (
        WITHOUT_LIBRARY
        + """
import hashlib
x, y = torch.randn(3, 8, 30, 31), torch.randn(3, 6, 30, 31)
grads = [
    torch._conv_weight(x.cuda(), y.cuda(), (6, 8, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    torch._conv_weight(x.cuda(), y.cuda()[:, :2], (2, 4, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 2),
    F.conv2d(torch.randn(1, 80, 3, 3).cuda(), torch.randn(9, 80, 3, 3).cuda(), torch.randn(9).cuda()),
]
wanted = torch._conv_weight(x, y, (6, 8, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1)
assert torch.allclose(grads[0].cpu(), wanted, rtol=1e-4, atol=1e-2)
print(hashlib.sha256(b"".join(grad.cpu().numpy().tobytes() for grad in grads)).hexdigest())
"""
    )
    assert len({run(program, SOFTCUDA_SEED=seed) for seed in (0, 1, 2)}) == 1


def test_an_infinite_gradient_reaches_only_the_elements_of_its_window():
    """With strides, taps that an element does not meet are no products of zero."""
    run(
        WITHOUT_LIBRARY
        + """
for channels in (1, 8):
    grad = torch.zeros(1, 8, 4, 4, device="cuda")
    grad[0, 0, 1, 1] = torch.inf
    weight = torch.ones(8, channels, 3, 3, device="cuda")
    found = torch._conv_input(grad, weight, (1, channels, 9, 9), (2, 2), (0, 0, 0, 0), (1, 1), 1)
    reached = torch.zeros(9, 9, dtype=torch.bool)
    reached[2:5, 2:5] = True
    assert torch.equal(found[0, 0].isfinite().cpu(), ~reached) and not found.isnan().any()
"""
    )


def test_large_numbers():
    """Places beyond 32 bits, with a thread for each result and with squares."""
    run(
        WITHOUT_LIBRARY
        + """
far = 2**40
for features in (2, 6):
    x, weight = torch.randn(1, features + 1, 9, device="cuda"), torch.randn(features, features + 1, 1, device="cuda")
    settings = (far,), (far, far), (1,), 1
    y = torch._conv(x, weight, None, *settings)
    middle = F.conv1d(x.cpu()[:, :, :1], weight.cpu())
    assert torch.allclose(y.cpu(), F.pad(middle, (1, 1)), atol=1e-5)
    back = torch._conv_input(y, weight, x.shape, *settings)
    wanted = F.conv_transpose1d(middle, weight.cpu())
    assert torch.allclose(back.cpu(), F.pad(wanted, (0, 8)), atol=1e-4)
    grad = torch._conv_weight(x, y, weight.shape, *settings)
    wanted = middle.reshape(-1, 1) * x.cpu()[0, :, 0]
    assert torch.allclose(grad.cpu()[:, :, 0], wanted, atol=1e-4)
"""
    )

"""Pooling on a device: results and gradients have the bits of the CPU's."""

import pytest
from card import needs_device

import rushlight as torch
from rushlight.nn import functional as F

pytestmark = needs_device

#: Windows that overlap, leave gaps, are dilated, reach into the padding, or cover the input evenly.
CALLS = {
    "max1": ((2, 3, 17), lambda x: F.max_pool1d(x, 3, 2, 1)),
    "max2": ((2, 3, 9, 11), lambda x: F.max_pool2d(x, 3, 1, 1)),
    "max2 dilated": ((2, 3, 9, 11), lambda x: F.max_pool2d(x, (3, 2), (2, 3), (1, 0), (2, 3), ceil_mode=True)),
    "max3": ((1, 2, 5, 6, 7), lambda x: F.max_pool3d(x, 2, (1, 2, 3))),
    "max adaptive": ((2, 3, 9, 11), lambda x: F.adaptive_max_pool2d(x, (4, 7))),
    "max random": (
        (2, 3, 9, 11),
        lambda x: F.fractional_max_pool2d(x, 2, (4, 7), _random_samples=torch.full((2, 3, 2), 0.4).to(x)),
    ),
    "mean1": ((2, 3, 17), lambda x: F.avg_pool1d(x, 3, 2, 1)),
    "mean2": ((2, 3, 9, 11), lambda x: F.avg_pool2d(x, 3, 1, 1)),
    "mean2 within": ((2, 3, 9, 11), lambda x: F.avg_pool2d(x, (4, 2), (2, 3), (2, 1), True, False)),
    "mean2 divided": ((2, 3, 9, 11), lambda x: F.avg_pool2d(x, 3, 2, divisor_override=-7)),
    "mean3": ((1, 2, 5, 6, 7), lambda x: F.avg_pool3d(x, 2, (1, 2, 3), 1)),
    "mean adaptive": ((2, 3, 9, 11), lambda x: F.adaptive_avg_pool2d(x, (4, 7))),
    "mean adaptive3": ((2, 3, 4, 5, 6), lambda x: F.adaptive_avg_pool3d(x, (3, 7, 2))),
}


def same(found, wanted):
    """Equal elements at equal places, NaN included."""
    found = found.detach().cpu()
    assert (found.dtype, found.shape, found.stride()) == (wanted.dtype, wanted.shape, wanted.stride())
    assert torch.equal(torch.nan_to_num(found, nan=12345.0), torch.nan_to_num(wanted.detach(), nan=12345.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_gradients(name, dtype):
    """Values, gradients and gradients of gradients are the CPU's; rows repeat values, and one has NaN."""
    shape, function = CALLS[name]
    torch.manual_seed(0)
    start = torch.randint(-4, 5, shape).to(dtype) / 3
    start.view(-1)[5] = float("nan")
    results = []
    for device in ("cpu", "cuda"):
        x = start.to(device).requires_grad_()
        y = function(x)
        weights = torch.arange(y.numel()).reshape(y.shape).to(y) / 7
        weights.requires_grad_()
        [grad] = torch.autograd.grad(y, x, weights, create_graph=True)
        [second] = torch.autograd.grad(grad, weights, (x.detach() * 0.5).nan_to_num())
        results.append((y, grad, second))
    for wanted, found in zip(*results, strict=True):
        same(found, wanted)


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last])
def test_formats(format):
    x = torch.randn(2, 3, 8, 6).to(memory_format=format)
    for function in (lambda x: F.max_pool2d(x, 2, return_indices=True), lambda x: (F.avg_pool2d(x, 3, 2, 1),)):
        for found, wanted in zip(function(x.cuda()), function(x), strict=True):
            same(found, wanted)


def test_integers_and_empty_windows():
    """A window in the padding has the smallest value, and integers have maxima and means."""
    x = torch.tensor([[[5, -6, 7, 2]]], dtype=torch.int64)
    same(F.avg_pool1d(x.cuda(), 2, 1, 1), F.avg_pool1d(x, 2, 1, 1))
    for dtype in (torch.uint8, torch.int16, torch.int64, torch.float32):
        image = torch.tensor([[[3, 9]]]).to(dtype)
        call = ((1, 3), (1, 3), (0, 0), (1, 3), (1, 2))
        for found, wanted in zip(torch._max_pool(image.cuda(), *call), torch._max_pool(image, *call), strict=True):
            same(found, wanted)


def test_unpooling():
    """Of equal indices the last value stays; an index outside is refused."""
    x = torch.randn(2, 3, 8, 6, requires_grad=True)
    y, places = F.max_pool2d(x, 3, 1, return_indices=True)
    same(
        F.max_unpool2d(y.cuda(), places.cuda(), 3, 1, output_size=(8, 6)),
        F.max_unpool2d(y, places, 3, 1, output_size=(8, 6)),
    )
    with pytest.raises(RuntimeError, match="Found an invalid max index: 99"):
        F.max_unpool2d(y.cuda(), (places * 0 + 99).cuda(), 3, 1, output_size=(8, 6))
    with pytest.raises(IndexError, match="not within a plane"):
        torch._pool_gather(y.cuda(), (places * 0 + 99).cuda(), 2)


def test_long_axes_are_counted_in_64_bits():
    """Windows whose positions do not fit 32 bits."""
    x = torch.randn(1, 1, 40)
    call = ((2,), (2**31 - 1,), (1,), (17,), (1,))
    for found, wanted in zip(torch._max_pool(x.cuda(), *call), torch._max_pool(x, *call), strict=True):
        same(found, wanted)

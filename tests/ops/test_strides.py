"""The memory layout of results: the strides of torch 2.13, which are recorded here."""

import math

import pytest

import rushlight as torch

F = torch.nn.functional

# The calls, and the shapes and layouts of their operands.
LAID = [
    ("F.conv1d(a, b)", (2, 4, 6), "plain", (6, 4, 3), "turned", (24, 1, 6)),
    ("F.conv1d(a, b)", (2, 4, 6), "turned", (6, 4, 3), "plain", (24, 4, 1)),
    ("F.conv2d(a, b)", (2, 4, 6, 5), "last", (6, 4, 3, 3), "plain", (72, 1, 18, 6)),
    ("F.conv2d(a, b)", (2, 4, 6, 5), "plain", (6, 4, 3, 3), "last", (72, 1, 18, 6)),
    ("F.conv2d(a, b)", (2, 4, 6, 5), "moved", (6, 4, 3, 3), "turned", (72, 12, 3, 1)),
    ("F.conv2d(a, b)", (4, 6, 5), "plain", (6, 4, 3, 3), "last", (1, 18, 6)),
    ("F.conv2d(a, b, groups=4)", (2, 4, 6, 5), "last", (4, 1, 3, 3), "plain", (48, 1, 12, 4)),
    ("F.conv2d(a.double(), b.double())", (2, 4, 6, 5), "last", (6, 4, 3, 3), "plain", (72, 1, 18, 6)),
    ("F.conv3d(a, b)", (2, 4, 6, 5, 4), "last", (6, 4, 3, 3, 3), "plain", (144, 1, 36, 12, 6)),
    ("F.conv3d(a.double(), b.double())", (2, 4, 6, 5, 4), "last", (6, 4, 3, 3, 3), "plain", (144, 24, 6, 2, 1)),
    ("F.conv_transpose2d(a, b)", (2, 4, 6, 5), "last", (4, 6, 3, 3), "plain", (336, 1, 42, 6)),
    ("F.conv_transpose3d(a, b)", (2, 4, 3, 3, 3), "plain", (4, 6, 2, 2, 2), "last", (384, 1, 96, 24, 6)),
    ("F.max_pool2d(a, 2)", (2, 4, 6, 4), "last", None, None, (24, 1, 8, 4)),
    ("F.avg_pool2d(a, 2)", (2, 4, 6, 4), "last", None, None, (24, 1, 8, 4)),
    ("F.lp_pool2d(a, 2.0, 2)", (2, 4, 6, 4), "last", None, None, (24, 1, 8, 4)),
    ("F.adaptive_avg_pool2d(a, 2)", (2, 4, 6, 4), "last", None, None, (16, 1, 8, 4)),
    ("F.adaptive_max_pool2d(a, 2)", (2, 4, 6, 4), "last", None, None, (16, 1, 8, 4)),
    ("F.max_pool2d(a, 2, return_indices=True)[1]", (2, 4, 6, 4), "last", None, None, (24, 1, 8, 4)),
    ("F.adaptive_avg_pool2d(a, 1)", (2, 4, 6, 4), "last", None, None, (4, 1, 4, 4)),
    ("F.interpolate(a, scale_factor=2, mode='area')", (2, 4, 6, 4), "last", None, None, (384, 1, 32, 4)),
    ("F.interpolate(a, scale_factor=2)", (2, 4, 6, 4), "last", None, None, (384, 1, 32, 4)),
    ("F.pad(a, (1, 1))", (2, 4, 6, 4), "last", None, None, (144, 1, 24, 4)),
    ("F.pad(a, (1, 1, 2, 0), mode='reflect')", (2, 4, 6, 4), "last", None, None, (192, 1, 24, 4)),
    ("F.pad(a, (1, 1, 2, 0), mode='replicate')", (2, 4, 6, 4), "last", None, None, (192, 1, 24, 4)),
    ("F.group_norm(a, 2)", (2, 4, 6, 4), "last", None, None, (96, 1, 16, 4)),
    ("F.pixel_shuffle(a, 2)", (2, 4, 6, 4), "last", None, None, (96, 1, 8, 1)),
    ("F.pixel_unshuffle(a, 2)", (2, 4, 6, 4), "last", None, None, (96, 1, 32, 16)),
    ("F.max_pool3d(a, 2)", (2, 4, 4, 4, 4), "last", None, None, (32, 1, 16, 8, 4)),
    ("F.avg_pool3d(a, 2)", (2, 4, 4, 4, 4), "last", None, None, (32, 8, 4, 2, 1)),
    ("F.pad(a, (1, 1, 1, 1, 1, 1), mode='replicate')", (2, 4, 4, 4, 4), "last", None, None, (864, 1, 144, 24, 4)),
    ("F.adaptive_max_pool3d(a, 2)", (2, 4, 4, 4, 4), "last", None, None, (32, 8, 4, 2, 1)),
    ("F.avg_pool1d(a, 2)", (2, 3, 6), "turned", None, None, (9, 1, 3)),
    ("F.adaptive_avg_pool1d(a, 2)", (2, 3, 6), "turned", None, None, (6, 1, 3)),
    ("F.adaptive_max_pool1d(a, 2)", (2, 3, 6), "turned", None, None, (6, 1, 3)),
    ("F.max_pool1d(a, 2)", (2, 3, 6), "turned", None, None, (9, 3, 1)),
    ("torch.frexp(a)[0]", (2, 3, 4), "turned", None, None, (12, 1, 3)),
    ("torch.frexp(a)[1]", (2, 3, 4), "moved", None, None, (1, 8, 2)),
    ("F.logsigmoid(a)", (2, 3, 4), "turned", None, None, (12, 4, 1)),
    ("F.logsigmoid(a)", (2, 3, 4), "moved", None, None, (12, 4, 1)),
    ("torch.fft.fft(a, dim=0)", (2, 4, 6), "plain", None, None, (1, 12, 2)),
    ("torch.fft.fft(a, dim=0)", (2, 4, 6), "turned", None, None, (1, 2, 8)),
    ("torch.fft.fft(a, dim=0)", (2, 4, 6), "moved", None, None, (1, 12, 2)),
    ("torch.fft.fft(a)", (2, 4, 6), "plain", None, None, (24, 6, 1)),
    ("torch.fft.fft(a)", (2, 4, 6), "turned", None, None, (24, 6, 1)),
    ("torch.fft.fft(a)", (2, 4, 6), "moved", None, None, (6, 12, 1)),
    ("torch.fft.rfft(a, dim=0)", (2, 4, 6), "plain", None, None, (1, 12, 2)),
    ("torch.fft.rfft(a, dim=0)", (2, 4, 6), "turned", None, None, (1, 2, 8)),
    ("torch.fft.rfft(a, dim=0)", (2, 4, 6), "moved", None, None, (1, 12, 2)),
    ("torch.fft.irfft(a, dim=0)", (2, 4, 6), "plain", None, None, (1, 12, 2)),
    ("torch.fft.irfft(a, dim=0)", (2, 4, 6), "turned", None, None, (1, 2, 8)),
    ("torch.fft.irfft(a, dim=0)", (2, 4, 6), "moved", None, None, (1, 12, 2)),
    ("torch.fft.fft2(a)", (2, 4, 6), "plain", None, None, (24, 6, 1)),
    ("torch.fft.fft2(a)", (2, 4, 6), "turned", None, None, (24, 1, 4)),
    ("torch.fft.fft2(a)", (2, 4, 6), "moved", None, None, (24, 6, 1)),
    ("torch.fft.fftn(a)", (2, 4, 6), "plain", None, None, (24, 6, 1)),
    ("torch.fft.fftn(a)", (2, 4, 6), "turned", None, None, (24, 1, 4)),
    ("torch.fft.fftn(a)", (2, 4, 6), "moved", None, None, (1, 12, 2)),
    ("torch.fft.rfftn(a)", (2, 4, 6), "plain", None, None, (16, 4, 1)),
    ("torch.fft.rfftn(a)", (2, 4, 6), "turned", None, None, (16, 4, 1)),
    ("torch.fft.rfftn(a)", (2, 4, 6), "moved", None, None, (4, 8, 1)),
    ("torch.fft.irfftn(a)", (2, 4, 6), "plain", None, None, (40, 10, 1)),
    ("torch.fft.irfftn(a)", (2, 4, 6), "turned", None, None, (40, 10, 1)),
    ("torch.fft.irfftn(a)", (2, 4, 6), "moved", None, None, (10, 20, 1)),
    ("torch.fft.ihfft2(a)", (2, 4, 6), "plain", None, None, (16, 1, 4)),
    ("torch.fft.ihfft2(a)", (2, 4, 6), "turned", None, None, (16, 1, 4)),
    ("torch.fft.ihfft2(a)", (2, 4, 6), "moved", None, None, (16, 1, 4)),
    ("torch.fft.ihfftn(a)", (2, 4, 6), "plain", None, None, (4, 1, 8)),
    ("torch.fft.ihfftn(a)", (2, 4, 6), "turned", None, None, (4, 1, 8)),
    ("torch.fft.ihfftn(a)", (2, 4, 6), "moved", None, None, (1, 2, 8)),
    ("torch.fft.hfftn(a)", (2, 4, 6), "plain", None, None, (40, 10, 1)),
    ("torch.fft.hfftn(a)", (2, 4, 6), "turned", None, None, (40, 10, 1)),
    ("torch.fft.hfftn(a)", (2, 4, 6), "moved", None, None, (10, 20, 1)),
    ("torch.fft.ifft2(a, dim=(0, 2))", (2, 4, 6), "plain", None, None, (6, 12, 1)),
    ("torch.fft.ifft2(a, dim=(0, 2))", (2, 4, 6), "turned", None, None, (6, 12, 1)),
    ("torch.fft.ifft2(a, dim=(0, 2))", (2, 4, 6), "moved", None, None, (1, 12, 2)),
    ("torch.stack([a, a])", (2, 4, 6, 4), "last", None, None, (192, 96, 1, 16, 4)),
    ("torch.stack([a, a], 1)", (2, 4, 6, 4), "last", None, None, (192, 4, 1, 32, 8)),
    ("torch.stack([a, a], -1)", (2, 4, 6, 4), "last", None, None, (192, 48, 8, 2, 1)),
    ("torch.roll(a, 1, 1)", (2, 4, 6, 4), "last", None, None, (96, 1, 16, 4)),
    ("torch.roll(a, 1)", (2, 4, 6, 4), "last", None, None, (96, 24, 4, 1)),
    ("F.channel_shuffle(a, 2)", (2, 4, 6, 4), "last", None, None, (96, 1, 16, 4)),
    ("F.adaptive_avg_pool3d(a, 1)", (2, 4, 4, 4, 4), "last", None, None, (4, 1, 4, 4, 4)),
    ("torch.renorm(a, 2, 1, 1)", (2, 3, 4), "turned", None, None, (12, 4, 1)),
    ("torch.renorm(a, 2, 0, 1)", (2, 4, 6, 4), "last", None, None, (96, 24, 4, 1)),
    ("torch.einsum('ij,kj->ki', a, b)", (3, 4), "plain", (5, 4), "plain", (3, 1)),
    ("torch.einsum('ij,kj->ik', a, b)", (3, 4), "plain", (5, 4), "plain", (5, 1)),
    ("torch.einsum('bij,kj->kbi', a, b)", (2, 3, 4), "plain", (5, 4), "plain", (6, 3, 1)),
    ("torch.einsum('bij,bkj->bki', a, b)", (2, 3, 4), "plain", (2, 5, 4), "plain", (15, 3, 1)),
    ("torch.select_scatter(a[::2, :, ::2], b, 0, 0)", (4, 3, 8), "plain", (3, 4), "plain", (48, 8, 2)),
    ("torch.slice_scatter(a[:, ::2], b, 0, 0, 1)", (3, 4), "plain", (1, 2), "plain", (4, 2)),
    ("torch.slice_scatter(a[:1].expand(3, 4), b, 0, 0, 1)", (3, 4), "plain", (1, 4), "plain", (4, 1)),
    ("torch.linalg.lstsq(a, b).solution", (3, 4), "plain", (3, 2), "plain", (1, 4)),
    ("torch.linalg.lstsq(a, b).solution", (4, 3), "plain", (4, 2), "plain", (1, 4)),
    ("torch.linalg.lstsq(a, b).solution", (2, 3, 4), "plain", (2, 3, 2), "plain", (8, 1, 4)),
    ("torch.linalg.solve(a + 9 * torch.eye(3), b)", (2, 3, 3), "plain", (2, 3, 3), "plain", (9, 1, 3)),
    ("torch.empty_strided((2, 1, 3), (4, -1, 1)).zero_()", (1,), "plain", None, None, (4, 3, 1)),
    ("torch.triangular_solve(b, a).cloned_coefficient", (5, 5), "plain", (5, 3), "plain", (1, 5)),
    ("F.max_unpool2d(a, b.long() * 0, 1)", (2, 4, 6, 4), "last", (2, 4, 6, 4), "plain", (96, 1, 16, 4)),
    ("F.rms_norm(a, (4,))", (2, 4, 6, 4), "last", None, None, (96, 1, 16, 4)),
    ("F.rrelu(a)", (2, 4, 6, 4), "last", None, None, (96, 24, 4, 1)),
    ("F.batch_norm(a, torch.zeros(4), torch.ones(4))", (2, 4, 6, 4), "last", None, None, (96, 1, 16, 4)),
    ("F.batch_norm(a, torch.zeros(4), torch.ones(4))", (2, 4, 6, 4), "moved", None, None, (96, 24, 4, 1)),
    (
        "F.instance_norm(a, torch.zeros(4), torch.ones(4), use_input_stats=False)",
        (2, 4, 6, 4),
        "last",
        None,
        None,
        (96, 24, 4, 1),
    ),
    ("F.pad(a, (0, 0, 0, 0), mode='circular')", (2, 4, 6, 4), "last", None, None, (96, 24, 4, 1)),
    ("F.pad(a, (0, 0, 0, 0), mode='replicate')", (2, 4, 6, 4), "moved", None, None, (96, 24, 4, 1)),
    ("F.pad(a, (0, 0, 0, 0, 0, -1))", (2, 4, 6, 4), "moved", None, None, (1, 48, 8, 2)),
    ("F.pad(a, (0, -1))", (1, 4, 6, 4), "plain", None, None, (72, 18, 3, 1)),
    ("torch.roll(a, 4, 1)", (2, 4, 6, 4), "last", None, None, (96, 24, 4, 1)),
    ("torch.linalg.cross(a, b)", (2, 3, 4, 3), "last", (2, 3, 4, 3), "last", (36, 12, 3, 1)),
    ("torch.unique(a, dim=1)", (2, 3, 4), "plain", None, None, (4, 8, 1)),
    ("torch.unique_consecutive(a, dim=2)", (2, 3, 4), "plain", None, None, (3, 1, 6)),
    ("F.channel_shuffle(a.expand(2, 4, 6), 2)", (2, 1, 6), "plain", None, None, (24, 6, 1)),
    ("F.channel_shuffle(a, 1)", (2, 4, 6), "moved", None, None, (24, 6, 1)),
    ("torch.stack([a, a])", (1, 4, 6, 4), "last", None, None, (96, 4, 1, 16, 4)),
    ("torch.conv_tbc(a, b, torch.zeros(2))", (5, 3, 4), "plain", (2, 4, 2), "plain", (6, 2, 1)),
    ("torch.unique(a, dim=0)", (2, 3, 4), "plain", None, None, (12, 4, 1)),
]

# Functions of an input, its shape and layout, and torch's strides of its gradient where that of the result lies like the result.
GRADIENTS = [
    ("F.max_pool2d(x, 2)", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.max_pool3d(x, 2)", (2, 4, 4, 4, 4), "last", (256, 1, 64, 16, 4)),
    ("F.adaptive_max_pool3d(x, 2)", (2, 4, 4, 4, 4), "last", (256, 64, 16, 4, 1)),
    ("F.avg_pool2d(x, 2)", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.avg_pool3d(x, 2)", (2, 4, 4, 4, 4), "last", (256, 64, 16, 4, 1)),
    ("F.adaptive_avg_pool2d(x, 2)", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.adaptive_max_pool2d(x, 2)", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.interpolate(x, size=(3, 3), mode='area')", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.pad(x, (1, 1, 1, 1), mode='replicate')", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.pad(x, (1, 1, 1, 1), mode='reflect')", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.group_norm(x, 2)", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.layer_norm(x, (4,))", (2, 4, 6, 4), "last", (96, 24, 4, 1)),
    ("F.max_unpool2d(x, torch.zeros(2, 4, 6, 4, dtype=torch.int64), 1)", (2, 4, 6, 4), "last", (96, 24, 4, 1)),
    ("F.mse_loss(x, torch.zeros(2, 4, 6, 4), reduction='none')", (2, 4, 6, 4), "last", (96, 24, 4, 1)),
    ("F.smooth_l1_loss(x, torch.zeros(2, 4, 6, 4), reduction='none')", (2, 4, 6, 4), "last", (96, 24, 4, 1)),
    ("F.huber_loss(x, torch.zeros(2, 4, 6, 4), reduction='none')", (2, 4, 6, 4), "last", (96, 24, 4, 1)),
    ("F.glu(x, 1)", (2, 4, 6, 4), "last", (96, 24, 4, 1)),
    ("F.pixel_shuffle(x, 2)", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.pixel_shuffle(x, 2)", (2, 8, 6, 4), "plain", (192, 24, 4, 1)),
    ("F.pixel_unshuffle(x, 2)", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.channel_shuffle(x, 2)", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.adaptive_avg_pool2d(x, 1)", (2, 4, 6, 4), "last", (96, 24, 4, 1)),
    ("F.adaptive_avg_pool3d(x, 1)", (2, 4, 4, 4, 4), "last", (256, 64, 16, 4, 1)),
    ("F.interpolate(x, scale_factor=2)", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.interpolate(x, scale_factor=2, mode='bilinear')", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.interpolate(x, scale_factor=0.5, mode='bilinear', antialias=True)", (2, 4, 6, 4), "last", (96, 1, 16, 4)),
    ("F.interpolate(x, scale_factor=2, mode='bicubic')", (2, 4, 6, 4), "last", (96, 24, 4, 1)),
    ("x.cumsum(1)", (2, 4, 6, 4), "last", (96, 24, 4, 1)),
    ("x.amax(1)", (2, 3, 4), "turned", (12, 1, 3)),
    (
        "F.conv2d(torch.ones(2, 4, 6, 5).contiguous(memory_format=torch.channels_last), x)",
        (6, 4, 3, 3),
        "plain",
        (36, 1, 12, 4),
    ),
]


def made(shape, layout):
    plain = torch.arange(1.0, 1 + math.prod(shape)).reshape(shape)
    match layout:
        case "turned":
            return plain.transpose(-1, -2).contiguous().transpose(-1, -2)
        case "moved":
            return plain.movedim(0, -1).contiguous().movedim(-1, 0)
        case "last":
            return plain.contiguous(memory_format=torch.channels_last if len(shape) == 4 else torch.channels_last_3d)
    return plain


@pytest.mark.parametrize(("call", "shape", "layout", "other", "other_layout", "expected"), LAID)
@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
def test_results_lie_as_torchs(call, shape, layout, other, other_layout, expected):
    a, b = made(shape, layout), other and made(other, other_layout)
    result = eval(call, {"torch": torch, "F": F, "a": a, "b": b})
    assert result.stride() == expected
    plain = eval(call, {"torch": torch, "F": F, "a": a.contiguous(), "b": other and b.contiguous()})
    assert torch.allclose(result.resolve_conj(), plain.resolve_conj(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("call", "shape", "layout", "expected"), GRADIENTS)
def test_gradients_lie_as_torchs(call, shape, layout, expected):
    def gradient(x):
        x.requires_grad_()
        result = eval(call, {"torch": torch, "F": F, "x": x})
        return torch.autograd.grad(result, x, torch.ones_like(result))[0]

    found = gradient(made(shape, layout))
    assert found.stride() == expected
    assert torch.allclose(found, gradient(made(shape, "plain")), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("F.conv2d(x, torch.ones(3, 4, 1, 1))", (96, 1, 16, 4)),
        ("F.conv_transpose2d(x, torch.ones(4, 3, 1, 1))", (96, 1, 16, 4)),
        ("F.binary_cross_entropy(x.sigmoid(), torch.ones(2, 4, 6, 4), reduction='none')", (96, 1, 16, 4)),
        ("F.pixel_unshuffle(x, 2)", (96, 24, 4, 1)),
        ("F.mse_loss(x, torch.zeros(2, 4, 6, 4))", (96, 24, 4, 1)),
        ("F.adaptive_avg_pool2d(x, 1)", (96, 24, 4, 1)),
    ],
)
def test_gradients_of_sums_lie_as_torchs(call, expected):
    x = made((2, 4, 6, 4), "last").div(192).requires_grad_()
    result = eval(call, {"torch": torch, "F": F, "x": x})
    assert torch.autograd.grad(result.sum(), x)[0].stride() == expected


def test_powers_of_a_number_are_row_major():
    for x in (made((2, 3), "turned"), made((2, 4, 6, 4), "last")):
        row_major = torch.empty(x.shape).stride()
        assert (2**x).stride() == torch.pow(2.5, x).stride() == torch.float_power(2, x).stride() == row_major
        assert (x**2).stride() == (x**x).stride() == x.stride()
        assert torch.equal(2**x, 2 ** x.contiguous())
    assert torch.linalg.matrix_power(made((3, 3), "turned"), 1).stride() == (3, 1)


def test_a_shuffle_of_channels_never_shares_memory():
    x = torch.arange(12.0).reshape(1, 4, 3)
    for groups in (1, 2):
        F.channel_shuffle(x.expand(2, 4, 3), groups).fill_(0)
    assert x.sum() == 66


def test_gradients_through_results_that_lie_otherwise():
    x = made((2, 4, 6, 5), "last").double().requires_grad_()
    w = torch.arange(96.0, dtype=torch.float64).reshape(6, 4, 2, 2).div(96).requires_grad_()

    def net(x):
        return F.pad(F.max_pool2d(F.avg_pool2d(F.conv2d(x, w), 2, 1), 2), (1, 1))

    found = torch.autograd.grad(net(x).square().sum(), (x, w))
    expected = torch.autograd.grad(net(x.contiguous()).square().sum(), (x, w))
    assert all(torch.allclose(one, other) for one, other in zip(found, expected, strict=True))


def test_ambiguous_orders_of_dimensions():
    unique, mapped = "does not have unique dim order.", "does not have unique dim order, or cannot map to exact one"
    formats = [torch.contiguous_format, torch.channels_last]
    assert torch.empty(2, 3, 4).permute(2, 0, 1).dim_order(ambiguity_check=True) == (1, 2, 0)
    assert torch.empty(1, 2, 3, 4).dim_order(ambiguity_check=formats) == (0, 1, 2, 3)
    turned = torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert turned.dim_order(ambiguity_check=formats) == (0, 2, 3, 1)
    for tensor, check, sentence in (
        (torch.empty(1, 3), True, mapped),
        (torch.empty(2, 0), True, mapped),
        (torch.empty(1, 2, 3, 4), [torch.channels_last], mapped),
        (torch.empty(2, 1, 3, 4), formats, mapped),
        (torch.empty(2, 1, 3, 4), [torch.contiguous_format], unique),
        (torch.empty(3).expand(2, 3), True, unique),
    ):
        with pytest.raises(RuntimeError, match=sentence):
            tensor.dim_order(ambiguity_check=check)
    with pytest.raises(TypeError, match="must be a bool or a list of memory formats"):
        torch.empty(2).dim_order(ambiguity_check=1)


def test_orders_of_dimensions_where_one_memory_format_says_it():
    formats = [torch.contiguous_format, torch.channels_last]
    assert torch.ones(2, 1).dim_order(ambiguity_check=formats) == (0, 1)
    assert torch.ones(2, 1, 3).dim_order(ambiguity_check=[torch.contiguous_format]) == (0, 1, 2)
    assert torch.empty(2, 1, 4, 5).to(memory_format=torch.channels_last).dim_order() == (0, 2, 3, 1)


def test_dimensions_of_stride_zero_do_not_decide_the_order():
    assert torch.empty(2, 3).expand(2, 2, 3).dim_order() == (0, 1, 2)
    assert torch.empty(4, 3).t().unsqueeze(1).expand(3, 2, 4).dim_order() == (2, 1, 0)
    assert torch.empty(200).as_strided((3, 2, 2, 3, 2), (0, 2, 4, 0, 0)).dim_order() == (0, 2, 1, 3, 4)
    assert torch.empty(1).expand(3).dim_order(ambiguity_check=True) == (0,)
    assert torch.empty(1, 1, 2, 2, 2).to(memory_format=torch.channels_last_3d).dim_order() == (0, 1, 2, 3, 4)
    # Only neighbours of one stride make the order open from the start.
    for strides, sentence in (((12, 12, 4), "unique dim order, or cannot map"), ((12, 4, 12), "unique dim order.$")):
        with pytest.raises(RuntimeError, match=sentence):
            torch.empty(200).as_strided((2, 2, 2), strides).dim_order(ambiguity_check=True)


@pytest.mark.parametrize("batch", [(1,), (3,), (1, 3)])
def test_gradients_of_weights_of_one_row_lie_like_them(batch):
    layer = torch.nn.Linear(2, 1)
    layer(torch.ones(*batch, 2)).sum().backward()
    assert layer.weight.grad.stride() == layer.weight.stride() == (2, 1)


LAST = {"whole": slice(None), "columns": slice(4, -4), "steps": slice(None, None, 2)}


@pytest.mark.parametrize("part", LAST)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.cat([x, x]),
        lambda x: F.interpolate(x, size=(2, 3)),
        lambda x: F.interpolate(x, size=(2, 3), mode="bicubic"),
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: F.max_pool2d(x, 2),
    ],
)
def test_slices_of_channels_last_images_give_such_images(call, channels, part):
    x = torch.rand(2, 3, 8, 16).contiguous(memory_format=torch.channels_last)[:, :channels, :, LAST[part]]
    result = call(x)
    _, c, h, w = result.shape
    assert result.stride() == (h * w * c, 1, w * c, c)
    assert torch.allclose(result, call(x.contiguous()), atol=1e-5)


def test_an_image_without_its_batch_dimension_is_not_channels_last():
    x = torch.rand(2, 3, 8, 16).contiguous(memory_format=torch.channels_last)[0][None]
    assert torch.cat([x, x], 1).stride() == (768, 128, 16, 1)
    assert F.interpolate(x, scale_factor=2).stride() == (1536, 512, 32, 1)


# Sizes, strides, the call, and torch's strides of its result.
ONES = [
    ((1, 1, 8), (32, 8, 1), "x.clone()", (32, 8, 1)),
    ((1, 1, 8), (32, 8, 1), "torch.empty_like(x)", (32, 8, 1)),
    ((1, 1, 8), (32, 8, 1), "torch.frexp(x)[0]", (32, 8, 1)),
    ((1, 1, 8), (32, 8, 1), "x.exp()", (8, 8, 1)),
    ((1, 4, 4, 1, 4), (16, 16, 4, 128, 1), "x > 0", (16, 16, 4, 64, 1)),
    ((1, 4, 4, 1, 4), (16, 16, 4, 128, 1), "x + x", (64, 16, 4, 4, 1)),
    ((1, 4, 4, 1, 4), (16, 16, 4, 128, 1), "x[[0]]", (64, 16, 4, 64, 1)),
    ((1, 4, 4, 1, 4), (16, 16, 4, 128, 1), "x[:, [0]]", (16, 16, 4, 16, 1)),
    ((8, 2, 2, 1), (6, 2, 3, 3), "x.exp()", (4, 1, 2, 2)),
    ((3, 3, 1, 2), (6, 1, 0, 0), "x + x.contiguous(memory_format=torch.channels_last)", (6, 1, 6, 3)),
    ((4, 1, 4, 1, 1), (4, 4, 1, 16, 4), "x + x[:1]", (4, 4, 1, 16, 4)),
    ((1, 3, 8, 16), (3, 1, 48, 3), "x.exp()", (384, 1, 48, 3)),
    ((1, 3, 8, 16), (768, 1, 48, 3), "x.exp()", (384, 1, 48, 3)),
    ((2, 1, 8, 16), (384, 1, 48, 3), "x.exp()", (128, 1, 16, 1)),
]


@pytest.mark.parametrize("sizes, strides, call, expected", ONES)
def test_dimensions_of_size_one_lie_as_torchs(sizes, strides, call, expected):
    assert eval(call, {"torch": torch, "x": torch.ones(800).as_strided(sizes, strides)}).stride() == expected


def test_a_conversion_to_a_memory_format_asks_the_strides():
    last = torch.channels_last
    x = torch.ones(2, 1, 4, 5)
    assert x.to(memory_format=last).stride() == (20, 1, 5, 1) and x.to(memory_format=torch.contiguous_format) is x
    gaps = torch.ones(2, 3, 4, 6).to(memory_format=last)[..., ::2]
    assert gaps.to(memory_format=last) is gaps
    assert gaps.to(memory_format=torch.contiguous_format).stride() == (36, 12, 3, 1)
    rows = torch.ones(2, 3, 4, 6)[..., ::2]
    assert rows.to(memory_format=torch.contiguous_format) is rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.complex128])
def test_rows_of_a_few_elements_and_repeated_operands(dtype):
    """Tiles are filled from many short runs, along their longer side."""
    x = torch.arange(7 * 300 * 5).reshape(7, 300, 5).to(dtype)
    factor = (torch.arange(300) % 5).to(dtype)
    exact = [[[value * (row % 5) for value in line] for row, line in enumerate(part)] for part in x.tolist()]
    exact = torch.tensor(exact, dtype=dtype)
    for own in (x, x.transpose(0, 1).contiguous().transpose(0, 1), x.permute(2, 0, 1).contiguous().permute(1, 2, 0)):
        for columns in (1, 2, 3, 5):
            part = own[:, :, :columns]
            assert torch.equal(part * factor[:, None], exact[:, :, :columns])
            assert torch.equal(part.contiguous(), x[:, :, :columns])
            out = torch.zeros(7, 300, 11, dtype=dtype)
            torch.mul(part, factor[:, None], out=out[:, :, 1 : 2 * columns : 2])
            assert torch.equal(out[:, :, 1 : 2 * columns : 2], exact[:, :, :columns]) and (out[:, :, ::2] == 0).all()
    wide = torch.arange(3 * 2500).reshape(3, 2500).to(dtype)
    assert torch.equal(wide * factor[1:4, None], torch.stack([wide[0], wide[1] * factor[2], wide[2] * factor[3]]))
    assert torch.equal(x[..., None].expand(7, 300, 5, 4).contiguous(), torch.stack([x] * 4, -1))
    assert torch.equal(x.repeat_interleave(3, 1), x[:, torch.arange(900) // 3])


@pytest.mark.parametrize("dtype", (torch.int64, torch.float32, torch.complex64))
@pytest.mark.parametrize(
    ("shape", "strides"), [((0,), (0,)), ((0, 3), (5, 1)), ((0, 3, 2), (1, 2, 6)), ((1, 3), (7, 1))]
)
def test_results_of_empty_like_keep_strides_that_mean_nothing(dtype, shape, strides):
    """Where torch allocates a result with `empty_like`, it has the strides of the operand also if that has no elements."""
    x = torch.zeros(8, dtype=dtype).as_strided(shape, strides)
    kept = [torch.nan_to_num]
    if dtype.is_complex:
        kept += [torch.abs, torch.conj_physical]
    else:
        kept += [torch.isreal, torch.rad2deg, torch.deg2rad, F.relu6, F.hardtanh]
    if dtype == torch.int64:
        kept += [torch.isfinite, torch.isinf]
    assert {function.__name__: function(x).stride() for function in kept} == {
        function.__name__: strides for function in kept
    }
    if dtype == torch.float32:
        assert torch.sin(x).stride() == torch.empty(shape).stride()


def test_strides_without_elements_or_of_one():
    assert torch.nonzero(torch.tensor(0)).stride() == (1, 0) and torch.nonzero(torch.tensor(1)).stride() == (1, 1)
    assert torch.nuclear_norm(torch.ones(2, 3, 2), (0, 2), True).stride() == (1, 1, 1)
    assert torch.nuclear_norm(torch.ones(2, 3, 2, 2), (0, 2), True).stride() == (1, 2, 1, 1)
    assert torch.cholesky(torch.ones(0, 5, 2)).stride() == (10, 2, 1)
    assert F.pixel_unshuffle(torch.ones(1, 3, 3), 3).stride() == (1, 1, 1)
    x = torch.ones(8).as_strided((2, 6, 0, 2), (0, 0, 0, 0))
    assert F.channel_shuffle(x, 3).stride() == (0, 0, 0, 0)

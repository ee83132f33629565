"""Elementwise operators and reductions around the edges of packs and of a block's tile, from aligned and other addresses."""

import pytest
from card import needs_device

import rushlight as torch

pytestmark = needs_device

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int16,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
]
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
#: A tile has 256 threads with 1 to 16 elements.
COUNTS = [1, 3, 15, 16, 17, 255, 257, 1023, 1025, 4095, 4096, 4097, 8193]


def drawn(*sizes):
    return torch.randint(0, 9, sizes)


@each_dtype
@pytest.mark.parametrize("start", [0, 1, 2, 8])
def test_flat_operands(dtype, start):
    torch.manual_seed(0)
    for count in COUNTS:
        x, y = (drawn(start + count).to(dtype) for _ in range(2))
        a, b = (tensor.to("cuda")[start:] for tensor in (x, y))
        x, y = x[start:], y[start:]
        assert torch.equal((a + b).cpu(), x + y)
        assert torch.equal(a.clone().cpu(), x)
        assert torch.equal(a.to(torch.complex128).cpu(), x.to(torch.complex128))
        assert torch.equal(torch.where(a == b, a, 1).cpu(), torch.where(x == y, x, 1))
        assert torch.equal(
            torch.addcmul(a, b, b).cpu() if dtype != torch.bool else x,
            torch.addcmul(x, y, y) if dtype != torch.bool else x,
        )
        # What lies around the operands stays.
        whole = torch.zeros(start + count + 5, dtype=dtype, device="cuda")
        whole[start : start + count].fill_(1)
        assert whole.cpu().sum().real == count and whole[start:-5].cpu().sum().real == count


@each_dtype
def test_rows_and_broadcast_operands(dtype):
    for rows, columns in [(3, 16), (40, 48), (5, 205), (65, 1)]:
        x, y, z = drawn(rows, columns + 16).to(dtype), drawn(columns).to(dtype), drawn(rows, 1).to(dtype)
        for first in (0, 1, 16):
            own = x[:, first : first + columns]
            a = x.to("cuda")[:, first : first + columns]
            assert torch.equal((a + y.to("cuda")).cpu(), own + y)
            assert torch.equal((a.t() * z.to("cuda").t()).cpu(), own.t() * z.t())
            assert torch.equal(
                (a.float() if not dtype.is_complex else a).cpu(), own.float() if not dtype.is_complex else own
            )


def test_mixed_widths():
    x, y, z = drawn(5003).to(torch.uint8), drawn(5003).double(), drawn(5003).bfloat16()
    a, b, c = x.cuda(), y.cuda(), z.cuda()
    assert torch.equal((a * b).cpu(), x * y) and torch.equal((a + c).cpu(), x + z)
    assert torch.equal((b > a).cpu(), y > x) and torch.equal(torch.where(a > 4, b, c).cpu(), torch.where(x > 4, y, z))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64], ids=str)
def test_sums_have_the_same_bits_at_any_address(dtype):
    """Packs of unaligned operands are those of aligned ones."""
    for shape, dims in [
        ((70002,), 0),
        ((9, 3002), 1),
        ((40, 501), 1),
        ((9001, 10), 0),
        ((600, 42), 0),
        ((30, 7, 130), (0, 1)),
    ]:
        x = torch.randn(shape, dtype=dtype).cuda()[..., 1:]
        assert torch.equal(x.sum(dims), x.clone().sum(dims)) and torch.equal(x.sum(dims), x.sum(dims))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.bool], ids=str)
def test_sums_around_the_edges_of_packs(dtype):
    for count in (33, 63, 64, 65, 1023, 1025, 4095, 4097, 16385):
        x = drawn(5, count).to(dtype)
        y = x.cuda()
        for form, own in ((y, x), (y[:, 1:], x[:, 1:]), (y[:, ::2], x[:, ::2]), (y.t().contiguous().t(), x)):
            assert torch.equal(form.sum(1).cpu(), own.sum(1)) and torch.equal(form.sum(0).cpu(), own.sum(0))
    for columns in (8, 9, 31, 33, 127, 128, 130, 260):
        x = drawn(300, columns).to(dtype)
        y = x.cuda()
        assert torch.equal(y.sum(0).cpu(), x.sum(0)) and torch.equal(y[:, 1:].sum(0).cpu(), x[:, 1:].sum(0))
        blocks = drawn(3, 50, columns).to(dtype)
        assert torch.equal(blocks.cuda().sum(1).cpu(), blocks.sum(1)) and torch.equal(
            blocks.cuda().sum((0, 1)).cpu(), blocks.sum((0, 1))
        )

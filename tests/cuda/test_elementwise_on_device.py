"""Elementwise operators and copies around the edges of packs and of a block's tile, from aligned and other addresses, and transposing."""

import pytest
from both_devices import close, equal, exact
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


def test_rows_that_are_taken_in_packs():
    """Rows of adjacent elements with gaps between them, aligned and not."""
    x = torch.randn(7, 40)
    y = x.to("cuda")
    for rows in [
        (slice(None), slice(0, 12)),
        (slice(1, None, 2), slice(4, 20)),
        (slice(None), slice(1, 13)),
        (slice(2), slice(5)),
    ]:
        assert equal(y[rows] * 2 + y[rows], x[rows] * 2 + x[rows])
        assert equal(y[rows].contiguous(), x[rows])
        assert equal(y.clone()[rows].fill_(3), x.clone()[rows].fill_(3))


def mixed(shape, dtype):
    """Numbers, and among floats some that are not finite."""
    torch.manual_seed(0)
    x = torch.randint(0, 200, shape).to(dtype)
    if dtype.is_floating_point:
        x.view(-1)[:4] = torch.tensor([float("nan"), float("inf"), -0.0, 0.3])
    return x


@pytest.mark.parametrize("shape", [(4, 8), (33, 70), (100, 5), (3, 40, 50), (2, 9, 8, 33)], ids=str)
@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.int32, torch.complex128],
    ids=str,
)
def test_copies_that_transpose(shape, dtype):
    x = torch.randint(0, 2, shape).to(dtype) if dtype in (torch.bool, torch.complex128) else mixed(shape, dtype)
    y = x.to("cuda")
    for dims in [(-1, -2), (0, -1), (0, 1)]:
        wanted, got = x.transpose(*dims), y.transpose(*dims)
        assert equal(got.contiguous(), wanted)
        if not dtype.is_complex:
            assert equal(got.to(torch.float32, memory_format=torch.contiguous_format), wanted.float())
        assert equal(got[1:].contiguous(), wanted[1:])
        assert equal(got.flip(-1).contiguous(), wanted.flip(-1))
        into = torch.zeros(wanted.shape[::-1], dtype=dtype, device="cuda").permute(*reversed(range(wanted.dim())))
        assert equal(into.copy_(got), wanted)


def test_mantissas():
    x = torch.tensor([[0.0, -0.0, 1.0, -3.0], [5e-324, float("inf"), float("nan"), 1e300]], dtype=torch.float64)
    exact(lambda x: tuple(torch.frexp(x)), x)
    exact(lambda x: tuple(torch.frexp(x)), x.t())
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        exact(lambda x: tuple(torch.frexp(x)), torch.tensor([6e-8, 65504.0, -0.3, 0.0]).to(dtype))


def test_powers_of_two():
    x, powers = torch.tensor([1.0, -3.0, 1e30]), torch.tensor([1, 200, -300])
    exact(torch.ldexp, x, powers)
    close(torch.ldexp, x[:2], torch.tensor([0.5, -2.0]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.int8, torch.float16, torch.bfloat16])
def test_a_result_has_its_dtype_before_that_of_out(dtype):
    """Kernels compute some dtypes in others; a result that wraps around or is rounded does so for a wider `out=` too."""
    calls = (torch.add, torch.sub, torch.mul)
    # Unsigned integers of more than 8 bits have few operators, as in torch.
    for call in calls if dtype not in (torch.uint16, torch.uint32) else (torch.bitwise_xor, torch.bitwise_or):
        for wide in (torch.float64, torch.int64) if not dtype.is_floating_point else (torch.float64,):
            outcomes = []
            for device in ("cpu", "cuda"):
                x = torch.tensor([5, 100, 31, 0], device=device).to(dtype)
                y = torch.tensor([8, 99, 33, 1], device=device).to(dtype) * (1 if dtype != torch.float16 else 1.0625)
                outcomes.append(call(x, y, out=torch.empty(4, dtype=wide, device=device)).cpu())
            assert torch.equal(*outcomes), (call, wide, outcomes)

"""The 8-bit floats and complex32 on a device: conversions of all their numbers, and the operators that accept them, give the CPU's bits."""

from card import needs_card, run

pytestmark = needs_card

BEGIN = """
names = ["e5m2", "e4m3fn", "e5m2fnuz", "e4m3fnuz", "e8m0fnu"]
formats = [getattr(torch, "float8_" + name) for name in names]
codes = torch.arange(256).to(torch.uint8)
def same(got, wanted):
    assert got.is_cuda and got.dtype == wanted.dtype and got.stride() == wanted.stride()
    got, wanted = got.cpu(), wanted
    if wanted.dtype in formats:
        equal = (got.view(torch.uint8) == wanted.view(torch.uint8)) | (got.float().isnan() & wanted.float().isnan())
    else:
        equal = (got == wanted) | ((got != got) & (wanted != wanted))
    assert equal.all(), (got, wanted)
"""


def test_conversions_of_all_numbers():
    run(
        BEGIN
        + """
others = "uint8 int8 int16 int64 uint64 float16 bfloat16 float32 float64 complex32 complex128 bool".split()
for format in formats:
    x = codes.view(format)
    for other in [*formats, *(getattr(torch, name) for name in others)]:
        same(x.cuda().to(other), x.to(other))
"""
    )


def test_conversions_of_other_numbers():
    """Numbers between those of the formats, those that are equally near two of them, too large ones and small ones."""
    run(
        BEGIN
        + """
inf, nan = float("inf"), float("nan")
torch.manual_seed(0)
x = torch.randn(20000) * torch.exp2(torch.randint(-40, 40, (20000,)).float())
near = torch.cat([codes.view(format).float() for format in formats])
halves = near[:-1].add(near[1:]).div(2)
bits = torch.cat([near, halves]).view(torch.int32)
x = torch.cat([x, near, halves, (bits + 1).view(torch.float32), (bits - 1).view(torch.float32)])
x = torch.cat([x, torch.tensor([nan, -nan, inf, -inf, 0.0, -0.0, 448, 464, 465, 480, 61440, 1e38, 1e-45, 2.0**-127, 2.0**-128])])
for format in formats:
    for other in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.int32):
        same(x.cuda().to(other).to(format), x.to(other).to(format))
    same(torch.empty(9, dtype=format, device="cuda").copy_(x[:9]), x[:9].to(format))
    same(x.to(format).cuda()[1::3].to(torch.float32), x.to(format)[1::3].to(torch.float32))
"""
    )


def test_operators_that_accept_them():
    run(
        BEGIN
        + """
torch.manual_seed(0)
for format in formats:
    x, y = (torch.randn(3, 33).abs().mul(4).to(format) for _ in range(2))
    places = torch.tensor([0, 2, 2, 0]), torch.tensor([5, 5, 5, 7])
    values = torch.tensor([1.0, 2.0, 4.0, 8.0])
    for call in (
        lambda x, y, to: x == y,
        lambda x, y, to: x.abs(),
        lambda x, y, to: torch.where(x.float() > 1, x, y),
        lambda x, y, to: torch.cat([x, y.clone()], 1),
        lambda x, y, to: x.T.contiguous().fill_(3),
        lambda x, y, to: x.isnan(),
        lambda x, y, to: (x == y).any(0),
        lambda x, y, to: torch.where(x.float() > 3, x, 0).any(1),
        lambda x, y, to: x.all(),
        lambda x, y, to: x.float().round().to(x.dtype).sum(1, dtype=torch.float64),
        lambda x, y, to: x.clone().index_put_((to(places[0]), to(places[1])), to(values.to(format)), accumulate=True),
        lambda x, y, to: x[to(torch.tensor([True, False, True]))],
    ):
        same(call(x.cuda(), y.cuda(), torch.Tensor.cuda), call(x, y, lambda x: x))
"""
    )


def test_reductions_of_complex32():
    run(
        BEGIN
        + """
z = torch.complex(*torch.randint(-3, 4, (2, 50, 2)).float()).to(torch.complex32)
for x in (z, z.T, z[:7], z[1:, :1]):
    for call in (
        lambda x: x.sum(0, dtype=torch.complex64),
        lambda x: x.sum(dtype=torch.complex128),
        lambda x: x[:4].prod(dtype=torch.complex64),
        lambda x: x.any(0),
        lambda x: x.all(1),
        lambda x: x.count_nonzero(),
        lambda x: torch.linalg.vector_norm(x, float("inf"), dim=0),
        lambda x: x.index_add(0, torch.tensor([0, 0], device=x.device), x[:2]),
    ):
        got, wanted = call(x.cuda()), call(x)
        assert got.dtype == wanted.dtype
        wide = torch.complex64 if wanted.is_complex() else wanted.dtype
        same(got.to(wide), wanted.to(wide))
"""
    )

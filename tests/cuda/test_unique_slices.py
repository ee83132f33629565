"""`torch.unique(dim=...)` on a device: the results of the CPU, bit for bit, without work of the host."""

from card import needs_card, run
from soft_card import needs_soft_card

pytestmark = needs_card

SAME = """
def key(x):
    # NaN and the sign of zero count.
    x = x.cpu().contiguous()
    return (x.dtype, x.shape, bytes(x.untyped_storage()))
def same(x, dim, **flags):
    host = torch.unique(x, dim=dim, return_inverse=True, return_counts=True, **flags)
    card = torch.unique(x.cuda(), dim=dim, return_inverse=True, return_counts=True, **flags)
    for one, other in zip(host, card):
        assert other.is_cuda and key(one) == key(other), (x.dtype, x.shape, dim, one, other)
torch.manual_seed(0)
"""


def test_slices_are_those_of_the_host():
    run(
        SAME
        + """
for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64, torch.bool,
              torch.float16, torch.bfloat16, torch.float32, torch.float64):
    for shape in ((7, 1), (40, 2), (40, 3), (30, 5), (1, 4), (2, 4), (6, 3, 2), (3, 6, 2), (9,), (64, 7)):
        x = torch.randint(2, shape).to(dtype)
        for dim in range(len(shape)):
            same(x, dim)
            same(x.mT if x.dim() > 1 else x.flip(0), dim)
same(torch.randint(-5, 5, (200, 9)), 0)
same(torch.randint(-(2**62), 2**62, (50, 2)), 0)
same(torch.randn(60, 33), 0)
same(torch.zeros(0, 3), 0)
same(torch.zeros(3, 0), 1)
"""
    )


def test_nan_equals_nothing_and_zeros_are_equal():
    run(
        SAME
        + """
nan, inf = float("nan"), float("inf")
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    values = torch.tensor([nan, 0.0, -0.0, 1.0, inf, -inf], dtype=dtype)
    for width in (1, 2, 3, 4):
        same(values[torch.randint(6, (60, width))], 0)
    same(torch.tensor([[nan, 2], [nan, 1], [nan, 2], [1, nan], [0.0, 3], [-0.0, 3], [-0.0, 1]], dtype=dtype), 0)
"""
    )


def test_wide_slices_are_ranked_in_pieces():
    """More elements than are ranked at once in builds for tests: ranks of earlier columns come first."""
    run(
        SAME
        + """
x = torch.zeros(100, 64, dtype=torch.int8)
for column, values in ((5, 3), (40, 3), (63, 2)):
    x[:, column] = torch.randint(values, (100,), dtype=torch.int8)
same(x, 0)
same(torch.randint(2, (2000, 3)), 0)
found, inverse, counts = torch.unique(x.cuda(), dim=0, return_inverse=True, return_counts=True)
assert found.shape == (18, 64) and torch.equal(found.cpu()[inverse.cpu()], x) and int(counts.sum()) == 100
"""
    )


@needs_soft_card
def test_kernels_do_the_work():
    run(
        """
import ctypes
card = ctypes.CDLL("libcuda.so.1")
card.softcuda_launches.restype = ctypes.c_uint64
x = torch.randint(3, (50, 6), device="cuda")
before = card.softcuda_launches()
torch.unique(x, dim=0)
assert card.softcuda_launches() > before + 10
"""
    )

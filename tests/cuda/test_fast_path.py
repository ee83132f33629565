"""Calls on operands of one shape and dtype, which take a shorter path: the results, streams and errors are those of all others."""

import pytest
from soft_card import needs_soft_card, run

pytestmark = needs_soft_card


def test_results_are_those_of_the_host():
    """Operands that are adjacent, shifted, the same or numbers, with lengths around those of packs; some calls in all dtypes."""
    run(
        """
floats = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
dtypes = [*floats, torch.complex64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
calls = {
    "add": lambda x, y: x + y,
    "scaled": lambda x, y: torch.add(x, y, alpha=3),
    "number": lambda x, y: x * 3,
    "reversed": lambda x, y: 3 - x,
    "fraction": lambda x, y: x * 0.1,
    "compared": lambda x, y: x == y,
    "itself": lambda x, y: x * x,
    "negative": lambda x, y: -x,
    "square": lambda x, y: torch.square(x),
    "blend": lambda x, y: torch.addcmul(x, x, y, value=2),
    "in place": lambda x, y: x.clone().add_(y, alpha=2),
    "number in place": lambda x, y: x.clone().mul_(2),
    "own in place": lambda x, y: (z := x.clone()).sub_(z),
    "exponential": lambda x, y: x.exp(),
}
torch.manual_seed(0)
for dtype in dtypes:
    for length in (1, 3, 16, 17, 1000):
        host = [torch.randn(length).mul(3).to(dtype), torch.randn(length).mul(3).to(dtype)]
        for shift in (0, 1):
            device = [torch.empty(length + shift, dtype=dtype, device="cuda")[shift:].copy_(x) for x in host]
            for name, call in calls.items():
                if dtype != torch.float32 and name not in ("add", "scaled", "in place", "number in place"):
                    continue
                expected, result = call(*host), call(*device)
                assert (result.dtype, result.stride(), result.device.type) == (expected.dtype, expected.stride(), "cuda")
                close = torch.allclose(result.cpu(), expected, rtol=1e-2 if dtype in floats[2:] else 1e-5, equal_nan=True)
                assert close, (dtype, length, shift, name, result, expected)
"""
    )


def test_operands_that_overlap_in_part_are_refused():
    run(
        """
import pytest
x = torch.arange(40.0, device="cuda")
assert x.add_(x).tolist() == torch.arange(0.0, 80.0, 2).tolist()
for call in (lambda: x[1:].add_(x[:-1]), lambda: x[:-1].mul_(x[1:])):
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        call()
assert x[0] == 0 and x[39] == 78
"""
    )


@pytest.mark.parametrize("seed", range(4))
def test_memory_waits_for_the_streams_that_use_it(seed):
    """An operand that is dropped while another stream reads it is not used again before."""
    run(
        """
side = torch.cuda.Stream()
for _ in range(20):
    x = torch.full((5000,), 3.0, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x + x
    del x
    z = torch.full((5000,), 9.0, device="cuda")
    torch.cuda.current_stream().wait_stream(side)
    assert y.eq(6).all().item() and z.eq(9).all().item()
""",
        SOFTCUDA_SEED=seed,
    )


def test_gradients_versions_and_errors():
    run(
        """
import pytest
x = torch.ones(3, device="cuda", requires_grad=True)
y = x * x + x
y.sum().backward()
assert x.grad.tolist() == [3.0] * 3
with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
    x.add_(x)
z = x.detach()
saved = z.clone().requires_grad_().exp()
before = saved._version
with torch.no_grad():
    saved.add_(1)
assert saved._version == before + 1
with pytest.raises(RuntimeError, match="modified by an inplace operation"):
    saved.sum().backward()
with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu"):
    z + torch.ones(3)
with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with two bool tensors"):
    (z > 0) - (z > 0)
empty = torch.empty(0, device="cuda")
assert (empty + empty).shape == (0,)
freed = torch.ones(4, device="cuda")
freed.untyped_storage().resize_(0)
with pytest.raises(RuntimeError):
    freed + freed
"""
    )


def test_errors_name_operator_and_shapes():
    run(
        """
import pytest
torch.cuda.set_per_process_memory_fraction(24 * 2**20 / torch.cuda.mem_get_info()[1])
x = torch.ones(2**22, device="cuda")
with pytest.raises(torch.OutOfMemoryError, match="in add with shapes"):
    x + x
"""
    )

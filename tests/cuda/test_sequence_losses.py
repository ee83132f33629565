"""CTC losses and random pooling on the card made of software: the host's numbers, the same in each run."""

import pytest
import soft_card
from card import needs_card, run
from soft_card import RAISES, needs_soft_card
from test_training import COUNTER

pytestmark = needs_card

CALL = """
def losses(logs, targets, steps, counts, device, **options):
    logs = logs.detach().to(device).requires_grad_()
    loss = torch.nn.functional.ctc_loss(logs.log_softmax(-1), targets.to(device), steps, counts, **options)
    loss.sum().backward()
    return loss.detach().cpu(), logs.grad.cpu()
"""


@pytest.mark.parametrize("seed", [0, 4])
def test_ctc_losses_are_those_of_the_host(seed):
    """Labels that repeat or are blanks, sequences without labels or steps, impossible ones, and long ones."""
    run(
        RAISES
        + CALL
        + """
torch.manual_seed(0)
cases = [
    (torch.randn(9, 4, 5), torch.tensor([[1, 1, 2], [3, 4, 1], [2, 2, 2], [4, 0, 3]]), (9, 8, 9, 7), (3, 2, 3, 3)),
    (torch.randn(9, 3, 5), torch.tensor([1, 2, 2]), (9, 5, 1), (2, 0, 1)),
    (torch.randn(3, 2, 5), torch.tensor([[1, 1, 1], [1, 2, 3]]), (3, 3), (3, 3)),
    (torch.randn(4, 2, 3), torch.tensor([[1, 77], [2, -5]]), (4, 0), (1, 1)),
    (torch.randn(330, 2, 7), torch.randint(1, 7, (2, 150)), (330, 320), (150, 140)),
]
for logs, targets, steps, counts in cases:
    for dtype in (torch.float32, torch.float64):
        for options in ({"reduction": "none", "zero_infinity": True}, {"reduction": "mean", "blank": 2}, {"reduction": "sum"}):
            host = losses(logs.to(dtype), targets, steps, counts, "cpu", **options)
            there = [losses(logs.to(dtype), targets, steps, counts, "cuda", **options) for _ in range(2)]
            # Logarithms of long sequences are large, and their differences small.
            near = 1e-12 if dtype == torch.float64 else 1e-6 if len(logs) < 100 else 1e-3
            for one, other, again in zip(host, *there):
                assert torch.allclose(one, other, rtol=max(near, 1e-12), atol=10 * near, equal_nan=True), (one, other)
                assert torch.equal(other.nan_to_num(7), again.nan_to_num(7))
alone = losses(torch.randn(6, 4), torch.tensor([1, 2]), torch.tensor(6), torch.tensor(2), "cuda", reduction="none")
assert alone[0].shape == () and alone[1].shape == (6, 4)
on_gpu = torch.tensor([3], device="cuda"), torch.tensor([1], device="cuda")
losses(torch.randn(3, 1, 4), torch.tensor([[1]], dtype=torch.int32), *on_gpu, "cuda")
for bad in (4, -1):
    told = f"targets must be classes below 4, but one is {bad}"
    targets = torch.tensor([[1, 2], [3, bad]])
    raises(RuntimeError, told, lambda: losses(torch.randn(5, 2, 4), targets, (5, 5), (2, 2), "cuda"))
raises(RuntimeError, "Expected input_lengths to have value at most 5", lambda: losses(torch.randn(5, 1, 4), torch.tensor([[1]]), (6,), (1,), "cuda"))
# A label that is no class is not used in a gradient either.
logs = torch.zeros(3, 1, 4, device="cuda").log_softmax(-1)
loss, alphas = torch._ctc_loss(logs, torch.tensor([[1]], device="cuda"), (3,), (1,))
torch._ctc_loss_backward(torch.ones(1, device="cuda"), logs, torch.tensor([[1000000]], device="cuda"), (3,), (1,), 0, loss, alphas)
torch.cuda.synchronize()
""",
        SOFTCUDA_SEED=seed,
    )


@needs_soft_card
def test_a_ctc_loss_takes_few_launches():
    """One for the loss, three for its gradient, whatever the length."""
    soft_card.run(
        COUNTER
        + """
counts = []
for steps in (5, 40):
    logs = torch.zeros(steps, 3, 4, device="cuda").log_softmax(-1).detach().requires_grad_()
    targets = torch.tensor([[1, 2], [3, 1], [2, 2]], device="cuda")
    for _ in range(2):
        before = launches()
        loss, _ = torch._ctc_loss(logs, targets, (steps,) * 3, (2, 2, 2))
        middle = launches()
        loss.backward(torch.ones(3, device="cuda"))
        counts.append((middle - before, launches() - middle))
# The gradient of the second call is added to that of the first.
assert counts[:2] == counts[2:] and counts[0][0] == counts[1][0] == 1 and counts[1][1] <= 5, counts
"""
    )


def test_random_windows_are_those_of_the_host():
    run(
        """
torch.manual_seed(0)
F = torch.nn.functional
nan = torch.randn(2, 3, 9, 11)
nan[0, 1, 4, 5] = nan[1, 2, 0, 0] = torch.nan
for x, call, dims in (
    (torch.randn(2, 3, 9, 11), lambda x, s: F.fractional_max_pool2d(x, (2, 3), (4, 6), return_indices=True, _random_samples=s), 2),
    (nan, lambda x, s: F.fractional_max_pool2d(x, 3, output_ratio=(0.5, 0.6), return_indices=True, _random_samples=s), 2),
    (torch.randn(3, 5, 5), lambda x, s: F.fractional_max_pool2d(x, 5, 1, return_indices=True, _random_samples=s), 2),
    (torch.randn(2, 3, 5, 6, 7), lambda x, s: F.fractional_max_pool3d(x, 2, (2, 3, 5), return_indices=True, _random_samples=s), 3),
):
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        own = x.to(dtype)
        count = 1 if own.dim() == dims + 1 else own.shape[0]
        samples = torch.rand(count, own.shape[-dims - 1], dims).to(dtype)
        found = []
        for device in ("cpu", "cuda"):
            there = own.to(device, copy=True).requires_grad_()
            values, places = call(there, samples.to(device))
            (values.float().cos() * 3).sum().backward()
            found.append([tensor.detach().cpu() for tensor in (values, places, there.grad)])
        for one, other in zip(*found):
            assert one.dtype == other.dtype and torch.equal(one.nan_to_num(9), other.nan_to_num(9)), (dtype, one, other)
"""
    )


def test_runs_and_rows_are_those_of_the_host():
    """Runs of equal elements and slices, rows of a table that are shortened, and random numbers of one mean."""
    run(
        RAISES
        + """
torch.manual_seed(0)
x = torch.tensor([3, 3, 1, 1, 1, 2, 3, 3])
table = torch.tensor([[1, 2], [1, 2], [3, 4], [1, 2], [1, 2]])
many = torch.randint(0, 2, (500, 2))
nan = torch.tensor([1.0, torch.nan, torch.nan, 2.0, 2.0])
for own, dim in ((x, None), (x[:0], None), (x.reshape(2, 4), None), (table, 0), (table, 1), (many, 0), (many, None), (nan, None), (nan, 0),
                 (torch.tensor(5), None), (torch.zeros(0, 3), 0), (torch.zeros(2, 3, 4), 1)):
    for flags in ((False, False), (True, True)):
        found = [torch.unique_consecutive(own.to(device), *flags, dim=dim) for device in ("cpu", "cuda")]
        host, there = [one if isinstance(one, tuple) else (one,) for one in found]
        for one, other in zip(host, there, strict=True):
            assert other.is_cuda and one.dtype == other.dtype and torch.equal(one.nan_to_num(9), other.cpu().nan_to_num(9)), (own, dim, one, other)
for dtype in (torch.float32, torch.float64, torch.float16, torch.complex64):
    for power in (1.0, 2.0, 3.5, torch.inf):
        weights = torch.randn(6, 3).to(dtype)
        places = torch.tensor([[1, 1], [5, 0]])
        host, there = weights.clone(), weights.cuda()
        torch.embedding_renorm_(host, places, 0.7, power)
        assert torch.embedding_renorm_(there, places.int().cuda(), 0.7, power) is there
        assert torch.allclose(host, there.cpu(), rtol=2e-3 if dtype == torch.float16 else 1e-6)
        assert torch.equal(there.cpu()[2:5], weights[2:5])
raises(IndexError, "index out of range in self", lambda: torch.embedding_renorm_(there, torch.tensor([6], device="cuda"), 1.0, 2.0))
layer = torch.nn.Embedding(5, 3, max_norm=1.0).cuda()
layer(torch.tensor([0, 4, 4], device="cuda")).sum().backward()
assert layer.weight[4].norm().item() <= 1.0 + 1e-5
torch.manual_seed(3)
one = torch.normal(2.0, 3.0, (100,), device="cuda")
torch.manual_seed(3)
assert torch.equal(one, torch.empty(100, device="cuda").normal_(2.0, 3.0))
"""
    )

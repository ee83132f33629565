"""Random states of GPUs that are kept and set again: by `fork_rng`, and by checkpoints, whose functions run twice."""

import pytest
from card import needs_card, run
from soft_card import RAISES, needs_soft_card


@needs_card
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_draw_the_same_numbers_again(reentrant):
    run(
        f"""
from rushlight.utils.checkpoint import checkpoint

F = torch.nn.functional
x = torch.ones(200, device="cuda", requires_grad=True)
y = checkpoint(lambda x: F.dropout(x * 1.0, 0.5), x, use_reentrant={reentrant})
torch.rand(3, device="cuda")
before = torch.cuda.get_rng_state()
y.sum().backward()
assert torch.equal(x.grad, y.detach()) and 0 < x.grad.count_nonzero() < 200
assert torch.equal(torch.cuda.get_rng_state(), before)
"""
    )


@needs_card
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_keep_the_mixed_precision(reentrant):
    run(
        f"""
from rushlight.utils.checkpoint import checkpoint

seen = []
def function(x):
    seen.append((x @ x).dtype)
    return (x @ x).sum()

x = torch.ones(4, 4, device="cuda", requires_grad=True)
with torch.autocast("cuda", dtype=torch.bfloat16):
    y = checkpoint(function, x, use_reentrant={reentrant})
y.backward()
assert seen == [torch.bfloat16] * 2, seen
"""
    )


@needs_soft_card
def test_fork_rng_saves_the_states_of_gpus():
    run(
        RAISES
        + """
import warnings

fork_rng = torch.random.fork_rng
def drawn(device, **options):
    torch.manual_seed(1)
    first = torch.rand(1, device=device).item()
    torch.manual_seed(1)
    with fork_rng(**options):
        torch.rand(9, device="cuda:0"), torch.rand(9, device="cuda:1")
    return torch.rand(1, device=device).item() == first

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    assert drawn("cuda:0") and drawn("cuda:1")
assert "you have used fork_rng without explicitly specifying which devices are being used" in str(told[0].message)
assert drawn("cuda:1", devices=[1]) and not drawn("cuda:1", devices=["cuda:0"]) and not drawn("cuda:0", devices=[])
assert not drawn("cuda:0", enabled=False) and not drawn("cuda:0", device_type="cpu")
raises(IndexError, "tuple index out of range", lambda: fork_rng(devices=[0, 5]).__enter__())
raises(ValueError, "Expected a cuda device, but got: cpu", lambda: fork_rng(devices=["cpu"]).__enter__())
""",
        SOFTCUDA_DEVICES=2,
    )

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


@needs_card
def test_generators_share_a_state():
    run(
        """
a, b = (torch.Generator("cuda").manual_seed(seed) for seed in (1, 2))
shared = a.graphsafe_get_state()
assert shared is not a and shared.device == a.device
first = torch.rand(3, device="cuda", generator=a)
assert shared.get_offset() == a.get_offset() == 4 and not torch.equal(torch.rand(3, device="cuda", generator=shared), first)
assert a.get_offset() == 8
kept = b.graphsafe_get_state()
assert b.graphsafe_set_state(shared) is b and b.initial_seed() == 1 and b.get_offset() == 8
b.manual_seed(7)
assert a.initial_seed() == 7 and kept.initial_seed() == 2
b.graphsafe_set_state(kept)
assert b.initial_seed() == 2 and a.initial_seed() == 7
# The default generator draws from another state, and gets its own back.
default = torch.cuda.default_generators[0]
torch.cuda.manual_seed(3)
own = default.graphsafe_get_state()
default.graphsafe_set_state(torch.Generator("cuda").manual_seed(5))
assert torch.cuda.initial_seed() == 5
drawn = torch.rand(4, device="cuda")
torch.cuda.manual_seed(5)
assert torch.equal(torch.rand(4, device="cuda"), drawn)
default.graphsafe_set_state(own)
assert torch.cuda.initial_seed() == 3
for wrong, error, text in [
    (lambda: torch.Generator().graphsafe_get_state(), NotImplementedError, "graphsafe_get_state is not supported in this Generator"),
    (lambda: torch.Generator().graphsafe_set_state(a), NotImplementedError, "graphsafe_set_state is not supported in this Generator"),
    (lambda: a.graphsafe_set_state(torch.Generator()), RuntimeError, "Expected a CUDA Generator"),
    (lambda: a.graphsafe_set_state(3), TypeError, "expected a Generator, but got int"),
]:
    try:
        wrong()
    except error as told:
        assert str(told).startswith(text), told
    else:
        raise AssertionError(text)
"""
    )


@needs_card
def test_a_graph_draws_from_the_state_that_was_registered():
    run(
        """
a, b = (torch.Generator("cuda").manual_seed(seed) for seed in (1, 2))
def draw(generator):
    return torch.rand(5, device="cuda", generator=generator)
expected = [draw(torch.Generator("cuda").manual_seed(1))]
graph = torch.cuda.CUDAGraph()
state = a.graphsafe_get_state()
graph.register_generator_state(state)
before = b.graphsafe_get_state()
b.graphsafe_set_state(state)
with torch.cuda.graph(graph):
    x = draw(b)
b.graphsafe_set_state(before)
a.graphsafe_set_state(torch.Generator("cuda").manual_seed(9))
graph.replay()
assert torch.equal(x, expected[0]) and state.get_offset() == 8 - 4 and b.get_offset() == 0 and a.get_offset() == 0
graph.replay()
assert not torch.equal(x, expected[0]) and state.get_offset() == 8
"""
    )

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


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("seed", [0, 3])
def test_checkpoints_in_a_graph_draw_the_same_numbers_again(reentrant, seed):
    run(
        f"""
from rushlight.utils.checkpoint import checkpoint

F = torch.nn.functional
x = torch.ones(200, device="cuda", requires_grad=True)
x.grad = torch.zeros_like(x)
def step():
    x.grad.zero_()
    first = checkpoint(lambda x: F.dropout(x * 1.0, 0.5), x, use_reentrant={reentrant})
    second = checkpoint(lambda x: F.dropout(F.dropout(x * 1.0, 0.5), 0.5), x, use_reentrant={reentrant})
    torch.rand(3, device="cuda")
    (first + 8 * second).sum().backward()
    return first + 8 * second

torch.manual_seed(3)
step()
plain = [(step().detach().cpu(), torch.cuda.get_rng_state()) for _ in range(3)]
torch.manual_seed(3)
step()
graph = torch.cuda.CUDAGraph()
before = torch.cuda.get_rng_state()
with torch.cuda.graph(graph):
    y = step()
assert torch.equal(torch.cuda.get_rng_state(), before)
for wanted, state in plain:
    graph.replay()
    assert torch.equal(x.grad, y) and torch.equal(y.detach().cpu(), wanted) and torch.equal(torch.cuda.get_rng_state(), state)
""",
        SOFTCUDA_SEED=seed,
    )


@needs_card
def test_fork_rng_in_a_graph():
    run(
        """
def draw():
    with torch.random.fork_rng(devices=[0]):
        inside = torch.rand(5, device="cuda")
    return inside, torch.rand(5, device="cuda")

torch.manual_seed(1)
plain = [[one.cpu() for one in draw()] for _ in range(2)]
assert torch.equal(*plain[0])
torch.manual_seed(1)
graph, alone = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    recorded = draw()
# The state that all draws are taken back from.
with torch.cuda.graph(alone):
    with torch.random.fork_rng(devices=[0]):
        single = torch.rand(5, device="cuda")
for wanted in plain:
    alone.replay()
    assert torch.equal(single.cpu(), wanted[0])
    graph.replay()
    assert all(torch.equal(got.cpu(), one) for got, one in zip(recorded, wanted))
"""
    )


@needs_card
def test_states_in_a_graph_count_from_its_beginning():
    run(
        RAISES
        + """
generator = torch.cuda.default_generators[0]
torch.manual_seed(4)
torch.rand(5, device="cuda")
outside = generator.get_state()
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    assert generator.get_state().view(torch.int64).tolist() == [4, 0]
    torch.rand(5, device="cuda")
    state = generator.get_state()
    assert state.view(torch.int64).tolist() == [4, 4]
    generator.set_state(state)
    raises(RuntimeError, "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same",
           lambda: generator.set_state(torch.tensor([5, 0]).view(torch.uint8)))
    for name, call in (("get_offset", generator.get_offset), ("set_offset", lambda: generator.set_offset(0)),
                       ("seed", generator.seed), ("clone_impl", generator.clone_state)):
        raises(RuntimeError, f"Cannot call CUDAGeneratorImpl::{name} during CUDA graph capture. If you need this call to be captured, "
                             "please file an issue. Current cudaStreamCaptureStatus: cudaStreamCaptureStatusActive", call)
assert torch.equal(generator.get_state(), outside) and generator.get_offset() == 4
"""
    )


@needs_card
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_with_one_call_in_a_graph_draw_nothing(reentrant):
    """The numbers of a graph's run are not known outside of it: a call that draws none is permitted."""
    run(
        RAISES
        + f"""
from rushlight.utils.checkpoint import checkpoint

F = torch.nn.functional
x = torch.ones(200, device="cuda", requires_grad=True)
x.grad = torch.zeros_like(x)
draw, plain = (lambda x: F.dropout(x * 1.0, 0.5)), (lambda x: (x * 1.0).exp())
sentence = "torch.utils.checkpoint: random numbers that were drawn while a CUDA graph was recorded cannot be drawn again outside of that graph"
def later(function):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = checkpoint(function, x, use_reentrant={reentrant})
    graph.replay()
    y.sum().backward()
def earlier(function):
    y = checkpoint(function, x, use_reentrant={reentrant})
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        y.sum().backward()
for run in (later, earlier):
    raises(RuntimeError, sentence, lambda: run(draw))
    run(plain)
later(plain)
assert x.grad.isfinite().all()
y = checkpoint(draw, x, use_reentrant={reentrant}, preserve_rng_state=False)
"""
    )


@needs_soft_card
def test_a_generator_of_another_gpu_draws_but_no_permutations():
    run(
        RAISES
        + """
generator = torch.Generator("cuda:1").manual_seed(9)
permuted = lambda device, generator: torch.randperm(4, generator=generator, device=device)
raises(RuntimeError, "Expected a 'cuda:0' generator device but found 'cuda:1'", lambda: permuted("cuda:0", generator))
raises(RuntimeError, "Expected a 'cuda:1' generator device but found 'cpu'", lambda: permuted("cuda:1", torch.Generator()))
raises(RuntimeError, "Expected a 'cpu' generator device but found 'cuda:1'", lambda: permuted("cpu", generator))
for draw in (
    lambda device: torch.rand(4, device=device, generator=generator),
    lambda device: torch.randint(9, (4,), device=device, generator=generator),
    lambda device: torch.bernoulli(torch.full((4,), 0.5, device=device), generator=generator),
    lambda device: torch.ones(4, device=device).exponential_(generator=generator),
):
    state = generator.get_state()
    own, moved = draw("cuda:1"), generator.get_offset()
    generator.set_state(state)
    other = draw("cuda:0")
    assert other.device.index == 0 and torch.equal(other.cpu(), own.cpu()) and generator.get_offset() == moved
""",
        SOFTCUDA_DEVICES=2,
    )


@needs_card
def test_a_state_with_the_last_words_in_a_graph():
    """The words begin again after the last one."""
    run(
        """
generator = torch.Generator("cuda").manual_seed(4)
graph = torch.cuda.CUDAGraph()
graph.register_generator_state(generator)
with torch.cuda.graph(graph):
    state = generator.get_state()
    state.view(torch.int64)[1] = -4
    generator.set_state(state)
    x = torch.rand(100, device="cuda", generator=generator)
graph.replay()
assert bool(((x >= 0) & (x < 1)).all())
"""
    )

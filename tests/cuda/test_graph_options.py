"""Options of graphs: what runs again after the program has changed it, pictures of the work, and tensors that it reads."""

from card import needs_card, run
from soft_card import RAISES

pytestmark = needs_card


def test_a_kept_graph_is_instantiated_by_the_first_replay():
    run(
        RAISES
        + """
x = torch.zeros(3, device="cuda")
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph(keep_graph=True)
with torch.cuda.graph(graph):
    x += 1
assert graph.raw_cuda_graph() > 0
told = "You cannot access the raw cudaGraphExec_t instance until instantiate() has been called"
raises(RuntimeError, told, graph.raw_cuda_graph_exec)
graph.replay()
assert x.tolist() == [1.0] * 3
first = graph.raw_cuda_graph_exec()
graph.instantiate()
assert graph.raw_cuda_graph_exec() != first
graph.replay()
assert x.tolist() == [2.0] * 3
plain = torch.cuda.CUDAGraph()
with torch.cuda.graph(plain):
    x += 1
assert plain.raw_cuda_graph_exec() > 0
raises(RuntimeError, "instantiate() is intended to be called by the user only when keep_graph=true", plain.instantiate)
"""
    )


def test_the_work_is_drawn(tmp_path):
    run(
        RAISES
        + f"path = {str(tmp_path / 'graph.dot')!r}\n"
        + """
import os, warnings
x = torch.zeros(3, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    x += 1
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    graph.debug_dump(path)
assert [str(one.message) for one in told] == ["CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()"]
assert not os.path.exists(path)
graph.enable_debug_mode()
graph.debug_dump(path)
with open(path) as file:
    assert file.read().startswith("digraph")
empty = torch.cuda.CUDAGraph()
empty.enable_debug_mode()
raises(RuntimeError, "capture_end() must have been called before calling debug_dump", lambda: empty.debug_dump(path))
"""
    )


def test_tensors_that_the_work_reads_are_watched():
    """What was dropped is told by the lines that read and dropped it; what the graph has made itself is no concern."""
    run(
        RAISES
        + """
net, host = torch.nn.Linear(3, 3).cuda(), torch.ones(3).pin_memory()
x, table, kept = (torch.full((3,), n, device="cuda") for n in (1.0, 2.0, 3.0))
net(x).sum().backward()
(x * table[:2].sum() + kept).add_(host.to("cuda", non_blocking=True))
torch.cuda.synchronize()
def recorded():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, check_input_liveness=True):
        part = x * table[:2].sum() + kept
        part += host.to("cuda", non_blocking=True)
        total = net(part).sum()
        total.backward()
        result = total * 2
    return graph, result
graph, result = recorded()
for _ in range(2):
    graph.replay()
assert result.item() != 0
view = table[1:]
del table
graph.replay()
sentence = "CUDA graph replay detected 1 dead tensor(s)."
del view
error = raises(RuntimeError, sentence, graph.replay)
lines = str(error).splitlines()
assert lines[1].startswith("  shape (3,) on cuda:0: read at ") and "in recorded, freed at " in lines[1], error
assert lines[2].startswith("Keep what the graph reads")
kept.untyped_storage().resize_(0)
del host
error = raises(RuntimeError, "CUDA graph replay detected 3 dead tensor(s).", graph.replay)
assert "shape (3,) on cpu" in str(error) and "a change of its size" in str(error), error
net = x = None
raises(RuntimeError, "CUDA graph replay detected ", graph.replay)
graph.reset()
raises(RuntimeError, "Called CUDAGraph::replay without a preceding successful capture.", graph.replay)
"""
    )


def test_what_an_earlier_graph_of_the_pool_left_is_not_missed():
    run(
        """
x = torch.ones(3, device="cuda")
(x * 2 + 1) * 3
torch.cuda.synchronize()
first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with torch.cuda.graph(first):
    middle = x * 2
    left = middle + 1
for watched in (True, False):
    second.reset()
    with torch.cuda.graph(second, pool=first.pool(), check_input_liveness=watched):
        last = left * 3
    first.replay()
    second.replay()
    assert last.tolist() == [9.0] * 3
"""
    )


def test_a_failed_record_ends_the_watch():
    run(
        RAISES
        + """
x = torch.ones(3, device="cuda")
x.sum()
torch.cuda.synchronize()
def waits():
    with torch.cuda.graph(torch.cuda.CUDAGraph(), check_input_liveness=True):
        x.sum().item()
raises(torch.AcceleratorError, "CUDA error: operation ", waits)
from rushlight._override_order import active_dispatch_modes
assert not active_dispatch_modes() and (x + 1).tolist() == [2.0] * 3
"""
    )

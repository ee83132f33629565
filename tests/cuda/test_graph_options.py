"""Options of graphs: what runs again after the program has changed it, pictures of the work, and what is refused."""

from card import needs_card, run
from test_runtime import RAISES

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


def test_unsupported_options_are_refused():
    run(
        RAISES
        + """
graph = torch.cuda.CUDAGraph()
raises(NotImplementedError, "torch.cuda.graph: annotations", lambda: torch.cuda.graph(graph, enable_annotations=True))
def watched():
    with torch.cuda.graph(graph, check_input_liveness=True):
        pass
raises(NotImplementedError, "torch.cuda.CUDAGraph: tensors that the work reads are not watched", watched)
x = torch.zeros(3, device="cuda")
with torch.cuda.graph(graph):
    x += 1
graph.replay()
assert x.tolist() == [1.0] * 3
"""
    )

"""Options of graphs: what runs again after the program has changed it, and what is refused."""

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

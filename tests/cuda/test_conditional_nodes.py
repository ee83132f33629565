"""Work in graphs that runs on a condition, what a graph consists of, and names of its pieces."""

import pytest
from card import needs_card, run
from soft_card import RAISES

pytestmark = needs_card


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_each_run_takes_one_branch(seed):
    run(
        """
x, pred = torch.ones(4, device="cuda"), torch.tensor(True, device="cuda")
x * 2, x.sum() > 3
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = torch.cond(pred, lambda x: x * 2, lambda x: x - 5, (x,))
    total = y.sum()
for value, expected in ((True, 8.0), (False, -16.0), (True, 8.0)):
    pred.fill_(value)
    graph.replay()
    assert total.item() == expected, (value, total)
x.fill_(3)
pred.fill_(False)
graph.replay()
assert y.tolist() == [-2.0] * 4 and x.tolist() == [3.0] * 4
""",
        SOFTCUDA_SEED=seed,
    )


def test_conditions_are_computed_by_the_graph_and_nested():
    run(
        """
x = torch.zeros(3, device="cuda")
def inner(x):
    return torch.cond((x > 10).all(), lambda x: x * 0 - 1, lambda x: x + 1, (x,))
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    # A function that returns its operand has a result of its own.
    y = torch.cond(x.sum() > 6, inner, lambda x: x, (x,))
for value, expected in ((1, 1), (2, 2), (3, 4), (11, -1), (10, 11)):
    x.fill_(value)
    graph.replay()
    assert y.tolist() == [float(expected)] * 3, (value, y)
    assert x.tolist() == [float(value)] * 3
""",
        SOFTCUDA_SEED=3,
    )


def test_branches_draw_random_numbers():
    run(
        """
pred = torch.tensor(True, device="cuda")
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = torch.cond(pred, lambda: torch.rand(5, device="cuda"), lambda: torch.full((5,), 7.0, device="cuda"))
graph.replay()
first = y.clone()
graph.replay()
assert not torch.equal(first, y) and (y < 1).all()
pred.fill_(False)
graph.replay()
assert y.tolist() == [7.0] * 5
"""
    )


def test_what_cannot_be_recorded_is_told():
    run(
        RAISES
        + """
x, pred = torch.ones(4, device="cuda"), torch.tensor(True, device="cuda")
def record(function):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        return function(graph)
def differ(graph):
    raises(RuntimeError, "Expected true_fn_output and false_fn_output", lambda: torch.cond(pred, lambda: x, lambda: x[:1]))
    raises(ValueError, "Conditions must be on a cuda device", lambda: graph.begin_capture_to_if_node(torch.tensor(True)))
    raises(RuntimeError, "expected scalar type Bool but found Float", lambda: graph.begin_capture_to_if_node(x[0]))
    raises(RuntimeError, "Expected pred to be", lambda: graph.begin_capture_to_if_node(x > 0))
    raises(TypeError, "begin_capture_to_if_node(): argument", lambda: graph.begin_capture_to_if_node(True))
    raises(RuntimeError, "Missing capture ID for conditional node.", graph.end_capture_to_conditional_node)
    assert torch.cuda.CUDAGraph.get_currently_capturing_graph() is graph
    return torch.cond(pred, lambda: x * 2, lambda: x * 3)
assert record(differ).shape == (4,)
w = torch.ones(4, device="cuda", requires_grad=True)
raises(RuntimeError, "torch.cond has no gradient", lambda: record(lambda _: torch.cond(pred, lambda: w * 2, lambda: w * 3)))
raises(RuntimeError, "The current stream is not currently capturing.", torch.cuda.CUDAGraph.get_currently_capturing_graph)
idle = torch.cuda.CUDAGraph()
before = "capture_begin() must be called before begin_capture_to_if_node()"
raises(RuntimeError, before, lambda: idle.begin_capture_to_if_node(pred))
raises(RuntimeError, "capture_end() called before capture_begin().", idle.end_capture_to_conditional_node)
# A branch that raises leaves the stream as it was.
def failing(x):
    raise KeyError("branch")
def outside(graph):
    raises(KeyError, "'branch'", lambda: torch.cond(pred, failing, failing, (x,)))
    return x + 1
assert record(outside).shape == (4,)
assert torch.cuda.current_stream() == torch.cuda.default_stream()
assert (x + 1).tolist() == [2.0] * 4
"""
    )


def test_a_record_that_nobody_ends_gives_its_streams_back():
    run(
        RAISES
        + """
x, pred, stream = torch.ones(3, device="cuda"), torch.tensor(True, device="cuda"), torch.cuda.Stream()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.stream(stream):
    graph.capture_begin()
    graph.begin_capture_to_if_node(pred)
    y = x * 2
    raises(RuntimeError, "Capture must end on the same stream it began on.", graph.capture_end)
    del graph
    assert torch.cuda.current_stream() == stream and (x + 2).tolist() == [3.0] * 3
"""
    )


def test_a_graph_tells_its_pieces():
    run(
        RAISES
        + """
x, pred = torch.ones(4, device="cuda"), torch.tensor(True, device="cuda")
side = torch.cuda.Stream()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph(keep_graph=True)
with torch.cuda.graph(graph):
    y = x * 2
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        z = y + 1
    w = y.clone()
    torch.cuda.current_stream().wait_stream(side)
    u = z + w
    v = torch.cond(pred, lambda: u, lambda: w)
exec_missing = "You cannot access the raw cudaGraphExec_t instance until instantiate() has been called"
raises(RuntimeError, exec_missing, graph.get_graph_data)
graph.instantiate()
data = graph.get_graph_data()
assert set(data) == {"exec_graph_id", "nodes"}
nodes = data["nodes"]
assert [node["index"] for node in nodes] == list(range(len(nodes)))
kinds = [node["node_type"] for node in nodes]
assert kinds.count("conditional") == 2 and kinds[0] == "kernel", kinds
assert nodes[0]["kernel_name"] and nodes[0]["dependencies"] == [] and len(nodes[0]["dependents"]) == 2
joined = next(node for node in nodes if len(node["dependencies"]) == 2)
assert sorted(joined["dependencies"]) == sorted(nodes[0]["dependents"])
assert all(node["tools_id"] == data["exec_graph_id"] << 32 | node["node_id"] for node in nodes)
for node in nodes:
    assert all(node["index"] in nodes[other]["dependents"] for other in node["dependencies"])
plain = torch.cuda.CUDAGraph()
with torch.cuda.graph(plain):
    x + 1
raises(RuntimeError, "You cannot access the raw cudaGraph_t instance unless", plain.get_graph_data)
"""
    )


def test_pieces_have_the_names_of_their_blocks():
    run(
        """
names = torch.cuda._graph_annotations
x = torch.ones(4, device="cuda")
side = torch.cuda.Stream()
x * 2 + 1
torch.cuda.synchronize()
with names.mark_kernels("outside of records nothing is named"):
    x + 1
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, enable_annotations=True):
    with names.mark_kernels("first"):
        y = x * 2
    z = y + 1
    with names.mark_kernels({"name": "outer"}):
        with names.mark_kernels("inner"):
            w = z * 2
        side.wait_stream(torch.cuda.current_stream())
        with names.mark_stream(side, "side"):
            u = w + 1
        torch.cuda.current_stream().wait_stream(side)
found = list(names.get_kernel_annotations().values())
assert found == [[{"str": "first"}], [{"str": "inner", "name": "outer"}], [{"str": "side", "stream": 60, "name": "outer"}]], found
graphs = {number >> 32 for number in names.get_kernel_annotations()}
kept = torch.cuda.CUDAGraph(keep_graph=True)
with torch.cuda.graph(kept):
    x + 1
kept.instantiate()
assert len(graphs) == 1 and graphs != {kept.get_graph_data()["exec_graph_id"]}
names.clear_kernel_annotations()
names.disable_annotations()
assert names.get_kernel_annotations() == {}
assert names.get_stream_for_pg("group") == 61 == names.get_stream_for_pg("group")
"""
    )


def test_without_a_device_and_in_a_forked_child():
    run(
        RAISES
        + """
import os
x, pred = torch.ones(3, device="cuda"), torch.tensor(True, device="cuda")
graph = torch.cuda.CUDAGraph(keep_graph=True)
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    y = torch.cond(pred, lambda: x * 2, lambda: x * 3)
child = os.fork()
if child == 0:
    told = "Cannot re-initialize CUDA in forked subprocess."
    raises(RuntimeError, told, graph.get_graph_data)
    raises(RuntimeError, told, lambda: graph._graph.begin_if(0, 0))
    raises(RuntimeError, told, graph.end_capture_to_conditional_node)
    raises(RuntimeError, "The current stream is not currently capturing.", graph.get_currently_capturing_graph)
    raises(RuntimeError, told, lambda: torch.cuda._sleep(1))
    with torch.cuda._graph_annotations.mark_kernels("none"):
        pass
    torch._C._accelerator_setAllocatorSettings("max_split_size_mb:20")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
graph.replay()
assert y.tolist() == [2.0] * 3
raises(TypeError, "torch.cuda._sleep(): expected 'int'", lambda: torch.cuda._sleep(0.5))
torch.cuda._sleep(1000)
torch.cuda.synchronize()
"""
    )
    run(
        RAISES
        + """
raises(RuntimeError, "The current stream is not currently capturing.", torch.cuda.CUDAGraph.get_currently_capturing_graph)
raises(RuntimeError, "Found no NVIDIA driver on your system.", lambda: torch.cuda._sleep(1))
raises(RuntimeError, "Found no NVIDIA driver on your system.", lambda: torch.cuda._pin_memory_utils.pin_memory(0, 8))
with torch.cuda._graph_annotations.mark_kernels("none"):
    pass
assert torch.cuda.memory._snapshot()["segments"] == []
torch.cuda._sanitizer.enable_cuda_sanitizer()
assert (torch.ones(3) * 2).sum().item() == 6
""",
        CUDA_VISIBLE_DEVICES="",
    )


def test_conditions_that_are_refused():
    """More of them than streams, one inside of the other, and values without memory."""
    run(
        """
import pytest
def nested(x, depth):
    return x + 1 if depth == 0 else torch.cond(pred, lambda x: nested(x, depth - 1), lambda x: x, (x,))
x, pred = torch.ones(2, device="cuda"), torch.tensor(True, device="cuda")
x + 1
torch.cuda.synchronize()
with pytest.raises(RuntimeError, match="streams of the device are being captured"):
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        nested(x, 40)
freed = torch.tensor(True, device="cuda")
freed.untyped_storage().resize_(0)
graph = torch.cuda.CUDAGraph()
with pytest.raises(RuntimeError, match="the memory of the condition was freed"):
    with torch.cuda.graph(graph):
        graph.begin_capture_to_if_node(freed)
assert (x + 1).tolist() == [2.0, 2.0]
"""
    )

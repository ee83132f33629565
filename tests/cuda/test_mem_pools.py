"""Pools of memory that programs make, and the driver's handles of graphs, each program in a process of its own."""

import soft_card
from card import needs_card, run
from soft_card import RAISES, needs_soft_card

pytestmark = needs_card


def test_a_pool_serves_the_block_that_uses_it():
    run(
        RAISES
        + """
import threading
pool = torch.cuda.MemPool()
assert pool.use_count() == 1 and pool.snapshot() == [] and pool.allocator is None and pool.id[0] == 0
outside = torch.ones(10, device="cuda")
seen = []
with torch.cuda.use_mem_pool(pool):
    assert pool.use_count() == 2
    x = torch.ones(1000, device="cuda", requires_grad=True)
    (x * 2).sum().backward()
    def other():
        seen.append(torch.ones(3, device="cuda"))
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()) as nothing:
        assert nothing is None
        y = torch.ones(5, device="cuda")
    z = torch.ones(7, device="cuda")
assert pool.use_count() == 1
segments = pool.snapshot()
within = lambda tensor: any(0 <= tensor.data_ptr() - one["address"] < one["total_size"] for one in segments)
assert [within(tensor) for tensor in (x, x.grad, z, outside, y, seen[0])] == [True, True, True, False, False, False]
assert all(one["segment_pool_id"] == pool.id for one in segments)
# Nobody else gets what the pool has free, until it is gone.
address = z.data_ptr()
del z
assert all(torch.ones(7, device="cuda").data_ptr() != address for _ in range(3))
torch.cuda.empty_cache()
assert len(pool.snapshot()) == len(segments)
before = torch.cuda.memory_reserved()
del pool
assert torch.cuda.memory_reserved() == before and x.sum().item() == 1000
del x
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() < before
try:
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        raise KeyError
except KeyError:
    pass
w = torch.ones(3, device="cuda")
assert [one["segment_pool_id"] for one in torch.cuda.memory_snapshot() if one["address"] <= w.data_ptr() < one["address"] + one["total_size"]] == [(0, 0)]
"""
    )


def test_memory_of_a_deleted_pool_goes_back():
    run(
        """
pool = torch.cuda.MemPool(no_split=True)
before = torch.cuda.memory_reserved()
with torch.cuda.use_mem_pool(pool):
    kept = [torch.ones(10, device="cuda") for _ in range(3)]
# No segment is divided.
assert len(pool.snapshot()) == 3 and torch.cuda.memory_reserved() == before + 3 * (2 << 20)
assert [len(one["blocks"]) for one in pool.snapshot()] == [1, 1, 1]
kept.clear()
with torch.cuda.use_mem_pool(pool):
    again = torch.ones(20, device="cuda")
assert len(pool.snapshot()) == 3
del again, pool
assert torch.cuda.memory_reserved() == before
"""
    )


@needs_soft_card
def test_a_pool_helps_when_memory_runs_out():
    soft_card.run(
        RAISES
        + """
pools = [torch.cuda.MemPool(use_on_oom=True), torch.cuda.MemPool()]
for pool in pools:
    with torch.cuda.use_mem_pool(pool):
        torch.ones(6 << 20, device="cuda")
# Of 56 MiB each pool has 24, which are free.
first = torch.ones(5 << 20, device="cuda")
assert any(0 <= first.data_ptr() - one["address"] < one["total_size"] for one in pools[0].snapshot())
assert first.sum().item() == 5 << 20
raises(torch.OutOfMemoryError, "CUDA out of memory.", lambda: torch.ones(5 << 20, device="cuda"))
""",
        SOFTCUDA_MEMORY=56 << 20,
    )


def test_graphs_use_a_pool_and_give_their_handles():
    run(
        RAISES
        + """
for wrong in ("x", 5, (1,), ("a", "b"), (0, 1, 2)):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        raises(TypeError, "capture_begin(): ", lambda: graph.capture_begin(pool=wrong))
pool = torch.cuda.MemPool()
x = torch.ones(4, device="cuda")
graph = torch.cuda.CUDAGraph(keep_graph=True)
raises(RuntimeError, "capture_end() must have been called before calling instantiate", graph.instantiate)
raises(RuntimeError, "You cannot access the raw cudaGraph_t instance until capture_end() has been called", graph.raw_cuda_graph)
raises(RuntimeError, "You cannot access the raw cudaGraphExec_t instance until instantiate()", graph.raw_cuda_graph_exec)
side = torch.cuda.Stream()
assert not side.is_capturing() and side.native_handle == side.cuda_stream
with torch.cuda.graph(graph, pool=pool.id, stream=side):
    assert side.is_capturing()
    y = x * 3
assert graph.pool() == pool.id and pool.use_count() == 2
graph.replay()
assert y.tolist() == [3] * 4
assert graph.raw_cuda_graph() and graph.raw_cuda_graph_exec()
graph.instantiate()
x.fill_(2)
graph.replay()
assert y.tolist() == [6] * 4
del pool
x.fill_(5)
graph.replay()
assert y.tolist() == [15] * 4
plain = torch.cuda.CUDAGraph()
with torch.cuda.graph(plain):
    x + 1
raises(RuntimeError, "You cannot access the raw cudaGraph_t instance unless", plain.raw_cuda_graph)
raises(RuntimeError, "instantiate() is intended to be called by the user only", plain.instantiate)
assert plain.raw_cuda_graph_exec()
"""
    )


def test_a_tensor_that_outlives_its_pool_gives_its_segment_back():
    run(
        """
reserved = torch.cuda.memory_reserved
torch.ones(10, device="cuda").sum().item()
before = reserved()
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    x, y = torch.ones(10, device="cuda"), torch.ones(10, device="cuda")
del pool
assert reserved() == before + (2 << 20)
del x
assert reserved() == before + (2 << 20) and y.sum().item() == 10
del y
assert reserved() == before

# The same for a pool that only its block keeps, with tensors that end inside of it, and after it.
with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    x = torch.ones(10, device="cuda")
    del x
    assert reserved() == before + (2 << 20)
assert reserved() == before
with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    x = torch.ones(10, device="cuda")
assert reserved() == before + (2 << 20)

# Nothing goes back while work is recorded.
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    del x
    inside = reserved()
    graph.capture_end()
assert inside > before and reserved() == inside - (2 << 20)

# Memory that another stream uses waits for that stream.
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    x = torch.ones(10, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    z = x * 2
x.record_stream(side)
after = reserved()
del pool, x
side.synchronize()
torch.ones(1, device="cuda")
assert reserved() == after - (2 << 20) and z.sum().item() == 20
"""
    )

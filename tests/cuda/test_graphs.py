"""Work that is recorded for a graph and runs again, what can be recorded, and what two records at once share."""

import pytest
from card import needs_card, run
from soft_card import RAISES

pytestmark = needs_card

#: Runs a function once, records it, changes its operands, runs it again, and compares with the CPU.
COMPARED = (
    RAISES
    + """
def compared(function, *operands, others=()):
    side = torch.cuda.Stream()
    own = [operand.cuda() for operand in operands]
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        function(*own)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        results = function(*own)
    for changed in (operands, others or [operand.flip(0) for operand in operands]):
        for one, other in zip(own, changed):
            one.copy_(other)
        torch.cuda.synchronize()
        graph.replay()
        torch.cuda.synchronize()
        wanted = function(*changed)
        results, wanted = [x if isinstance(x, tuple) else (x,) for x in (results, wanted)]
        for one, other in zip(results, wanted, strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5)
    return graph, own
"""
)


@pytest.mark.parametrize("seed", [0, 2])
def test_recorded_work_runs_again(seed):
    run(
        RAISES
        + """
x, w = torch.ones(8, device="cuda"), torch.full((8,), 2.0, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(2):
        y = (x * w).exp().sum()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
assert not torch.cuda.is_current_stream_capturing()
with torch.cuda.graph(graph):
    assert torch.cuda.is_current_stream_capturing()
    z = x * w
    z = z + 1
    total = z.sum()
for value in (3.0, 4.0, 5.0):
    x.fill_(value)
    filler = torch.full((8,), -7.0, device="cuda")
    graph.replay()
    assert total.item() == 8 * (value * 2 + 1), (value, total)
assert graph.pool()[0] == 0
second = torch.cuda.CUDAGraph()
with torch.cuda.graph(second, pool=graph.pool()):
    v = total * 10
second.replay()
assert v.item() == 8 * 11 * 10
raises(RuntimeError, "This CUDAGraph instance already owns a captured graph.", lambda: torch.cuda.graph(graph).__enter__())
graph.reset()
raises(RuntimeError, "Called CUDAGraph::replay without a preceding successful capture.", graph.replay)
raises(RuntimeError, "CUDA graphs must be captured on a non-default stream.", torch.cuda.CUDAGraph().capture_begin)
def wait():
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        (x + 1).sum().item()
raises(torch.AcceleratorError, "CUDA error: operation ", wait)
assert (x + 1).sum().item() == 48
""",
        SOFTCUDA_SEED=seed,
    )


def test_graphed_callables():
    run(
        """
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
        sample = torch.zeros(5, 4, device="cuda")
        import copy
        plain = copy.deepcopy(model)
        graphed = torch.cuda.make_graphed_callables(model, (sample,))
        assert graphed is model
        for step in range(3):
            x = torch.linspace(-1, 1, 20).reshape(5, 4).cuda() * (step + 1)
            for net in (plain, graphed):
                net.zero_grad()
                net(x).square().sum().backward()
            torch.testing.assert_close(graphed(x).cpu(), plain(x).cpu())
            for one, other in zip(plain.parameters(), graphed.parameters()):
                torch.testing.assert_close(one.grad.cpu(), other.grad.cpu())
        """
    )


def test_two_graphs_are_recorded_at_once():
    """Each takes the memory and the random numbers of its own."""
    run(
        RAISES
        + """
def pools():
    return {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}

x = torch.ones(300000, device="cuda")
first, second = torch.cuda.Stream(), torch.cuda.Stream()
torch.cuda.synchronize()
for stream in (first, second):
    with torch.cuda.stream(stream):
        (x * 2 + torch.rand(300000, device="cuda")).sum()
torch.cuda.synchronize()
one, other = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
shared = torch.cuda.graph_pool_handle()
with torch.cuda.stream(first):
    one.capture_begin(pool=shared)
    y = x * 2
raises(RuntimeError, "Called CUDAGraph::pool() without a preceding successful capture.", one.pool)
with torch.cuda.stream(second):
    raises(RuntimeError, "beginAllocateToPool: already recording to mempool_id", lambda: other.capture_begin(pool=shared))
    assert not torch.cuda.is_current_stream_capturing()
    other.capture_begin()
    z = x * 3 + torch.rand(300000, device="cuda")
with torch.cuda.stream(first):
    y = y + 1
    drawn = torch.rand(300000, device="cuda")
    one.capture_end()
with torch.cuda.stream(second):
    raises(RuntimeError, "capture_end() called before capture_begin().", one.capture_end)
    total = z.sum()
with torch.cuda.stream(first):
    raises(RuntimeError, "Capture must end on the same stream it began on.", other.capture_end)
with torch.cuda.stream(second):
    other.capture_end()
assert one.pool() == shared != other.pool() and {one.pool(), other.pool()} <= pools(), pools()
torch.manual_seed(5)
one.replay()
other.replay()
torch.manual_seed(5)
wanted = [torch.rand(300000, device="cuda") for _ in range(2)]
assert torch.equal(drawn, wanted[0]) and torch.equal(z, x * 3 + wanted[1])
assert (y == 3).all() and abs(total.item() - z.sum().item()) < 1
"""
    )


def test_factorisations_that_wait_for_nothing():
    """torch allows these; those that raise an error for a matrix have to wait for its result."""
    run(
        COMPARED
        + """
torch.manual_seed(0)
for sizes in ((4, 4), (3, 4, 4)):
    a = torch.randn(*sizes)
    a, b = a @ a.mT + 4 * torch.eye(4), torch.randn(*sizes[:-1], 2)
    other = a.flip(-1, -2) * 2
    linalg = torch.linalg
    compared(linalg.cholesky_ex, a, others=[other])
    compared(linalg.lu_factor_ex, a, others=[other])
    compared(linalg.inv_ex, a, others=[other])
    compared(linalg.solve_ex, a, b, others=[other, b + 1])
    compared(lambda a, b: linalg.solve_triangular(a, b, upper=True), a, b, others=[other, b + 1])
    compared(torch.cholesky_solve, b, linalg.cholesky(a), others=[b + 1, linalg.cholesky(other)])
    compared(linalg.qr, a, others=[other])
    for waits in (linalg.cholesky, linalg.inv, linalg.svd, linalg.eigh, lambda a: linalg.solve(a, a), linalg.pinv):
        here = a.cuda()
        torch.cuda.synchronize()
        def record():
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                waits(here)
        raises(torch.AcceleratorError, "CUDA error: operation failed due to a previous error during capture", record)
    assert torch.allclose(linalg.inv(a.cuda()).cpu(), linalg.inv(a), rtol=1e-4, atol=1e-5)
"""
    )


def test_ranges_and_triangles():
    run(
        COMPARED
        + """
x = torch.arange(12.0).reshape(3, 4)
compared(lambda x: x + torch.arange(4, device=x.device), x)
compared(lambda x: x + torch.arange(1, 2, 0.25, device=x.device, dtype=torch.float64), x)
compared(lambda x: x + torch.linspace(-1, 2, 4, device=x.device), x)
compared(lambda x: (x.tril(), x.triu(1), torch.full_like(x, 2).tril_(-1)), x)
compared(lambda x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True), x)
"""
    )


def test_indices():
    """A bad index stops the device when the graph runs, as in torch: nobody can wait for a check while work is recorded."""
    run(
        COMPARED
        + """
torch.manual_seed(0)
table, rows = torch.randn(5, 3), torch.tensor([4, 0, 2, 2])
functional = torch.nn.functional
compared(lambda table, rows: (table[rows], table.index_select(0, rows), functional.embedding(rows, table)), table, rows)
compared(lambda table, rows: functional.cross_entropy(table[:4], rows % 3), table, rows)
compared(lambda table, rows: table.gather(0, rows[:3, None]), table, rows)
compared(lambda table, rows: table.clone().index_add_(0, rows, table[:4]).scatter_add(0, rows[:, None], table[:4]), table, rows)
graph, (table, rows) = compared(lambda table, rows: table[rows], table, rows)
rows.fill_(5)
graph.replay()
raises(torch.AcceleratorError, "CUDA error: device-side assert triggered", torch.cuda.synchronize)
"""
    )


def test_a_training_step():
    """Embeddings, attention, a loss over classes, and an optimizer: the weights are those of the same steps without a graph."""
    run(
        RAISES
        + """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = torch.nn.Embedding(7, 8), torch.nn.Linear(8, 7)

    def forward(self, tokens):
        x = self.table(tokens)
        return self.out(torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True))

def trained(graphed):
    torch.manual_seed(0)
    model = Model().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    tokens = torch.zeros(2, 6, dtype=torch.int64, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()

    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    if graphed:
        with torch.cuda.graph(graph, stream=side):
            step()
    for n in range(3):
        tokens.copy_((torch.arange(12).reshape(2, 6) * (n + 1)) % 7)
        graph.replay() if graphed else step()
    return [parameter.detach().cpu() for parameter in model.parameters()]

torch.testing.assert_close(trained(True), trained(False))
"""
    )


def test_copies_from_and_to_the_cpu():
    run(
        RAISES
        + """
x, here = torch.ones(4, device="cuda"), torch.ones(4)
there = torch.zeros(4, pin_memory=True)
sentence = "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned."
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for copy in (lambda: x.cpu(), lambda: x.copy_(here), lambda: here.cuda(), lambda: here.copy_(x)):
        raises(RuntimeError, sentence, copy)
    there.copy_(x * 3, non_blocking=True)
graph.replay()
torch.cuda.synchronize()
assert there.tolist() == [3.0] * 4

def read():
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        raises(torch.AcceleratorError, "CUDA error: operation not permitted when stream is capturing", x.sum().item)

raises(torch.AcceleratorError, "CUDA error: operation failed due to a previous error during capture", read)
assert (x + 1).tolist() == [2.0] * 4
"""
    )


def test_graphed_callables_refuse():
    run(
        RAISES
        + """
x, make = torch.ones(2, 3, device="cuda"), torch.cuda.make_graphed_callables
layer = torch.nn.Linear(3, 3).cuda()
hook = layer.register_forward_hook(lambda *given: None)
raises(AssertionError, "Modules must not have hooks registered at the time they are passed.", lambda: make(layer, (x,)))
hook.remove()
raises(AssertionError, "In the beta API, sample_args for each callable must contain only Tensors.", lambda: make(layer, (3,)))
layer.register_buffer("own", torch.ones(1, device="cuda", requires_grad=True))
raises(AssertionError, "In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`,", lambda: make(layer, (x,)))
"""
    )


def test_a_graph_that_is_dropped_while_another_one_is_recorded():
    """The garbage collector may drop a graph at any time. Its memory is used again after it has run."""
    run(
        """
import gc

x = torch.ones(4, device="cuda")
def recorded(factor, old=None):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * factor
        if old is not None:
            old.clear()
            gc.collect()
        y = y + 1
    return graph, y

for step in range(3):
    old = [recorded(2.0)]
    seen = old[0][1]
    old[0][0].replay()
    graph, y = recorded(3.0, old)
    graph.replay()
    assert seen.tolist() == [3.0] * 4 and y.tolist() == [4.0] * 4
    graph.reset()
"""
    )

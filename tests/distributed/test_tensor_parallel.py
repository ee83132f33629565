"""Layers that are spread over ranks: the values and gradients are those of one process, and nothing becomes whole on the way."""

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed import checkpoint as dcp
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, _functions, distribute_tensor
from rushlight.distributed.tensor._utils import compute_local_shape_and_global_offset
from rushlight.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from rushlight.nn import functional as F


def _drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape) + shape[0]))


#: A function, the shapes of its operands, how they lie, and how the result lies. None stands for a layout that does not matter.
R, P, S = Replicate(), Partial(), Shard
RULES = [
    (F.linear, [(4, 6), (8, 6), (8,)], [R, S(0), S(0)], S(1)),
    (F.linear, [(4, 6), (8, 6), (8,)], [S(1), S(1), R], P),
    (F.linear, [(2, 4, 6), (8, 6), (8,)], [S(1), R, R], S(1)),
    (F.linear, [(4, 6), (8, 6)], [P, R], None),
    (torch.mm, [(5, 6), (6, 4)], [S(0), R], S(0)),
    (torch.mm, [(5, 6), (6, 4)], [S(1), S(0)], P),
    (torch.matmul, [(3, 5, 6), (3, 6, 4)], [S(0), S(0)], S(0)),
    (torch.addmm, [(4,), (5, 6), (6, 4)], [S(0), R, S(1)], S(1)),
    (lambda a, b: a + b, [(4, 6), (6,)], [S(0), R], S(0)),
    (lambda a, b: a * b, [(4, 6), (4, 1)], [S(1), R], S(1)),
    (lambda a, b: a + b, [(4, 6), (4, 6)], [P, P], P),
    (lambda a: a * 2.0, [(4, 6)], [P], P),
    (lambda a, b: a.clone().mul_(b), [(4, 6), (4, 6)], [S(0), S(0)], S(0)),
    (torch.tanh, [(5, 3)], [S(0)], S(0)),
    (torch.relu, [(4, 6)], [P], None),
    (lambda a: a.sum(), [(5, 4)], [S(0)], P),
    (lambda a: a.mean(-1, keepdim=True), [(5, 4)], [S(0)], S(0)),
    (lambda a: a.mean(0), [(5, 4)], [S(0)], P),
    (lambda a: a.sum((0, 2)), [(3, 4, 2)], [S(1)], S(0)),
    (lambda a: a.amax(0), [(5, 4)], [S(1)], S(0)),
    (lambda a: a.max(1).values, [(5, 4)], [S(0)], S(0)),
    (lambda a: a.softmax(-1), [(5, 4)], [S(0)], S(0)),
    (lambda a: a.softmax(0), [(5, 4)], [S(0)], None),
    (lambda a, w, b: F.layer_norm(a, (6,), w, b), [(4, 6), (6,), (6,)], [S(0), R, R], S(0)),
    (lambda a, w: F.rms_norm(a, (6,), w), [(4, 6), (6,)], [S(0), R], S(0)),
    (lambda a: a.view(2, 3, 4, 2), [(2, 3, 8)], [S(2)], S(2)),
    (lambda a: a.view(2, 3, -1), [(2, 3, 4, 2)], [S(2)], S(2)),
    (lambda a: a.reshape(6, 8), [(2, 3, 8)], [S(0)], S(0)),
    (lambda a: a.flatten(1), [(2, 3, 8)], [S(1)], None),
    (lambda a: a.unflatten(-1, (4, 2)), [(2, 8)], [S(1)], S(1)),
    (lambda a: a.transpose(0, 2), [(2, 3, 8)], [S(2)], S(0)),
    (lambda a: a.permute(1, 2, 0), [(2, 3, 8)], [S(0)], S(2)),
    (lambda a: a.t(), [(5, 4)], [S(0)], S(1)),
    (lambda a: a.T, [(5, 4)], [S(1)], S(0)),
    (lambda a: a.unsqueeze(0).squeeze(0), [(5, 4)], [S(0)], S(0)),
    (lambda a: a[:, None, 1:3], [(5, 4)], [S(0)], S(0)),
    (lambda a: a[1], [(5, 4)], [S(1)], S(0)),
    (lambda a: a.chunk(2, -1)[1], [(5, 4)], [S(0)], S(0)),
    (lambda a: a.split([1, 3], 1)[1], [(5, 4)], [S(0)], S(0)),
    (lambda a: a.unbind(1)[2], [(5, 4)], [S(0)], S(0)),
    (lambda a, b: torch.cat([a, b], 1), [(5, 4), (5, 2)], [S(0), S(0)], S(0)),
    (lambda a, b: torch.stack([a, b]), [(5, 4), (5, 4)], [S(0), S(0)], S(1)),
    (lambda a: torch.view_as_real(torch.view_as_complex(a) * 2), [(5, 4, 2)], [S(1)], S(1)),
    (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, 4, 5, 3)] * 3,
        [S(1), S(1), S(1)],
        S(1),
    ),
]


def _rules(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    made_whole = []
    whole = _functions.whole
    _functions.whole = lambda func, name, *rest: (made_whole.append(name), whole(func, name, *rest))[1]
    for call, shapes, layouts, result in RULES:
        plain = [_drawn(*shape).requires_grad_() for shape in shapes]
        parts = [
            distribute_tensor(one.detach(), mesh, [layout]).requires_grad_() for one, layout in zip(plain, layouts)
        ]
        expected = call(*plain)
        made_whole.clear()
        found = call(*parts)
        where = (shapes, layouts, result)
        assert isinstance(found, DTensor) and found.shape == expected.shape and not made_whole, (where, made_whole)
        if result is not None:
            assert found.placements == (result,), (where, found.placements)
        torch.testing.assert_close(found.full_tensor(), expected, msg=lambda text, where=where: f"{where}\n{text}")
        (expected * _drawn(*expected.shape, 1).squeeze(-1)).sum().backward()
        (found.full_tensor() * _drawn(*expected.shape, 1).squeeze(-1)).sum().backward()
        for one, part, layout in zip(plain, parts, layouts):
            assert part.grad.placements == (R if layout == P else layout,)
            torch.testing.assert_close(
                part.grad.full_tensor(), one.grad, msg=lambda text, where=where: f"{where}\n{text}"
            )


def test_rules(ranks):
    ranks(_rules, 2)


def _sums(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    part = _drawn(4, 6) + rank
    one = DTensor.from_local(part, mesh, [P])
    whole = one.full_tensor()
    for call, stays in (
        (lambda a: torch.div(a, 2.0), True),
        (lambda a: torch.div(a, 2.0, rounding_mode="floor"), False),
        (lambda a: torch.add(a, torch.tensor(3.0)), False),
        (lambda a: a - 3.0, False),
        (lambda a: torch.add(a, a, alpha=2), False),
        (lambda a: torch.mul(input=a, other=2.0), False),
        (lambda a: a[False], False),
    ):
        found = call(one)
        assert not stays or found.placements == (P,)
        torch.testing.assert_close(found.full_tensor(), call(whole))


def test_a_sum_that_has_not_been_formed(ranks):
    ranks(_sums, 2)


def _embeddings(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    table, tokens = _drawn(7, 4), torch.tensor([[0, 6, 3], [2, 3, 5]])
    for layout, lies, padding in ((S(0), R, None), (S(0), R, 3), (S(1), R, -1), (R, S(0), 3), (R, S(1), None)):
        plain = table.clone().requires_grad_()
        part = distribute_tensor(table, mesh, [layout]).requires_grad_()
        expected = F.embedding(tokens, plain, padding)
        found = F.embedding(distribute_tensor(tokens, mesh, [lies]), part, padding)
        torch.testing.assert_close(found.full_tensor(), expected)
        expected.tanh().sum().backward()
        found.full_tensor().tanh().sum().backward()
        torch.testing.assert_close(part.grad.full_tensor(), plain.grad)


def test_embeddings(ranks):
    ranks(_embeddings, 2)


def _losses(rank):
    mesh = dist.init_device_mesh("cpu", (3,))
    logits, target = _drawn(5, 7), torch.tensor([0, 6, 3, -100, 2])
    for reduction in ("mean", "sum", "none"):
        plain = logits.clone().requires_grad_()
        part = distribute_tensor(logits, mesh, [S(1)]).requires_grad_()
        with loss_parallel():
            found = F.cross_entropy(part, target, reduction=reduction)
            found.full_tensor().sum().backward()
        expected = F.cross_entropy(plain, target, reduction=reduction)
        expected.sum().backward()
        torch.testing.assert_close(found.full_tensor(), expected)
        torch.testing.assert_close(part.grad.full_tensor(), plain.grad)
    rows = distribute_tensor(logits, mesh, [S(0)])
    found = F.cross_entropy(rows, distribute_tensor(target, mesh, [S(0)]), reduction="sum")
    assert found.placements == (P,)
    torch.testing.assert_close(found.full_tensor(), F.cross_entropy(logits, target, reduction="sum"))


def test_losses(ranks):
    ranks(_losses, 3)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        split = lambda y: y.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(
            split(self.query(x)), split(self.key(x)), split(self.value(x)), is_causal=True
        )
        return self.out(y.transpose(1, 2).contiguous().view(*x.shape[:2], -1))


class Model(nn.Module):
    def __init__(self, width=8, tokens=10):
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.norm, self.attention, self.last = nn.LayerNorm(width), Attention(width, 4), nn.LayerNorm(width)
        self.up, self.down, self.head = nn.Linear(width, 12), nn.Linear(12, width), nn.Linear(width, tokens)

    def forward(self, x):
        x = self.tokens(x)
        x = x + self.attention(self.norm(x))
        return self.head(self.last(x + self.down(F.gelu(self.up(x)))))


PLAN = {
    "tokens": RowwiseParallel(input_layouts=R, output_layouts=S(1)),
    "norm": SequenceParallel(),
    "attention": PrepareModuleInput(input_layouts=S(1), desired_input_layouts=R),
    "attention.query": ColwiseParallel(use_local_output=False),
    "attention.key": ColwiseParallel(use_local_output=False),
    "attention.val*": ColwiseParallel(use_local_output=False),
    "attention.out": RowwiseParallel(output_layouts=S(1)),
    "up": ColwiseParallel(input_layouts=S(1)),
    "down": RowwiseParallel(output_layouts=S(1)),
    "last": SequenceParallel(),
    "head": ColwiseParallel(input_layouts=S(1), output_layouts=R),
}


def _model():
    torch.manual_seed(0)
    return Model()


def _steps(alone, net, whole, own):
    optimizers = [torch.optim.AdamW(one.parameters(), 0.01, foreach=True) for one in (alone, net)]
    for _ in range(3):
        for optimizer, one, data in zip(optimizers, (alone, net), (whole, own)):
            optimizer.zero_grad()
            one(data).tanh().mean().backward()
            optimizer.step()
    for (name, found), expected in zip(net.named_parameters(), alone.parameters()):
        assert isinstance(found, DTensor), name
        torch.testing.assert_close(
            found.full_tensor(), expected, rtol=0, atol=2e-5, msg=lambda text, name=name: f"{name}: {text}"
        )


def _parallel(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    data = torch.randint(10, (3, 6), generator=torch.Generator().manual_seed(1))
    alone, net = _model(), parallelize_module(_model(), mesh, PLAN)
    assert net.up.weight.placements == (S(0),) and net.down.weight.placements == (S(1),)
    assert net.up.weight.to_local().shape == (6, 8) and net.norm.weight.placements == (R,)
    torch.testing.assert_close(net(data), alone(data), rtol=1e-5, atol=1e-6)
    _steps(alone, net, data, data)


def test_layers_of_two_ranks(ranks):
    ranks(_parallel, 2)


def _both(rank, folder):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    data = torch.randint(10, (4, 6), generator=torch.Generator().manual_seed(1))
    alone, net = _model(), parallelize_module(_model(), mesh["tp"], PLAN)
    fully_shard(net.attention, mesh=mesh["dp"])
    fully_shard(net, mesh=mesh["dp"])
    weight = net.up.weight
    assert weight.shape == (12, 8) and weight.to_local().shape == (3, 8) and weight.placements[1] == S(0)
    assert net.down.weight.placements == (S(0), S(1)) and weight.device_mesh == mesh
    torch.testing.assert_close(weight.full_tensor(), alone.up.weight)
    _steps(alone, net, data, data.chunk(2)[mesh["dp"].get_local_rank()])
    # A checkpoint has each element once, wherever the cuts are.
    dcp.save(net.state_dict(), checkpoint_id=folder)
    whole = {name: torch.zeros_like(value) for name, value in alone.state_dict().items()}
    dcp.load(whole, checkpoint_id=folder)
    for name, value in net.state_dict().items():
        assert torch.equal(value.full_tensor(), whole[name]), name
    shape, offset = compute_local_shape_and_global_offset((12, 8), mesh, weight.placements)
    rows = weight.full_tensor()[offset[0] : offset[0] + shape[0]]
    assert shape == (3, 8) and torch.equal(rows, weight.to_local())
    other = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    layer = parallelize_module(nn.Linear(4, 4), mesh["tp"], ColwiseParallel())
    with pytest.raises(ValueError, match="to have the same parent mesh"):
        fully_shard(layer, mesh=other["a"])


def test_parts_of_layers(ranks, tmp_path):
    ranks(_both, 4, tmp_path / "checkpoint")


def _refusals(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    style = PrepareModuleInput(input_layouts=(R,), desired_input_layouts=(R,))
    relu = parallelize_module(nn.ReLU(), mesh, PrepareModuleInput(input_layouts=(R, R), desired_input_layouts=(R, R)))
    both = PrepareModuleInputOutput(
        input_layouts=S(0), desired_input_layouts=R, output_layouts=R, desired_output_layouts=S(0)
    )
    torch.testing.assert_close(parallelize_module(nn.ReLU(), mesh, both)(torch.ones(2, 2)), torch.ones(2, 2))
    named = parallelize_module(
        nn.Linear(2, 2),
        mesh,
        PrepareModuleInput(input_kwarg_layouts={"input": S(0)}, desired_input_kwarg_layouts={"input": R}),
    )
    with pytest.raises(RuntimeError, match="got mixed torch.Tensor and DTensor"):
        named(input=torch.ones(2, 2))
    for call, error, text in (
        (
            lambda: parallelize_module(nn.ReLU(), mesh, ColwiseParallel()),
            NotImplementedError,
            "only support nn.Linear and",
        ),
        (lambda: parallelize_module(nn.ReLU(), mesh, 3), TypeError, "for parallelize_plan, <class 'int'> found!"),
        (lambda: relu(torch.ones(2)), ValueError, "module inputs and input_layouts should have same length!"),
        (
            lambda: PrepareModuleOutput(output_layouts=(R, R), desired_output_layouts=R),
            AssertionError,
            "should have same length!",
        ),
        (
            lambda: parallelize_module(nn.Dropout(), mesh, SequenceParallel())("x"),
            ValueError,
            "to be a torch.Tensor or DTensor, but got x",
        ),
    ):
        with pytest.raises(error, match=text):
            call()
    for path, token in (("x", "x"), (".x", "")):
        text = f"plan key '{path}' could not be resolved: no submodule matching token '{token}'"
        with pytest.warns(UserWarning, match=text):
            parallelize_module(nn.Sequential(nn.ReLU()), mesh, {path: style})
    with pytest.warns(UserWarning, match="No parallelize_plan is provided"):
        parallelize_module(nn.ReLU(), mesh)


def test_refusals(ranks):
    ranks(_refusals, 2)

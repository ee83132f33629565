"""Tensors whose parts are on several ranks: layouts, functions, gradients, optimizers, files."""

import copy
import io

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor


def _whole(*shape):
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape) + 1


LAYOUTS = [[Replicate()], [Shard(0)], [Shard(1)], [Partial()], [Shard(-1)]]


def _moves(rank, size):
    mesh = dist.init_device_mesh("cpu", (size,))
    for shape in [(6, 4), (5, 3), (1, 2), (2, 7, 3)]:
        x = _whole(*shape)
        for first in LAYOUTS:
            made = distribute_tensor(x if rank == 0 else torch.zeros_like(x), mesh, first)
            assert made.shape == x.shape and made.size(0) == shape[0] and made.dim() == len(shape)
            assert made.numel() == x.numel() and made.stride() == x.stride() and len(made) == shape[0]
            assert torch.equal(made.full_tensor(), x)
            for second in LAYOUTS:
                moved = made.redistribute(placements=second)
                assert torch.equal(moved.full_tensor(), x), (first, second)
                if second == [Shard(0)]:
                    parts = x.chunk(size)
                    expected = parts[rank] if rank < len(parts) else x[:0]
                    assert torch.equal(moved.to_local(), expected)


@pytest.mark.parametrize("size", [2, 3])
def test_layouts(ranks, size):
    ranks(_moves, size, size)


def _grid(rank):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    x = _whole(5, 6)
    every = [Replicate(), Shard(0), Shard(1), Partial()]
    layouts = [[one, two] for one in every for two in every]
    for first in layouts:
        made = distribute_tensor(x, mesh, first)
        assert torch.equal(made.full_tensor(), x), first
        for second in layouts:
            assert torch.equal(made.redistribute(placements=second).full_tensor(), x), (first, second)
    nested = distribute_tensor(x, mesh, [Shard(0), Shard(0)]).to_local()
    assert torch.equal(nested, x.chunk(2)[rank // 2].chunk(2)[rank % 2])


def test_layouts_on_a_grid(ranks):
    ranks(_grid, 4)


def _functions(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    x, y = _whole(5, 4), _whole(5, 4).flip(0)
    for layout in LAYOUTS:
        a, b = distribute_tensor(x, mesh, layout), distribute_tensor(y, mesh, [Shard(0)])
        for call in (
            lambda a, b: a + b, lambda a, b: 2 / a, lambda a, b: torch.addcmul(a, a, b, value=0.5), lambda a, b: a.exp().neg(),
            lambda a, b: a @ b.t(), lambda a, b: a.sum(), lambda a, b: a.mean(0), lambda a, b: a.reshape(-1)[3:9],
            lambda a, b: torch.cat([a, b]), lambda a, b: a.norm(), lambda a, b: torch.where(a > b, a, b), lambda a, b: a.T,
            lambda a, b: a.max(1).values, lambda a, b: a / a.sum(), lambda a, b: a.double(), lambda a, b: torch.zeros_like(a),
            lambda a, b: a.softmax(0), lambda a, b: a[1], lambda a, b: a.new_ones(3), lambda a, b: (a == b).any(),
            lambda a, b: a.clone().mul_(b).add_(1), lambda a, b: a.clone().clamp_(2, 5).t(), lambda a, b: a.cumsum(0),
            lambda a, b: a.split(2)[1], lambda a, b: nn.functional.relu(a - 3), lambda a, b: a.clone().fill_diagonal_(0),
        ):  # fmt: skip
            found, expected = call(a, b), call(x, y)
            assert isinstance(found, DTensor) and found.shape == expected.shape and found.dtype == expected.dtype
            torch.testing.assert_close(found.full_tensor(), expected)
        assert a.sum().item() == x.sum().item() and a.tolist() == x.tolist() and float(a[0, 0]) == 1.0
    with pytest.raises(RuntimeError, match="got mixed torch.Tensor and DTensor"):
        distribute_tensor(x, mesh, [Shard(0)]) + y
    with pytest.raises(NotImplementedError, match="t_: a DTensor keeps its shape"):
        distribute_tensor(x, mesh, [Shard(0)]).t_()
    with pytest.raises(ValueError, match="same length as `device_mesh.ndim`"):
        distribute_tensor(x, mesh, [Shard(0), Shard(0)])
    assert repr(distribute_tensor(torch.ones(2), mesh, [Shard(0)])) == (
        "DTensor(local_tensor=tensor([1.]), device_mesh=DeviceMesh((2,), 'cpu', stride=(1,)), placements=(Shard(dim=0),))"
    )


def test_functions(ranks):
    ranks(_functions, 2)


def _gradients(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    x, w = _whole(5, 4), torch.linspace(-1, 1, 12).view(4, 3)
    plain = [t.clone().requires_grad_() for t in (x, w)]
    (plain[0] @ plain[1]).tanh().pow(2).sum().backward()
    for layout in LAYOUTS:
        for other in LAYOUTS:
            a, b = (distribute_tensor(t, mesh, p).requires_grad_() for t, p in ((x, layout), (w, other)))
            assert a.is_leaf and a.grad is None
            (a @ b).tanh().pow(2).sum().backward()
            for found, expected in zip((a, b), plain):
                # The gradient of a sum is that of each of its parts.
                lies = tuple(Replicate() if one.is_partial() else one for one in found.placements)
                assert isinstance(found.grad, DTensor) and found.grad.placements == lies
                torch.testing.assert_close(found.grad.full_tensor(), expected.grad)
    # Each rank computes with its part of a batch; the gradients of the whole weight are parts of a sum.
    b = distribute_tensor(w, mesh, [Shard(0)]).requires_grad_()
    (x.chunk(2)[rank] @ b.full_tensor(grad_placements=[Partial()])).tanh().pow(2).sum().backward()
    torch.testing.assert_close(b.grad.full_tensor(), plain[1].grad)
    local = x.chunk(2)[rank].clone().requires_grad_()
    made = DTensor.from_local(local, mesh, [Shard(0)], shape=x.shape)
    (made * made).sum().backward()
    assert torch.equal(local.grad, 2 * local)


def test_gradients(ranks):
    ranks(_gradients, 2)


OPTIMIZERS = [
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    (torch.optim.Adam, {"lr": 0.1}),
    (torch.optim.AdamW, {"lr": 0.1, "amsgrad": True, "foreach": True}),
    (torch.optim.Adagrad, {"lr": 0.1}),
    (torch.optim.RMSprop, {"lr": 0.1, "centered": True}),
    (torch.optim.Adam, {"lr": 0.1, "differentiable": False, "fused": True}),
    (torch.optim.NAdam, {"lr": 0.1}),
]


def _optimizers(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    for kind, options in OPTIMIZERS:
        torch.manual_seed(0)
        plain = [nn.Parameter(torch.randn(5, 3)), nn.Parameter(torch.randn(1))]
        parts = [nn.Parameter(distribute_tensor(p.detach(), mesh, [Shard(0)])) for p in plain]
        assert all(isinstance(p, nn.Parameter) and isinstance(p, DTensor) and p.requires_grad for p in parts)
        one, other = kind(plain, **options), kind(parts, **options)
        for step in range(3):
            for p, part in zip(plain, parts):
                grad = torch.randn(p.shape) + step
                p.grad = grad
                part.grad = distribute_tensor(grad, mesh, [Shard(0)])
            norms = [torch.nn.utils.clip_grad_norm_(some, 1.0) for some in (plain, parts)]
            torch.testing.assert_close(norms[1].full_tensor(), norms[0])
            one.step()
            other.step()
        for p, part in zip(plain, parts):
            torch.testing.assert_close(part.full_tensor(), p)
        state = other.state_dict()["state"][0]
        assert all(isinstance(v, DTensor) for v in state.values() if v.dim() > 0)
        other.zero_grad()
        assert parts[0].grad is None


def test_optimizers(ranks):
    ranks(_optimizers, 2)


def _copies(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    made = nn.Parameter(distribute_tensor(_whole(3, 2), mesh, [Shard(0)]))
    file = io.BytesIO()
    torch.save({"x": made}, file)
    file.seek(0)
    for again in (copy.deepcopy(made), torch.load(file, weights_only=False)["x"]):
        assert isinstance(again, DTensor) and again.placements == (Shard(0),) and again.requires_grad
        assert torch.equal(again.full_tensor(), _whole(3, 2)) and again.device_mesh == mesh
    layer = distribute_module(nn.Linear(3, 2), mesh)
    other = nn.Linear(3, 2)
    assert all(isinstance(p, DTensor) for p in layer.parameters())
    with pytest.raises(RuntimeError, match="mixed"):
        layer.load_state_dict(other.state_dict())
    layer.load_state_dict(distribute_module(other, mesh).state_dict())
    x = distribute_tensor(torch.ones(4, 3), mesh, [Shard(0)])
    layer(x).sum().backward()
    assert torch.equal(layer.bias.grad.full_tensor(), torch.full((2,), 4.0))


def test_copies_and_modules(ranks):
    ranks(_copies, 2)


def _made(rank):
    from rushlight.distributed import tensor

    mesh = dist.init_device_mesh("cpu", (2,))
    for name, value in (("zeros", 0.0), ("ones", 1.0)):
        made = getattr(tensor, name)(3, 2, device_mesh=mesh, placements=[Shard(0)], dtype=torch.float64)
        assert torch.equal(made.full_tensor(), torch.full((3, 2), value, dtype=torch.float64))
    assert torch.equal(
        tensor.full((3,), 7.0, device_mesh=mesh, placements=[Shard(0)]).full_tensor(), torch.full((3,), 7.0)
    )
    drawn = tensor.randn((4, 2), device_mesh=mesh, placements=[Shard(0)], requires_grad=True)
    everyone = [None] * 2
    dist.all_gather_object(everyone, drawn.full_tensor().detach())
    assert torch.equal(*everyone) and drawn.requires_grad and drawn.is_leaf


def test_factories(ranks):
    ranks(_made, 2)


def _lie(rank):
    """Where results lie, and their strides, as torch has them."""
    mesh = dist.init_device_mesh("cpu", (2,))
    x, y = torch.arange(20.0).view(5, 4), torch.arange(192.0).view(4, 6, 8)
    for make, placement, wanted in (
        (lambda a: a.t(), Shard(0), Shard(1)),
        (lambda a: a.view(5, 2, 2), Shard(0), Shard(0)),
        (lambda a: a.unflatten(1, (2, 2)), Shard(0), Shard(0)),
        (lambda a: a.expand(2, 5, 4), Shard(0), Shard(1)),
        (lambda a: a.expand(2, -1, 4), Shard(1), Shard(2)),
        (lambda a: a.topk(2)[0], Shard(0), Shard(0)),
        (lambda a: a.sort(0, descending=True)[1], Shard(1), Shard(1)),
        (lambda a: a.flip(1), Shard(0), Shard(0)),
        (lambda a: a.softmax(0), Shard(0), Replicate()),
        (lambda a: a.relu(), Partial(), Replicate()),
        (lambda a: a.maximum(a), Partial(), Replicate()),
        (lambda a: a[:, 1], Shard(0), Shard(0)),
        (lambda a: a.chunk(2, 1)[1], Shard(0), Shard(0)),
    ):
        found, expected = make(distribute_tensor(x, mesh, [placement])), make(x)
        assert found.placements == (wanted,) and torch.equal(found.full_tensor(), expected)
        assert found.stride() == expected.stride() and found.is_contiguous() == found.to_local().is_contiguous()
    for dims in ((2, 1, 0), (1, 0, 2), (0, 2, 1)):
        for placement in (Shard(0), Shard(1), Shard(2), Partial(), Replicate()):
            found, expected = distribute_tensor(y, mesh, [placement]).permute(dims), y.permute(dims)
            assert found.stride() == expected.stride() and torch.equal(found.full_tensor(), expected)
    with pytest.raises(IndexError):
        distribute_tensor(x, mesh, [Shard(0)]).sort(2)
    with pytest.raises(RuntimeError):
        distribute_tensor(x, mesh, [Shard(0)]).expand(3, 4)


def test_where_results_lie(ranks):
    ranks(_lie, 2)

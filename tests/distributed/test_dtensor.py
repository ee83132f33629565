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
                if Partial() in second and first != second:
                    with pytest.raises(
                        RuntimeError, match=r"to P\(sum\), redistributing to Partial is for internal use"
                    ):
                        made.redistribute(placements=second)
                    continue
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
            assert torch.equal(made._moved(tuple(second)).full_tensor(), x), (first, second)
    nested = distribute_tensor(x, mesh, [Shard(0), Shard(0)]).to_local()
    assert torch.equal(nested, x.chunk(2)[rank // 2].chunk(2)[rank % 2])


def test_layouts_on_a_grid(ranks):
    ranks(_grid, 4)


def _reductions(rank):
    """What the ranks have stands for another reduction than a sum."""
    mesh = dist.init_device_mesh("cpu", (2,))
    own, both = _whole(4, 3) * (rank + 1), [_whole(4, 3), _whole(4, 3) * 2]
    whole = {
        "avg": sum(both) / 2,
        "max": torch.maximum(*both),
        "min": torch.minimum(*both),
        "product": both[0] * both[1],
    }
    copies = distribute_tensor(torch.full((4, 3), 3.0), mesh, [Replicate()])
    for op, expected in whole.items():
        given = DTensor.from_local(own, mesh, [Partial(op)])
        cases = [
            (lambda one: one.view(2, 6), True), (lambda one: one.t(), True), (lambda one: one[1:], True),
            (lambda one: torch.cat([one, one]), True), (lambda one: one.unsqueeze(0).expand(2, 4, 3), True),
            (lambda one: one + one, op == "avg"), (lambda one: one * 2, op == "avg"), (lambda one: one - one / 4, op == "avg"),
            (lambda one: -one, op == "avg"), (lambda one: one.mean(), op == "avg"), (lambda one: one.exp(), False),
            (lambda one: one.amax(0), op == "max"), (lambda one: one.max(), op == "max"), (lambda one: one.amin(), op == "min"),
            (lambda one: one.prod(), op == "product"), (lambda one: one.sum(), False), (lambda one: one.norm(), False),
        ]  # fmt: skip
        for number, (call, stays) in enumerate(cases):
            made = call(given)
            assert made.placements == ((Partial(op),) if stays else (Replicate(),)), (op, number)
            torch.testing.assert_close(made.full_tensor(), call(expected))
        for call in (lambda one, other: one * other, lambda one, other: other * one, lambda one, other: one / other):
            made = call(given, copies)
            if op == "avg":
                assert made.placements == (Partial(op),)
            torch.testing.assert_close(made.full_tensor(), call(expected, torch.full((4, 3), 3.0)))
        made = given @ copies.t()
        assert made.placements == ((Partial(op),) if op == "avg" else (Replicate(),))
        torch.testing.assert_close(made.full_tensor(), expected @ torch.full((3, 4), 3.0))


def test_reductions_that_are_not_sums(ranks):
    ranks(_reductions, 2)


def _of_cut(rank):
    """How reductions of parts lie, and their values and gradients."""
    mesh = dist.init_device_mesh("cpu", (2,))
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    uneven = torch.arange(9.0).view(3, 3) - 4
    norm = torch.linalg.vector_norm
    for call, even, odd in (
        (torch.mean, "Partial(avg)", "Partial(sum)"), (torch.sum, "Partial(sum)", "Partial(sum)"),
        (torch.amax, "Partial(max)", "Replicate()"), (torch.min, "Partial(min)", "Replicate()"),
        (torch.prod, "Partial(product)", "Replicate()"), (torch.any, "Partial(sum)", "Partial(sum)"),
        (torch.all, "Partial(product)", "Replicate()"), (norm, "_NormPartial(2)", "_NormPartial(2)"),
        (lambda one: norm(one, 1, 0), "_NormPartial(1)", "_NormPartial(1)"), (lambda one: norm(one, 3, 1), "Shard(dim=0)", "Shard(dim=0)"),
        (lambda one: norm(one, float("inf")), "Partial(max)", "Partial(max)"), (lambda one: norm(one, 0), "Partial(sum)", "Partial(sum)"),
        (lambda one: norm(one, -float("inf")), "Partial(min)", "Partial(min)"), (lambda one: one.var(1), "Shard(dim=0)", "Shard(dim=0)"),
        (lambda one: torch.stack([norm(one), norm(one)]), "_NormPartial(2)", "_NormPartial(2)"),
        (lambda one: norm(torch.stack([norm(one), norm(one)])), "_NormPartial(2)", "_NormPartial(2)"),
        (lambda one: one.std(0, keepdim=True), "Replicate()", "Replicate()"),
    ):  # fmt: skip
        for given, expected in ((x, even), (uneven, odd), (uneven[:1], odd)):
            made = call(distribute_tensor(given, mesh, [Shard(0)]))
            assert repr(made.placements[0]) == expected, (call, made)
            torch.testing.assert_close(made.full_tensor(), call(given), equal_nan=True)
    for call in (
        torch.mean,
        torch.amax,
        torch.prod,
        norm,
        lambda one: one.mean(0).pow(2),
        lambda one: one.mean().exp(),
    ):
        for given in (x, uneven):
            whole, cut = given.clone().requires_grad_(), distribute_tensor(given, mesh, [Shard(0)]).requires_grad_()
            call(whole).sum().backward()
            call(cut).sum().backward()
            torch.testing.assert_close(cut.grad.full_tensor(), whole.grad)
    places = distribute_tensor(torch.tensor([2, 0]), mesh, [Replicate()])
    cut = distribute_tensor(x, mesh, [Shard(0)])
    made = cut.index_select(1, places)
    assert made.placements == (Shard(0),) and torch.equal(made.full_tensor(), x[:, [2, 0]])
    assert torch.equal(cut.index_select(0, places).full_tensor(), x[[2, 0]])
    places = torch.tensor([[0], [2], [1], [0]])
    made = cut.gather(1, distribute_tensor(places, mesh, [Shard(0)]))
    assert made.placements == (Shard(0),) and torch.equal(made.full_tensor(), x.gather(1, places))
    assert torch.equal(cut.gather(0, distribute_tensor(places, mesh, [Shard(0)])).full_tensor(), x.gather(0, places))


def test_reductions_of_parts(ranks):
    ranks(_of_cut, 2)


def _products_of_sums(rank):
    """A sum that has not been formed goes through products, and so do gradients."""
    mesh = dist.init_device_mesh("cpu", (2,))
    x, weight, bias = (torch.randn(4, 4, generator=torch.Generator().manual_seed(n)) for n in range(3))
    for op in ("sum", "avg"):
        for call in (
            lambda a, w, b: a @ w, lambda a, w, b: w @ a, lambda a, w, b: nn.functional.linear(a, w), lambda a, w, b: a * w, lambda a, w, b: w * a,
            lambda a, w, b: a / w, lambda a, w, b: a * w[0], lambda a, w, b: torch.addmm(b[0], a, w), lambda a, w, b: nn.functional.linear(a, w, b[0]),
        ):  # fmt: skip
            alone = [one.clone().requires_grad_() for one in (x, weight, bias)]
            mine = (x * (0.25 + rank / 2) * (1 if op == "sum" else 2)).requires_grad_()
            spread = [distribute_tensor(one, mesh, [Replicate()]).requires_grad_() for one in (weight, bias)]
            made = call(DTensor.from_local(mine, mesh, [Partial(op)]), *spread)
            assert made.placements == (Partial(op),)
            expected = call(*alone)
            torch.testing.assert_close(made.full_tensor(), expected)
            made.full_tensor().pow(2).sum().backward()
            expected.pow(2).sum().backward()
            torch.testing.assert_close(mine.grad, alone[0].grad)
            for one, other in zip(spread, alone[1:]):
                if other.grad is not None:
                    torch.testing.assert_close(one.grad.full_tensor(), other.grad)


def test_products_of_sums(ranks):
    ranks(_products_of_sums, 2)


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
    for moved in (drawn.cpu(), drawn.bool(), drawn.short()):
        assert moved.placements == (Shard(0),)
    torch.manual_seed(0)
    expected = torch.rand(4, 2), torch.randn(4, 2), torch.randint(0, 9, (4, 2)).float()
    torch.manual_seed(0)
    for like, whole in zip((torch.rand_like(drawn), torch.randn_like(drawn), torch.randint_like(drawn, 9)), expected):
        assert like.placements == (Shard(0),) and torch.equal(like.full_tensor(), whole)


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
        (lambda a: torch.special.i0e(a), Shard(0), Shard(0)),
        (lambda a: a.arcsinh(), Shard(1), Shard(1)),
        (lambda a: torch.logaddexp(a, a), Shard(0), Shard(0)),
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
    with pytest.raises(AssertionError, match="^Sharding dim 5 greater than tensor ndim 2$"):
        distribute_tensor(x, mesh, [Shard(5)])
    with pytest.raises(TypeError, match="object is not iterable"):
        torch.distributed.fsdp.fully_shard(5)
    with pytest.raises(RuntimeError):
        distribute_tensor(x, mesh, [Shard(0)]).expand(3, 4)


def test_where_results_lie(ranks):
    ranks(_lie, 2)

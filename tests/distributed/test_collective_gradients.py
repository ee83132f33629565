"""Collective calls that gradients pass through, and batch normalisation over several processes."""

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed import nn as dnn
from rushlight.nn import functional as F

#: A call of two ranks with x = [1 + rank, 2], the factor of this rank, and what both ranks get: results and gradients.
CALLS = [
    ("all_reduce", lambda x, r: [dnn.all_reduce(x)], [[[3.0, 4.0]]] * 2, [[7.0, 7.0]] * 2),
    ("average", lambda x, r: [dnn.all_reduce(x, dist.ReduceOp.AVG)], [[[1.5, 2.0]]] * 2, [[3.5, 3.5]] * 2),
    ("all_gather", lambda x, r: dnn.all_gather(x), [[[1.0, 2.0], [2.0, 2.0]]] * 2, [[7.0, 7.0], [14.0, 14.0]]),
    ("broadcast", lambda x, r: [dnn.broadcast(x, 1)], [[[2.0, 2.0]]] * 2, [[0.0, 0.0], [7.0, 7.0]]),
    ("gather", lambda x, r: dnn.gather(x, 1), [[[0.0, 0.0]] * 2, [[1.0, 2.0], [2.0, 2.0]]], [[4.0, 4.0], [8.0, 8.0]]),
    ("scatter", lambda x, r: [dnn.scatter([x, 2 * x])], [[[1.0, 2.0]], [[2.0, 4.0]]], [[11.0, 11.0], [0.0, 0.0]]),
    (
        "reduce_scatter",
        lambda x, r: [dnn.reduce_scatter(torch.empty(1), [x[:1], x[1:] * 2])],
        [[[3.0]], [[8.0]]],
        [[3.0, 8.0]] * 2,
    ),
    (
        "all_to_all",
        lambda x, r: dnn.all_to_all([torch.empty(1), torch.empty(1)], [x[:1], x[1:] * 2]),
        [[[1.0], [2.0]], [[4.0], [4.0]]],
        [[3.0, 8.0], [6.0, 16.0]],
    ),
]


def _calls(rank):
    for name, call, results, grads in CALLS:
        x = torch.tensor([1.0 + rank, 2.0], requires_grad=True)
        found = call(x, rank)
        assert [one.tolist() for one in found] == results[rank], name
        # The k-th result of rank r has the gradient (3 + r) (k + 1).
        sum((one * (3.0 + rank) * (k + 1)).sum() for k, one in enumerate(found)).backward()
        assert x.grad.tolist() == grads[rank], name


def test_values_and_gradients(ranks):
    ranks(_calls, 2)


def _uneven(rank):
    # Rank 0 keeps one row and gives two; rank 1 gives one and keeps none.
    x = torch.arange(3.0 if rank == 0 else 1.0).add(10 * rank).requires_grad_()
    given, got = ([1, 2], [1, 1]) if rank == 0 else ([1, 0], [2, 0])
    result = dnn.all_to_all_single(torch.empty(sum(got)), x, got, given)
    assert result.tolist() == ([0.0, 10.0] if rank == 0 else [1.0, 2.0])
    (result * (rank + 1)).sum().backward()
    assert x.grad.tolist() == ([1.0, 2.0, 2.0] if rank == 0 else [1.0])


def test_uneven_parts(ranks):
    ranks(_uneven, 2)


def _to_root(rank):
    x = torch.tensor([1.0 + rank], requires_grad=True)
    result = dnn.reduce(x, 1)
    assert rank == 0 or result.item() == 3
    (result * (rank + 3)).backward()
    assert x.grad.item() == 4


def test_reduce(ranks):
    ranks(_to_root, 2)


def _second_order(rank):
    x = torch.tensor([1.0 + rank, 2.0], dtype=torch.float64, requires_grad=True)
    y = dnn.all_reduce(x**3)
    (grad,) = torch.autograd.grad((y**2).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    # The sum of both ranks' losses is 2 y^2, whose gradient is 4 y 3 x^2; then its gradient, summed over both ranks' x.
    everyone = torch.tensor([[1.0, 2.0], [2.0, 2.0]], dtype=torch.float64)
    total, own = (everyone**3).sum(0), everyone[rank]
    torch.testing.assert_close(grad, 12 * total * own**2)
    cross = 12 * (everyone**2).sum(0)
    torch.testing.assert_close(second, 24 * total * own + cross * 3 * own**2)


def test_second_derivatives(ranks):
    ranks(_second_order, 2)


def _batches(sizes, shape, dtype):
    torch.manual_seed(0)
    whole = (torch.randn(sum(sizes), *shape, dtype=torch.float64) * 3 + 5).to(dtype)
    return whole, list(whole.split(list(sizes)))


def _normalises(rank, sizes, shape, dtype, tolerance):
    whole, parts = _batches(sizes, shape, dtype)
    layers = []
    for make in (nn.BatchNorm1d if len(shape) < 3 else nn.BatchNorm2d, nn.SyncBatchNorm):
        torch.manual_seed(1)
        layer = make(shape[0], momentum=0.3).to(dtype)
        nn.init.normal_(layer.weight)
        nn.init.normal_(layer.bias)
        layers.append(layer)
    alone, together = layers
    x, own = whole.clone().requires_grad_(), parts[rank].clone().requires_grad_()
    factor = torch.randn(whole.shape, dtype=torch.float64).to(dtype)
    expected, found = alone(x), together(own)
    (expected * factor).sum().backward()
    (found * factor.split(list(sizes))[rank]).sum().backward()
    close = lambda a, b: torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    close(found, expected.split(list(sizes))[rank])
    close(own.grad, x.grad.split(list(sizes))[rank])
    for name in ("weight", "bias"):
        grad = getattr(together, name).grad
        dist.all_reduce(grad)
        close(grad, getattr(alone, name).grad)
    close(together.running_mean, alone.running_mean)
    close(together.running_var, alone.running_var)
    assert together.num_batches_tracked == 1
    # Evaluation uses the running statistics and speaks to nobody.
    if rank == 0:
        close(together.eval()(own), alone.eval()(x).split(list(sizes))[0])


@pytest.mark.parametrize("sizes", [(4, 4), (5, 1, 3), (6, 0)], ids=str)
@pytest.mark.parametrize("shape", [(3,), (3, 4), (2, 3, 3)], ids=str)
def test_batch_normalisation(ranks, sizes, shape):
    ranks(_normalises, len(sizes), sizes, shape, torch.float64, 1e-10)


def test_batch_normalisation_of_single_precision(ranks):
    ranks(_normalises, 2, (4, 4), (3, 5, 5), torch.float32, 2e-5)


def _too_few(rank):
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        nn.SyncBatchNorm(2)(torch.ones(1 - rank, 2))
    half = nn.SyncBatchNorm(2)(torch.randn(4, 2).to(torch.bfloat16))
    assert half.dtype == torch.bfloat16


def test_batch_normalisation_of_one_value(ranks):
    ranks(_too_few, 2)


def _in_a_subgroup(rank):
    pairs, _ = dist.new_subgroups(2)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), pairs)
    model(torch.full((2, 2), float(rank)))
    plain = nn.BatchNorm1d(2)
    plain(model[0](torch.tensor([[float(r)] * 2 for r in (rank // 2 * 2, rank // 2 * 2 + 1) for _ in range(2)])))
    torch.testing.assert_close(model[1].running_var, plain.running_var)


def test_batch_normalisation_in_a_subgroup(ranks):
    ranks(_in_a_subgroup, 4)


def _in_a_network(rank):
    inputs = torch.randn(8, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def build():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 1)).double()

    alone = build()
    together = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(build()))
    F.mse_loss(alone(inputs), inputs[:, :1]).backward()
    part = inputs[rank * 4 : rank * 4 + 4]
    F.mse_loss(together(part), part[:, :1]).backward()
    for expected, found in zip(alone.parameters(), together.parameters()):
        torch.testing.assert_close(found.grad, expected.grad)


def test_batch_normalisation_in_a_network(ranks):
    ranks(_in_a_network, 2)

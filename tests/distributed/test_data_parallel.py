"""`DistributedDataParallel`: the gradients of the whole batch, whatever the options, and its errors."""

import pickle

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.nn.parallel import DistributedDataParallel

OPTIONS = [
    {},
    {"gradient_as_bucket_view": True},
    {"static_graph": True},
    {"find_unused_parameters": True},
    {"find_unused_parameters": True, "gradient_as_bucket_view": True},
    {"bucket_cap_mb": 0.001},
]


def _net(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 50), nn.Tanh(), nn.Linear(50, 40).double().float(), nn.Linear(40, 3))


def _batch(rank, size):
    torch.manual_seed(0)
    inputs, targets = torch.randn(12, 8), torch.randint(0, 3, (12,))
    part = slice(rank * 12 // size, (rank + 1) * 12 // size)
    return inputs, targets, inputs[part], targets[part]


def _trains(rank, size):
    inputs, targets, own_inputs, own_targets = _batch(rank, size)
    for options in OPTIONS:
        alone = _net(3)
        together = DistributedDataParallel(_net(3 + rank), **options)  # rank 0 gives its parameters to the others
        optimizers = [torch.optim.SGD(net.parameters(), 0.1, momentum=0.9) for net in (alone, together)]
        for _ in range(4):
            for optimizer, net, x, y in zip(
                optimizers, (alone, together), (inputs, own_inputs), (targets, own_targets)
            ):
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
        for expected, found in zip(alone.parameters(), together.parameters()):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
        for parameter in together.parameters():
            parts = [torch.empty_like(parameter) for _ in range(size)]
            dist.all_gather(parts, parameter.detach())
            assert all(torch.equal(part, parts[0]) for part in parts)


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_are_those_of_the_whole_batch(ranks, size):
    ranks(_trains, size, size)


def _accumulates(rank):
    _, _, inputs, targets = _batch(rank, 2)
    net = DistributedDataParallel(_net(3))

    def grads():
        own = net.module[0].weight.grad
        parts = [torch.empty_like(own) for _ in range(2)]
        dist.all_gather(parts, own)
        return parts

    with net.no_sync():
        F.cross_entropy(net(inputs), targets).backward()
    first = grads()
    assert not torch.equal(*first)
    F.cross_entropy(net(inputs), targets).backward()
    second = grads()
    assert torch.equal(*second)
    torch.testing.assert_close(second[0], first[0] + first[1])


def test_no_sync_accumulates(ranks):
    ranks(_accumulates, 2)


class Partly(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, first):
        return {"out": [self.a(x) if first else self.b(x)]}


def _unused(rank):
    net = DistributedDataParallel(Partly(), find_unused_parameters=True)
    net(torch.ones(2, 4), rank == 0)["out"][0].sum().backward()
    for used in (net.module.a, net.module.b):
        assert used.bias.grad.tolist() == [1.0] * 4  # two samples of one rank, averaged over two
    assert net.module.c.weight.grad is None
    net = DistributedDataParallel(Partly())
    net(torch.ones(2, 4), True)["out"][0].sum().backward()
    with pytest.raises(RuntimeError, match="Expected to have finished reduction in the prior iteration") as error:
        net(torch.ones(2, 4), True)
    assert "b.weight, b.bias, c.weight, c.bias" in str(error.value)


def test_unused_parameters(ranks):
    ranks(_unused, 2)


def _checkpoints(rank):
    shared = nn.Linear(4, 4)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.shared = shared

        def forward(self, x):
            for _ in range(2):
                x = torch.utils.checkpoint.checkpoint(self.shared, x, use_reentrant=True)
            return x

    net = DistributedDataParallel(Twice(), static_graph=True)
    for _ in range(3):
        net.zero_grad()
        net(torch.full((1, 4), rank + 1.0, requires_grad=True)).sum().backward()
        parts = [torch.empty(4, 4) for _ in range(2)]
        dist.all_gather(parts, shared.weight.grad)
        assert torch.equal(*parts) and parts[0].abs().sum() > 0


def test_a_static_graph_may_use_parameters_twice(ranks):
    ranks(_checkpoints, 2)


class PartlyUsed(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.never = nn.Linear(4, 4), nn.Linear(3, 3)
        self.all = False

    def forward(self, x):
        return self.used(x) + (self.never.weight.sum() if self.all else 0)


def _never_used(rank):
    net = DistributedDataParallel(PartlyUsed(), static_graph=True)
    for _ in range(3):
        net.zero_grad()
        net(torch.full((1, 4), rank + 1.0)).sum().backward()
        assert net.module.used.weight.grad.tolist() == [[1.5] * 4] * 4 and net.module.never.weight.grad is None
    net.module.all = True
    with pytest.raises(RuntimeError, match="^Your training graph has changed in this iteration"):
        net(torch.ones(1, 4)).sum().backward()


def test_a_static_graph_may_leave_parameters_out(ranks):
    """In every pass the others are averaged."""
    ranks(_never_used, 2)


def _buffers(rank):
    net = DistributedDataParallel(nn.BatchNorm1d(3))
    net(torch.full((4, 3), rank + 1.0) + torch.arange(4.0).view(4, 1))
    net(torch.ones(4, 3) + torch.arange(4.0).view(4, 1))
    mean = [torch.empty(3) for _ in range(2)]
    dist.all_gather(mean, net.module.running_mean)
    assert torch.equal(*mean)


def test_buffers_are_those_of_rank_0(ranks):
    ranks(_buffers, 2)


def _sparse(rank):
    net = DistributedDataParallel(nn.Embedding(10, 3, sparse=True))
    net(torch.tensor([rank, 9])).sum().backward()
    grad = net.module.weight.grad
    assert grad.is_sparse
    assert grad.to_dense()[:, 0].tolist() == [0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 1.0]


def test_sparse_gradients(ranks):
    ranks(_sparse, 2)


def _hooks(rank):
    inputs, targets, own_inputs, own_targets = _batch(rank, 2)
    seen = []

    def hook(state, bucket):
        state.append((bucket.index(), bucket.is_last(), len(bucket.gradients()), len(bucket.parameters())))
        work = dist.all_reduce(bucket.buffer().div_(2), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    alone, net = _net(3), DistributedDataParallel(_net(3), bucket_cap_mb=0.001)
    net.register_comm_hook(seen, hook)
    F.cross_entropy(alone(inputs), targets).backward()
    F.cross_entropy(net(own_inputs), own_targets).backward()
    for expected, found in zip(alone.parameters(), net.module.parameters()):
        torch.testing.assert_close(found.grad, expected.grad, rtol=0, atol=1e-6)
    assert [one[:2] for one in seen] == [(k, k == len(seen) - 1) for k in range(len(seen))] and len(seen) > 1
    with pytest.raises(RuntimeError, match="can only be called once"):
        net.register_comm_hook(None, hook)


def test_communication_hooks(ranks):
    ranks(_hooks, 2)


def _refusals(rank):
    with pytest.raises(RuntimeError, match="doesn't have any parameter that requires a gradient"):
        DistributedDataParallel(nn.ReLU())
    with pytest.raises(ValueError, match="device_ids can only be None or contain a single element"):
        DistributedDataParallel(nn.Linear(1, 1), device_ids=[0, 1])
    with pytest.raises(ValueError, match="only work with single-device/multiple-device GPU modules or CPU modules"):
        DistributedDataParallel(nn.Linear(1, 1), device_ids=[0])
    with pytest.raises(RuntimeError, match="Modules with uninitialized parameters can't be used"):
        DistributedDataParallel(nn.Sequential(nn.Linear(1, 1), nn.LazyLinear(2)))
    with pytest.raises(RuntimeError, match="appears not to match sizes of the same param|same model across all ranks"):
        DistributedDataParallel(nn.Linear(2, 3 + rank))
    net = DistributedDataParallel(nn.Linear(2, 3))
    again = pickle.loads(pickle.dumps(net))
    assert torch.equal(again.module.weight, net.module.weight)
    again(torch.ones(1, 2)).sum().backward()
    assert list(net.state_dict()) == ["module.weight", "module.bias"]


def test_refusals(ranks):
    ranks(_refusals, 2)

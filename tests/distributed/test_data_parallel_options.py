"""Options of `DistributedDataParallel`: sizes of buckets, buffers, what is reduced, and in which dtypes."""

import warnings

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight import nn
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.nn.parallel.distributed import _MixedPrecision
from rushlight.utils.checkpoint import checkpoint

OPTIONS = [
    {"bucket_cap_mb_list": [0.001, 0.002]},
    {"batched_grad_copy": True},
    {"batched_grad_copy": True, "gradient_as_bucket_view": True, "bucket_cap_mb": 0.001},
    {"batched_grad_copy": True, "static_graph": True},
    {"batched_grad_copy": True, "find_unused_parameters": True},
    {"skip_all_reduce_unused_params": True, "find_unused_parameters": True},
]


def _everyone(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return parts


def _net(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 50), nn.Tanh(), nn.Linear(50, 40), nn.Linear(40, 3))


def _trains(rank):
    torch.manual_seed(0)
    inputs = torch.randn(12, 8)
    for options in OPTIONS:
        alone, together = _net(3), DistributedDataParallel(_net(3 + rank), **options)
        for _ in range(3):
            for net, part in ((alone, inputs), (together, inputs[rank::2])):
                net.zero_grad()
                net(part).pow(2).mean().backward()
            for expected, found in zip(alone.parameters(), together.parameters()):
                torch.testing.assert_close(found.grad, expected.grad, rtol=1e-5, atol=1e-6)
                with torch.no_grad():
                    for parameter in (expected, found):
                        parameter -= 0.1 * parameter.grad
        accumulated = together.module[0].weight.grad.clone()
        together(inputs[rank::2]).pow(2).mean().backward()
        assert torch.equal(*_everyone(together.module[0].weight.grad)) and not torch.equal(
            accumulated, together.module[0].weight.grad
        )


def test_gradients_are_those_of_the_whole_batch(ranks):
    ranks(_trains, 2)


def _keep(state, bucket):
    state.append((bucket.index(), bucket.buffer().numel(), str(bucket.buffer().dtype)))
    work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def _sizes(rank):
    for options, numbers in (
        ({"bucket_cap_mb_list": [0.25, 0.5, 1]}, [1, 2, 4, 1]),
        ({"bucket_cap_mb_list": (0.5, 0.25), "bucket_cap_mb": 2}, [2, 1, 1, 1, 1, 1, 1]),
        ({"bucket_cap_mb_list": [], "bucket_cap_mb": 0.5}, [2, 2, 2, 2]),
    ):
        seen = []
        net = DistributedDataParallel(nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(8))), **options)
        net.register_comm_hook(seen, _keep)
        net(torch.ones(1, 256)).sum().backward()
        assert [numel // 2**16 for _, numel, _ in seen] == numbers
    assert net._get_ddp_logging_data()["bucket_cap_bytes"] == 2**19


def test_sizes_of_the_first_buckets(ranks):
    ranks(_sizes, 2)


class _Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4, bias=False) for _ in range(3))
        self.uses_b = False

    def forward(self, x):
        x = self.a(x)
        return self.c(self.b(x) if self.uses_b else x)


def _skips(rank, options):
    seen = []
    net = DistributedDataParallel(_Branches(), bucket_cap_mb=1e-6, skip_all_reduce_unused_params=True, **options)
    net.register_comm_hook(seen, _keep)
    for _ in range(3):
        seen.clear()
        net.zero_grad()
        net(torch.full((1, 4), rank + 1.0)).sum().backward()
        assert [index for index, _, _ in seen] == [0, 2]
        assert net.module.b.weight.grad is None
        assert torch.equal(*_everyone(net.module.a.weight.grad)) and torch.equal(*_everyone(net.module.c.weight.grad))
    if "static_graph" not in options:
        net.module.uses_b = True
        net(torch.full((1, 4), rank + 1.0)).sum().backward()
        assert torch.equal(*_everyone(net.module.b.weight.grad)) and len(seen) == 5


@pytest.mark.parametrize(
    "options", [{"find_unused_parameters": True}, {"static_graph": True}], ids=["search", "static"]
)
@pytest.mark.parametrize("views", [False, True])
def test_buckets_without_a_used_parameter_are_left_out(ranks, options, views):
    ranks(_skips, 2, {**options, "gradient_as_bucket_view": views})


def _skips_in_uneven_loops(rank):
    net = DistributedDataParallel(
        _Branches(), bucket_cap_mb=1e-6, skip_all_reduce_unused_params=True, find_unused_parameters=True
    )
    with net.join():
        for _ in range(2 + rank):
            net.zero_grad()
            net(torch.ones(1, 4)).sum().backward()
    assert net.module.b.weight.grad is None


def test_a_rank_without_batches_leaves_them_out_too(ranks):
    ranks(_skips_in_uneven_loops, 2)


def _buffers(rank):
    def net(**options):
        net = nn.BatchNorm1d(2)
        net.running_mean.fill_(rank)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            net = DistributedDataParallel(net, **options)
        return net, [str(one.message)[:60] for one in caught if one.category is FutureWarning]

    older = "`broadcast_buffers` is deprecated. Use `forward_sync_buffers"
    both = "Both `broadcast_buffers` and `forward_sync_buffers` were spe"
    x = torch.tensor([[0.0, 1.0], [2.0, 3.0]]) * (rank + 1)
    for options, warned, begins_alike, stays_alike in (
        ({}, [], True, True),
        ({"forward_sync_buffers": True}, [], True, True),
        ({"forward_sync_buffers": False}, [], True, False),
        ({"broadcast_buffers": True}, [older], True, True),
        ({"broadcast_buffers": False}, [older], False, False),
        ({"broadcast_buffers": False, "forward_sync_buffers": True}, [both], True, True),
        ({"broadcast_buffers": False, "forward_sync_buffers": False}, [both], True, False),
    ):
        made, found = net(**options)
        assert found == warned, options
        mean = made.module.running_mean
        assert torch.equal(*_everyone(mean)) == begins_alike, options
        made(x)
        made(torch.zeros(2, 2))  # rank 0 gives what it has before this pass
        assert torch.equal(*_everyone(mean)) == stays_alike, options


def test_buffers(ranks):
    ranks(_buffers, 2)


class _Seen(nn.Module):
    """Notes the dtypes of what a layer computes with."""

    def __init__(self):
        super().__init__()
        self.inner, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.tied = self.inner
        self.kept = nn.Parameter(torch.arange(3), requires_grad=False)
        self.dtypes, self.checkpoints = [], False

    def layer(self, x):
        self.dtypes.append((x.dtype, self.inner.weight.dtype, self.tied.bias.dtype, self.kept.dtype))
        return torch.nn.functional.linear(x, self.inner.weight, self.inner.bias)

    def forward(self, x, *, scale):
        x = checkpoint(self.layer, x, use_reentrant=False) if self.checkpoints else self.layer(x)
        return {"out": x * scale}


def _mixed(rank, options):
    seen, low, full = [], torch.bfloat16, torch.float32
    net = DistributedDataParallel(
        _Seen(),
        mixed_precision=_MixedPrecision(low, torch.float16, torch.float64),
        find_unused_parameters=True,
        **options,
    )
    assert (net.module.norm.running_mean.dtype, net.module.norm.num_batches_tracked.dtype) == (
        torch.float64,
        torch.int64,
    )
    net.register_comm_hook(seen, _keep)
    weight = net.module.inner.weight
    x, scale = torch.full((2, 4), rank + 1.0), torch.tensor(0.5)
    with torch.no_grad():
        assert net(x, scale=scale)["out"].dtype == low
    assert net.module.inner.weight is weight  # outside of passes modules are as they were
    for checkpoints in (False, True):
        net.module.checkpoints = checkpoints
        net.module.dtypes.clear()
        for _ in range(2):
            net.zero_grad()
            out = net(x, scale=scale)["out"]
            assert out.dtype == low and net.module.inner.weight is weight and weight.dtype == full
            out.sum().backward()
            assert net.module.inner.weight is weight
            assert weight.grad.dtype == full and weight.grad.tolist() == [[1.5] * 4] * 4
        assert set(net.module.dtypes) == {(low, low, low, torch.int64)}
        assert len(net.module.dtypes) == (4 if checkpoints else 2)
    assert {dtype for _, _, dtype in seen} == {"torch.float16"}
    # Gradients add up in full precision: 2 of these steps are lost in bfloat16.
    net.zero_grad()
    with net.no_sync():
        net(torch.full((2, 4), 256.0), scale=torch.tensor(1.0))["out"].sum().backward()
    net(torch.full((2, 4), 0.5), scale=torch.tensor(1.0))["out"].sum().backward()
    assert weight.grad.tolist() == [[513.0] * 4] * 4
    assert all(value.dtype == full for name, value in net.state_dict().items() if name.endswith(("weight", "bias")))


@pytest.mark.parametrize(
    "options", [{}, {"batched_grad_copy": True, "gradient_as_bucket_view": True}], ids=["", "views"]
)
def test_mixed_precision(ranks, options):
    ranks(_mixed, 2, options)


def _mixed_alone(rank):
    for policy, dtypes in (
        (_MixedPrecision(torch.bfloat16), (torch.bfloat16, "torch.bfloat16")),
        (_MixedPrecision(reduce_dtype=torch.bfloat16), (torch.float32, "torch.bfloat16")),
        (_MixedPrecision(buffer_dtype=torch.bfloat16), (torch.float32, "torch.float32")),
    ):
        seen = []
        net = DistributedDataParallel(nn.Linear(3, 2), mixed_precision=policy, gradient_as_bucket_view=True)
        net.register_comm_hook(seen, _keep)
        first, second = net(torch.ones(1, 3)), net(torch.ones(1, 3) * 2)
        (first + second).sum().backward()  # one backward of two passes
        assert first.dtype == dtypes[0] and [dtype for _, _, dtype in seen] == [dtypes[1]]
        assert net.module.weight.grad.tolist() == [[3.0] * 3] * 2 and net.module.weight.grad.dtype == torch.float32
        assert isinstance(net.module.weight, nn.Parameter)
        x = torch.ones(1, 3, requires_grad=True)
        x.register_hook(lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            net(x).sum().backward()
        # A layer that is called by itself computes with its own parameters.
        assert net.module(torch.ones(1, 3)).dtype == torch.float32


def test_parts_of_mixed_precision(ranks):
    ranks(_mixed_alone, 2)

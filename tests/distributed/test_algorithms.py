"""Hooks that reduce gradients in other ways, and loops over different numbers of batches."""

import copy
import pickle

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed.algorithms import Join, Joinable, JoinHook
from rushlight.distributed.algorithms._checkpoint import checkpoint_wrapper
from rushlight.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    debugging_hooks,
    default_hooks,
    optimizer_overlap_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    quantization_hooks,
    register_ddp_comm_hook,
)
from rushlight.distributed.fsdp.wrap import ModuleWrapPolicy
from rushlight.distributed.optim import ZeroRedundancyOptimizer
from rushlight.nn.parallel import DistributedDataParallel


def _net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 50), nn.Tanh(), nn.Linear(50, 40), nn.Linear(40, 3))


def _data(rank, size):
    torch.manual_seed(0)
    inputs, targets = torch.randn(12, 8), torch.randint(0, 3, (12,))
    part = slice(rank * 12 // size, (rank + 1) * 12 // size)
    return (inputs, targets), (inputs[part], targets[part])


def _grads(net, data):
    net.zero_grad()
    nn.functional.cross_entropy(net(data[0]), data[1]).backward()
    return [p.grad.clone() for p in net.parameters()]


def _same_everywhere(tensors):
    for tensor in tensors:
        parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, tensor)
        assert all(torch.equal(part, parts[0]) for part in parts)


#: Hooks, whether the state is the group, and how exact they are.
HOOKS = [
    (default_hooks.allreduce_hook, 1e-7),
    (default_hooks.fp16_compress_hook, 1e-3),
    (default_hooks.bf16_compress_hook, 1e-2),
    (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 1e-3),
    (default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook), 1e-2),
    (quantization_hooks.quantization_pertensor_hook, 1e-2),
    (quantization_hooks.quantization_perchannel_hook, 1e-2),
]


def _hooks(rank):
    whole, own = _data(rank, 2)
    expected = _grads(_net(), whole)
    for hook, tolerance in HOOKS:
        for options in ({}, {"bucket_cap_mb": 0.001}, {"gradient_as_bucket_view": True}):
            net = DistributedDataParallel(_net(), **options)
            net.register_comm_hook(None, hook)
            for _ in range(2):
                found = _grads(net, own)
            for one, other in zip(found, expected):
                torch.testing.assert_close(one, other, rtol=0, atol=tolerance)
            _same_everywhere(found)
    net = DistributedDataParallel(_net())
    net.register_comm_hook(None, debugging_hooks.noop_hook)
    for one, other in zip(_grads(net, own), _grads(_net(), own)):
        assert torch.equal(one, other)


def test_hooks_average_gradients(ranks):
    ranks(_hooks, 2)


def _named(rank):
    whole, own = _data(rank, 2)
    expected = _grads(_net(), whole)
    for kind in DDPCommHookType:
        net = DistributedDataParallel(_net())
        register_ddp_comm_hook(kind, net)
        found = _grads(net, own)
        if kind is not DDPCommHookType.NOOP:
            for one, other in zip(found, expected):
                torch.testing.assert_close(one, other, rtol=0, atol=2e-2)
    assert len(DDPCommHookType) == 10


def test_hooks_by_name(ranks):
    ranks(_named, 2)


def _builtin(rank):
    whole, own = _data(rank, 2)
    net = DistributedDataParallel(_net())
    net._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    for one, other in zip(_grads(net, own), _grads(_net(), whole)):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_builtin_hooks(ranks):
    ranks(_builtin, 2)


def _power(rank, hook):
    whole, own = _data(rank, 2)
    alone, net = _net(), DistributedDataParallel(_net())
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1
    )
    net.register_comm_hook(state, hook)
    optimizers = [torch.optim.SGD(one.parameters(), 0.1) for one in (alone, net)]
    losses = []
    for step in range(60):
        for optimizer, one, data in zip(optimizers, (alone, net), (whole, own)):
            _grads(one, data)
            optimizer.step()
        if step == 1:  # still as they are
            for one, other in zip(net.parameters(), alone.parameters()):
                torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
        with torch.no_grad():
            losses.append(nn.functional.cross_entropy(net.module(whole[0]), whole[1]).item())
    _same_everywhere(list(net.parameters()))
    # Feedback of errors: the sum of what was sent is nearly the sum of the gradients, so that it learns all the same.
    with torch.no_grad():
        reached = nn.functional.cross_entropy(alone(whole[0]), whole[1]).item()
    assert losses[-1] < losses[0] / 2 and losses[-1] < reached * 1.5
    rate, before, after = state.compression_stats()
    assert before > 2 * after and rate == before / after
    again = pickle.loads(pickle.dumps(state))
    assert again.iter == state.iter and again.error_dict.keys() == state.error_dict.keys()


@pytest.mark.parametrize("hook", [powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook])
def test_power_sgd(ranks, hook):
    ranks(_power, 2, hook)


def test_power_sgd_begins_as_in_torch():
    """With the numbers of NumPy's `RandomState(0).randint(1_000_000_000)` as seeds."""
    state = powerSGD_hook.PowerSGDState(None)
    seeds = [powerSGD_hook._seed(state.generator) for _ in range(4)]
    assert seeds == [209652396, 398764591, 924231285, 404868288]


def _exact(rank):
    """A gradient of low rank is sent without loss."""
    net = DistributedDataParallel(nn.Linear(30, 20, bias=False))
    state = powerSGD_hook.PowerSGDState(
        None, 1, start_powerSGD_iter=0, use_error_feedback=False, warm_start=False, orthogonalization_epsilon=1e-8
    )
    net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    torch.manual_seed(0)
    x = torch.randn(1, 30)
    (net(x) * (rank + 1.0)).sum().backward()
    torch.testing.assert_close(net.module.weight.grad, (1.5 * x).expand(20, 30))
    with pytest.raises(ValueError, match="Expect `start_powerSGD_iter` > 1"):
        powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=1)


def test_power_sgd_of_low_rank(ranks):
    ranks(_exact, 2)


def _local(rank):
    pairs, _ = dist.new_subgroups(2)
    net = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    state = post_localSGD_hook.PostLocalSGDState(None, pairs, start_localSGD_iter=1)
    net.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    seen = []
    for _ in range(2):
        net.zero_grad()
        (net(torch.ones(1, 1)) * rank).sum().backward()
        seen.append(net.module.weight.grad.item())
    assert seen == [1.5, 0.5 if rank < 2 else 2.5]


def test_averages_over_small_groups(ranks):
    ranks(_local, 4)


def _steps_in_the_hook(rank):
    whole, own = _data(rank, 2)

    class Descent:
        def step_param(self, param, grad):
            with torch.no_grad():
                param.sub_(grad, alpha=0.1)

    alone, net = _net(), DistributedDataParallel(_net(), bucket_cap_mb=0.001)
    state = optimizer_overlap_hooks._OptimizerHookState(Descent())
    net.register_comm_hook(None, optimizer_overlap_hooks._hook_then_optimizer(default_hooks.allreduce_hook, state))
    optimizer = torch.optim.SGD(alone.parameters(), 0.1)
    for _ in range(3):
        _grads(alone, whole)
        optimizer.step()
        _grads(net, own)
    for one, other in zip(net.parameters(), alone.parameters()):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_an_optimizer_in_a_hook(ranks):
    ranks(_steps_in_the_hook, 2)


def _futures(rank):
    tensor, order = torch.ones(3) * (rank + 1), []
    future = dist.all_reduce(tensor, async_op=True).get_future()
    following = future.then(lambda done: done.value()[0].sum().item())
    assert following.wait() == 9.0 and future.done() and tensor.tolist() == [3.0] * 3
    futures = [dist.all_reduce(torch.ones(1), async_op=True).get_future() for _ in range(3)]
    chained = [one.then(lambda done, k=k: order.append(k)) for k, one in enumerate(futures)]
    torch.futures.wait_all(chained)
    assert order == [0, 1, 2]
    polled = dist.all_reduce(torch.ones(1), async_op=True).get_future()
    while not polled.done():
        pass
    assert polled.value()[0].item() == 2
    called = torch.multiprocessing.get_context("fork").Event()
    dist.all_reduce(torch.ones(1), async_op=True).get_future().add_done_callback(lambda done: called.set())
    assert called.wait(20)
    dist.barrier()
    if rank == 1:
        dist.destroy_process_group()
        return
    failed = dist.all_reduce(torch.ones(1), async_op=True).get_future()
    with pytest.raises(RuntimeError, match="rank 1"):
        failed.wait()


def test_futures_of_calls(ranks):
    ranks(_futures, 2)


# ---- uneven inputs --------------------------------------------------------------------------------------------------


def _uneven(rank, counts, options, divides, batch_norm):
    torch.manual_seed(0)
    layers = [nn.Linear(4, 6), *([nn.BatchNorm1d(6)] if batch_norm else []), nn.Linear(6, 1)]
    net = DistributedDataParallel(nn.Sequential(*layers), **options)
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    alone = copy.deepcopy(net.module)
    reference = torch.optim.SGD(alone.parameters(), 0.05)
    batches = [torch.randn(max(counts), 3, 4, generator=torch.Generator().manual_seed(r)) for r in range(len(counts))]
    with net.join(divide_by_initial_world_size=divides):
        for batch in batches[rank][: counts[rank]]:
            optimizer.zero_grad()
            net(batch).pow(2).mean().backward()
            optimizer.step()
    _same_everywhere(list(net.parameters()) + list(net.buffers()))
    if batch_norm:
        return
    for step in range(max(counts)):
        reference.zero_grad()
        active = [r for r in range(len(counts)) if counts[r] > step]
        for r in active:
            (alone(batches[r][step]).pow(2).mean() / (len(counts) if divides else len(active))).backward()
        reference.step()
    for one, other in zip(net.parameters(), alone.parameters()):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("divides", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"find_unused_parameters": True}, {"static_graph": True}, {"bucket_cap_mb": 1e-5}], ids=str
)
@pytest.mark.parametrize("counts", [(2, 5), (4, 1, 3), (0, 2), (3, 3)], ids=str)
def test_ranks_without_batches_go_on(ranks, counts, options, divides):
    ranks(_uneven, len(counts), counts, options, divides, False)


def test_buffers_of_ranks_with_batches(ranks):
    ranks(_uneven, 2, (1, 4), {}, True, True)


def _accumulates(rank):
    net = DistributedDataParallel(nn.Linear(2, 1))
    seen = 0
    with net.join():
        for _ in range(2 + 4 * rank):
            net.zero_grad()
            with net.no_sync():
                net(torch.ones(1, 2)).sum().backward()
            net(torch.ones(1, 2)).sum().backward()
            seen += 1
    assert seen == 2 + 4 * rank
    _same_everywhere(list(net.parameters()))


def test_no_sync_with_uneven_inputs(ranks):
    ranks(_accumulates, 2)


def _throws(rank):
    net = DistributedDataParallel(nn.Linear(2, 1))
    expected = "Rank 0 exhausted all inputs" if rank == 0 else "Detected at least one rank that exhausted inputs"
    with pytest.raises(RuntimeError, match=expected):
        with net.join(throw_on_early_termination=True):
            for _ in range(1 + 3 * rank):
                net(torch.ones(1, 2)).sum().backward()


def test_an_error_on_all_ranks(ranks):
    ranks(_throws, 2)


class _Counter(Joinable):
    """Adds up how many ranks still count, and the greatest count."""

    class Hook(JoinHook):
        def __init__(self, counter, sync_max_count):
            self.counter, self.sync_max_count = counter, sync_max_count

        def main_hook(self):
            dist.all_reduce(torch.zeros(1))

        def post_hook(self, is_last_joiner):
            if self.sync_max_count:
                found = torch.tensor([self.counter.count if is_last_joiner else 0])
                dist.all_reduce(found, dist.ReduceOp.MAX)
                self.counter.max_count = found.item()

    def __init__(self):
        super().__init__()
        self.count = self.max_count = 0

    def __call__(self):
        Join.notify_join_context(self)
        ones = torch.ones(1)
        dist.all_reduce(ones)
        self.count += int(ones.item())

    def join_hook(self, **kwargs):
        return self.Hook(self, kwargs.get("sync_max_count", False))

    @property
    def join_device(self):
        return torch.device("cpu")

    @property
    def join_process_group(self):
        return dist.group.WORLD


def _counts(rank):
    counter = _Counter()
    with Join([counter], sync_max_count=True):
        for _ in range(rank + 5):
            counter()
    assert counter.count == [10, 11][rank] and counter.max_count == 11
    with pytest.raises(ValueError, match="requires at least one joinable"):
        Join([])


def test_own_classes_join(ranks):
    ranks(_counts, 2)


def _with_an_optimizer(rank):
    torch.manual_seed(0)
    net = DistributedDataParallel(nn.Linear(4, 2))
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.01)
    with Join([net, optimizer]):
        for _ in range(2 + 3 * rank):
            optimizer.zero_grad()
            net(torch.ones(1, 4)).pow(2).sum().backward()
            optimizer.step()
    _same_everywhere(list(net.parameters()))


def test_a_module_and_its_optimizer_join(ranks):
    ranks(_with_an_optimizer, 2)


def test_checkpoint_wrappers_hide_in_names_and_change_nothing():
    plain = _net()
    inputs = torch.randn(5, 8)
    plain(inputs).sum().backward()
    for way in checkpoint_wrapper.CheckpointImpl:
        net = _net()
        calls = []
        net[0].register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))
        checkpoint_wrapper.apply_activation_checkpointing(
            net,
            lambda module, way=way: checkpoint_wrapper.checkpoint_wrapper(module, way),
            check_fn=lambda module: isinstance(module, nn.Linear),
        )
        assert [type(module).__name__ for module in net] == ["CheckpointWrapper", "Tanh", *["CheckpointWrapper"] * 2]
        assert net[0].in_features == 8
        assert list(net.state_dict()) == list(plain.state_dict())
        assert [name for name, _ in net[0].named_parameters()] == ["weight", "bias"]
        net.load_state_dict(plain.state_dict())
        net(inputs.clone().requires_grad_()).sum().backward()
        assert len(calls) == 2
        for ours, theirs in zip(net.parameters(), plain.parameters()):
            assert torch.equal(ours.grad, theirs.grad)


def test_wrappers_by_policy_and_with_keywords():
    net = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
    policy = ModuleWrapPolicy({nn.Linear})
    checkpoint_wrapper.apply_activation_checkpointing(net, auto_wrap_policy=policy)
    assert isinstance(net[0][0], checkpoint_wrapper.CheckpointWrapper)
    x = torch.ones(1, 2, requires_grad=True)
    linear = nn.Linear(2, 2)
    reentrant = checkpoint_wrapper.CheckpointWrapper(linear, checkpoint_wrapper.CheckpointImpl.REENTRANT)
    offloaded = checkpoint_wrapper.offload_wrapper(linear)
    for wrapped in (reentrant, offloaded):
        assert torch.equal(wrapped(input=x), linear(x))
    with pytest.raises(ValueError, match="Expected 1 to be callable or be a pre-defined wrap policy"):
        checkpoint_wrapper.apply_activation_checkpointing(net, auto_wrap_policy=1)

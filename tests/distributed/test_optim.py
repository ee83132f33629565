"""Optimizers of several processes: state in parts, averages of models."""

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks
from rushlight.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import (
    hook_with_zero_step,
    hook_with_zero_step_interleaved,
)
from rushlight.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from rushlight.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer, as_functional_optim
from rushlight.nn import functional as F
from rushlight.nn.parallel import DistributedDataParallel

OPTIMIZERS = [
    (torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.AdamW, {"lr": 0.01, "amsgrad": True}),
]


def _net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 30), nn.Tanh(), nn.Linear(30, 3, bias=False))


def _data(rank, size):
    torch.manual_seed(0)
    inputs, targets = torch.randn(12, 8), torch.randint(0, 3, (12,))
    part = slice(rank * 12 // size, (rank + 1) * 12 // size)
    return inputs, targets, inputs[part], targets[part]


def _groups(net):
    return [{"params": list(net[0].parameters()), "lr": 0.02}, {"params": net[2].parameters()}]


class _Pair:
    """A network that one process trains, and its copy whose optimizer is spread over the ranks."""

    def __init__(self, rank, size, kind, options):
        inputs, targets, own_inputs, own_targets = _data(rank, size)
        self.alone, self.own = _net(), _net()
        self.one, self.parts = (
            kind(_groups(self.alone), **options),
            ZeroRedundancyOptimizer(_groups(self.own), kind, **options),
        )
        together = DistributedDataParallel(self.own)
        self.trained = [(self.alone, inputs, targets), (together, own_inputs, own_targets)]

    def step(self):
        for optimizer, (net, x, y) in zip((self.one, self.parts), self.trained):
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()

    def compare(self):
        for expected, found in zip(self.alone.parameters(), self.own.parameters()):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def _zero(rank, size):
    for kind, options in OPTIMIZERS:
        pair = _Pair(rank, size, kind, options)
        schedulers = [torch.optim.lr_scheduler.StepLR(each, 2) for each in (pair.one, pair.parts)]
        for _ in range(3):
            pair.step()
            for scheduler in schedulers:
                scheduler.step()
        pair.compare()
        # Every parameter has its state on one rank.
        counts = [None] * size
        dist.all_gather_object(counts, len(pair.parts.optim.state))
        assert sum(counts) == 3
        pair.parts.consolidate_state_dict(to=1)
        if rank != 1:
            with pytest.raises(RuntimeError, match="Optimizer state has not been consolidated on this rank"):
                pair.parts.state_dict()
        states = [pair.parts.state_dict() if rank == 1 else None]
        dist.broadcast_object_list(states, 1)
        expected = pair.one.state_dict()
        assert states[0]["param_groups"] == expected["param_groups"]
        assert states[0]["state"].keys() == expected["state"].keys()
        for number, state in expected["state"].items():
            for name, value in state.items():
                torch.testing.assert_close(states[0]["state"][number][name], value, rtol=1e-4, atol=1e-6)
        # A new optimizer goes on from there.
        pair.parts = ZeroRedundancyOptimizer(_groups(pair.own), kind, **options)
        pair.parts.load_state_dict(states[0])
        pair.step()
        pair.compare()


@pytest.mark.parametrize("size", [2, 4])
def test_state_in_parts(ranks, size):
    ranks(_zero, size, size)


def _adds(rank):
    net = _net()
    optimizer = ZeroRedundancyOptimizer(net[0].parameters(), torch.optim.SGD, lr=1.0)
    optimizer.add_param_group({"params": net[2].parameters(), "lr": 0.5})
    before = [p.detach().clone() for p in net.parameters()]
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    for p, old, lr in zip(net.parameters(), before, (1.0, 1.0, 0.5)):
        torch.testing.assert_close(p, old - lr)
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        ZeroRedundancyOptimizer([], torch.optim.SGD, lr=1.0)


def test_groups_are_added(ranks):
    ranks(_adds, 2)


def _overlaps(rank):
    """Steps within backward are those of a call."""
    inputs, targets, own_inputs, own_targets = _data(rank, 2)
    group = dist.new_group(backend="mpi")
    for with_step in (hook_with_zero_step, hook_with_zero_step_interleaved):
        alone, own = _net(), _net()
        net = DistributedDataParallel(own, process_group=group, bucket_cap_mb=0.0001)
        optimizer = torch.optim.Adam(alone.parameters(), lr=0.05)
        zero = ZeroRedundancyOptimizer(own.parameters(), torch.optim.Adam, group, overlap_with_ddp=True, lr=0.05)
        net.register_comm_hook(None, with_step(default_hooks.allreduce_hook, net, zero))
        for _ in range(4):
            for one, x, y in ((alone, inputs, targets), (net, own_inputs, own_targets)):
                one.zero_grad()
                F.cross_entropy(one(x), y).backward()
            # The gradients stay, too.
            for expected, found in zip(alone.parameters(), own.parameters()):
                torch.testing.assert_close(found.grad, expected.grad, rtol=1e-4, atol=1e-6)
            optimizer.step()
            for expected, found in zip(alone.parameters(), own.parameters()):
                torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        before = own[0].weight.detach().clone()
        with pytest.warns(UserWarning, match="should not be included in the training loop"):
            assert zero.step() is None
        assert torch.equal(own[0].weight, before)
    with pytest.raises(RuntimeError, match="Gloo backend using Overlapping DDP with ZeRO may meet hangs"):
        hook_with_zero_step(default_hooks.allreduce_hook, DistributedDataParallel(_net()), zero)
    plain = ZeroRedundancyOptimizer(own.parameters(), torch.optim.SGD, group, lr=0.05)
    with pytest.raises(ValueError, match="must be constructed with `overlap_with_ddp=True`"):
        hook_with_zero_step(default_hooks.allreduce_hook, net, plain)


def test_steps_within_backward(ranks):
    ranks(_overlaps, 2)


def _averages(rank):
    net = nn.Linear(1, 1, bias=False)
    optimizer = PostLocalSGDOptimizer(
        torch.optim.SGD(net.parameters(), lr=1.0), PeriodicModelAverager(period=2, warmup_steps=1)
    )
    nn.init.zeros_(net.weight)
    seen = []
    for _ in range(4):
        net.weight.grad = torch.full((1, 1), rank + 1.0)
        optimizer.step()
        seen.append(net.weight.item())
    # Averages follow the second and the fourth step.
    assert seen == [[-1.0, -3.0, -4.0, -6.0], [-2.0, -3.0, -5.0, -6.0]][rank]
    state = optimizer.state_dict()
    assert state["step"] == 4
    optimizer.averager.step = 0
    optimizer.load_state_dict(state)
    assert optimizer.averager.step == 4
    del state["step"]
    with pytest.warns(UserWarning, match="does not contain a step counter"):
        optimizer.load_state_dict(state)
    with pytest.raises(ValueError, match="``period`` must be a positive value"):
        PeriodicModelAverager(0)


def test_averages_of_models(ranks):
    ranks(_averages, 2)


FUNCTIONAL = {
    "Adadelta": {"lr": 0.5},
    "Adagrad": {"lr": 0.1},
    "Adam": {"amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"lr": 0.1},
    "Adamax": {},
    "RMSprop": {"momentum": 0.5, "centered": True},
    "Rprop": {},
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
}


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional_forms(name):
    """They make the steps of the optimizers, and leave gradients alone."""
    kind = getattr(torch.optim, name)
    torch.manual_seed(0)
    plain, first, second = (nn.Parameter(torch.linspace(-1, 1, 5)) for _ in range(3))
    optimizer, one = kind([plain], **FUNCTIONAL[name]), as_functional_optim(kind, **FUNCTIONAL[name])
    several = type(one)([second], **FUNCTIONAL[name])
    kept = first.grad = torch.full((5,), 7.0)
    for _ in range(3):
        plain.grad = torch.randn(5)
        optimizer.step()
        one.step_param(first, plain.grad)
        several.step([plain.grad])
        assert torch.equal(plain, first) and torch.equal(plain, second)
    assert first.grad is kept and second.grad is None
    assert list(one.state) == [first] and one.param_group["params"] == []


def test_functional_forms_are_refused():
    with pytest.raises(ValueError, match="^Optimizer <class .*LBFGS'> does not have a functional counterpart!"):
        as_functional_optim(torch.optim.LBFGS, lr=0.1)
    form = type(as_functional_optim(torch.optim.SGD, lr=0.1))
    with pytest.raises(ValueError, match="^optimizer got an empty parameter list"):
        form([], lr=0.1)
    with pytest.raises(ValueError, match="Params length: 1. Gradients length: 2"):
        form([nn.Parameter(torch.ones(1))], lr=0.1).step([torch.ones(1)] * 2)

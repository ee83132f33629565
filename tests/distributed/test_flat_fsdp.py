"""`FullyShardedDataParallel`: training with flat parameters in parts is training, memory is given back, states are whole."""

import copy
import functools
import warnings

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed import fsdp
from rushlight.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP
from rushlight.distributed.fsdp import MixedPrecision, ShardingStrategy, StateDictType
from rushlight.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    enable_wrap,
    lambda_auto_wrap_policy,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)
from rushlight.distributed.tensor import DTensor, Shard
from rushlight.nn import functional as F

WIDTH, TOKENS = 7, 11


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.down = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """Blocks, one weight in two places, and a buffer."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, TOKENS, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.tensor([1.5]))

    def forward(self, x):
        x = self.embedding(x) * self.scale
        for block in self.blocks:
            x = block(x)
        return self.head(x)


POLICY = ModuleWrapPolicy({Block})


def _net():
    torch.manual_seed(0)
    return Net()


def _wrapped(net=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FSDP(net or _net(), auto_wrap_policy=options.pop("auto_wrap_policy", POLICY), **options)


def _loss(net, data):
    return F.cross_entropy(net(data).flatten(0, 1).float(), data.roll(1, 1).flatten())


def _data(rank, size):
    data = torch.randint(TOKENS, (12, 5), generator=torch.Generator().manual_seed(1))
    return data, data.chunk(size)[rank]


def _same(net, alone, **tolerance):
    """Whether the whole state is that of a model that was trained alone."""
    found, expected = net.state_dict(), alone.state_dict()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, **(tolerance or {"rtol": 0, "atol": 1e-6}))


def _trains(rank, size, options):
    whole, own = _data(rank, size)
    alone, net = _net(), _wrapped(**options)
    # Like torch's flat parameters: all of equal size.
    assert len({parameter.numel() for parameter in net.parameters()}) > 1 or options.get("use_orig_params")
    optimizers = [torch.optim.SGD(one.parameters(), 0.1, momentum=0.9) for one in (alone, net)]
    for _ in range(3):
        for optimizer, one, data in zip(optimizers, (alone, net), (whole, own)):
            optimizer.zero_grad()
            _loss(one, data).backward()
        norms = torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.5), net.clip_grad_norm_(0.5)
        torch.testing.assert_close(norms[1], norms[0])
        for optimizer in optimizers:
            optimizer.step()
    _same(net, alone)
    with torch.no_grad():
        torch.testing.assert_close(net(own), alone(own), rtol=0, atol=1e-5)


STRATEGIES = [ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD]


@pytest.mark.parametrize("originals", [False, True], ids=["flat", "originals"])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_training(ranks, strategy, originals):
    ranks(_trains, 2, 2, {"sharding_strategy": strategy, "use_orig_params": originals})


def test_training_of_three(ranks):
    ranks(_trains, 3, 3, {"use_orig_params": True})


def _copies(rank):
    mesh = dist.init_device_mesh("cpu", (2, 2))
    shares, copies = mesh.get_group(1), mesh.get_group(0)
    hybrid = {"sharding_strategy": ShardingStrategy.HYBRID_SHARD}
    for options in ({"device_mesh": mesh}, {"process_group": (shares, copies)}, {}):
        whole, own = _data(rank, 4)
        alone, net = _net(), _wrapped(**hybrid, **options)
        optimizers = [torch.optim.SGD(one.parameters(), 0.1) for one in (alone, net)]
        for optimizer, one, data in zip(optimizers, (alone, net), (whole, own)):
            _loss(one, data).backward()
            optimizer.step()
        _same(net, alone)


def test_copies_of_parts(ranks):
    ranks(_copies, 4)


def _memory(rank):
    for strategy, kept in ((ShardingStrategy.FULL_SHARD, False), (ShardingStrategy.SHARD_GRAD_OP, True)):
        net = _wrapped(sharding_strategy=strategy)
        units = [block._fsdp_unit for block in net.blocks]
        seen = []

        def look(*_, units=units, seen=seen):
            seen.append([unit.pieces[0].memory.untyped_storage().nbytes() > 0 for unit in units])

        for block in net.blocks:
            block.up.register_forward_hook(look)
            block.up.register_full_backward_pre_hook(look)
        _loss(net, _data(rank, 2)[1]).backward()
        first, second, both = [True, False], [False, True], [True, True]
        assert seen == ([first, both, both, first] if kept else [first, second, second, first])
        for unit in (net._fsdp_unit, *units):
            assert unit.pieces[0].memory.untyped_storage().nbytes() == 0 and unit.pieces[0].whole.grad is None
        parts = sum(parameter.numel() for parameter in net.parameters())
        assert parts - sum(parameter.numel() for parameter in _net().parameters()) / 2 <= 3


def test_memory_is_given_back(ranks):
    ranks(_memory, 2)


def _accumulates(rank, originals):
    whole, own = _data(rank, 2)
    alone, net = _net(), _wrapped(use_orig_params=originals)
    with net.no_sync():
        _loss(net, own).backward()
        assert all(parameter.grad is None for parameter in net.parameters())
    _loss(net, own).backward()
    _loss(net, own).backward()
    for _ in range(3):
        _loss(alone, whole).backward()
    for one in (alone, net):
        torch.optim.SGD(one.parameters(), 0.1).step()
    _same(net, alone)


@pytest.mark.parametrize("originals", [False, True], ids=["flat", "originals"])
def test_gradients_add_up(ranks, originals):
    ranks(_accumulates, 2, originals)


def _mixed(rank):
    whole, own = _data(rank, 2)
    precision = MixedPrecision(torch.bfloat16, torch.float32, torch.bfloat16)
    alone, net = _net(), _wrapped(mixed_precision=precision)
    dtypes = []
    net.blocks[0].up.register_forward_hook(lambda module, args, out: dtypes.append((module.weight.dtype, out.dtype)))
    _loss(net, own).backward()
    _loss(alone, whole).backward()
    assert dtypes == [(torch.bfloat16, torch.bfloat16)] and net.module.scale.dtype == torch.bfloat16
    assert net.state_dict()["scale"].dtype == torch.float32
    for one in (alone, net):
        torch.optim.SGD(one.parameters(), 0.1).step()
    assert all(parameter.dtype == parameter.grad.dtype == torch.float32 for parameter in net.parameters())
    _same(net, alone, rtol=0, atol=1e-2)
    normed = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    with pytest.warns(UserWarning, match="mixed precision and an auto_wrap_policy were specified"):
        kept = FSDP(normed, mixed_precision=precision, auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
    assert kept[1].mixed_precision.param_dtype is None and kept[0].mixed_precision is precision


def test_mixed_precision(ranks):
    ranks(_mixed, 2)


def _states(rank, originals):
    whole, own = _data(rank, 2)
    alone, net = _net(), _wrapped(use_orig_params=originals)
    optimizers = [torch.optim.Adam(one.parameters(), 0.01) for one in (alone, net)]
    for optimizer, one, data in zip(optimizers, (alone, net), (whole, own)):
        _loss(one, data).backward()
        optimizer.step()
    names = [name for name, _ in alone.named_parameters()]
    for kind in StateDictType:
        with FSDP.state_dict_type(net, kind):
            state, steps = net.state_dict(), FSDP.optim_state_dict(net, optimizers[1])
            parts = {name: value for name, value in state.items() if isinstance(value, DTensor)}
            if kind is StateDictType.LOCAL_STATE_DICT:
                assert "_flat_param" in parts and "blocks.0._flat_param" in parts and "embedding.weight" not in state
            elif kind is StateDictType.SHARDED_STATE_DICT:
                assert list(parts) == [name for name in state if name != "scale"]
                every = [*parts.values(), *(value["exp_avg"] for value in steps["state"].values())]
                assert all(value.placements == (Shard(0),) for value in every)
            else:
                assert not parts
            again = _wrapped(Net(), use_orig_params=originals)
            optimizer = torch.optim.Adam(again.parameters(), 0.5)
            FSDP.set_state_dict_type(again, kind)
            again.load_state_dict(state)
            optimizer.load_state_dict(FSDP.optim_state_dict_to_load(again, optimizer, steps))
            FSDP.set_state_dict_type(again, StateDictType.FULL_STATE_DICT)
        _same(again, alone)
        assert optimizer.param_groups[0]["lr"] == 0.01
        assert set(steps["state"]) == set(names) == set(steps["param_groups"][0]["params"])
        for name, parameter in alone.named_parameters():
            for key, value in optimizers[0].state[parameter].items():
                found = steps["state"][name][key]
                found = found.full_tensor() if isinstance(found, DTensor) else found
                torch.testing.assert_close(found, value, rtol=0, atol=1e-6)
        # What was loaded makes the same step.
        stepped = _net()
        stepped.load_state_dict(alone.state_dict())
        other = torch.optim.Adam(stepped.parameters(), 0.5)
        other.load_state_dict(copy.deepcopy(optimizers[0].state_dict()))
        for one, data, used in ((stepped, whole, other), (again, own, optimizer)):
            used.zero_grad()
            _loss(one, data).backward()
            used.step()
        _same(again, stepped, rtol=0, atol=1e-5)
    with FSDP.state_dict_type(
        net,
        StateDictType.FULL_STATE_DICT,
        fsdp.FullStateDictConfig(rank0_only=True),
        fsdp.FullOptimStateDictConfig(rank0_only=True),
    ):
        state, steps = net.state_dict(), FSDP.optim_state_dict(net, optimizers[1])
        assert (len(state) > 0) == (rank == 0) == bool(steps)
        optimizers[1].load_state_dict(FSDP.optim_state_dict_to_load(net, optimizers[1], steps))
    assert FSDP.get_state_dict_type(net).state_dict_type is StateDictType.FULL_STATE_DICT
    # The functions of checkpoints use the same states.
    options = StateDictOptions(full_state_dict=True)
    state = get_model_state_dict(net, options=options)
    steps = get_optimizer_state_dict(net, optimizers[1], options=options)
    assert state.keys() == alone.state_dict().keys() and set(steps["state"]) == set(names)
    again = _wrapped(Net(), use_orig_params=originals)
    optimizer = torch.optim.Adam(again.parameters(), 0.5)
    set_model_state_dict(again, state, options=options)
    set_optimizer_state_dict(again, optimizer, steps, options=options)
    _same(again, alone)
    assert isinstance(get_model_state_dict(net)["head.weight"], DTensor)


@pytest.mark.parametrize("originals", [False, True], ids=["flat", "originals"])
def test_states(ranks, originals):
    ranks(_states, 2, originals)


def _summons(rank):
    for originals in (False, True):
        alone, net = _net(), _wrapped(use_orig_params=originals)
        before = list(net.parameters())
        names = [name for name, _ in alone.named_parameters()]
        with FSDP.summon_full_params(net):
            assert [name for name, _ in net.named_parameters()] == names
            for found, expected in zip(net.parameters(), alone.parameters()):
                assert torch.equal(found, expected)
                with torch.no_grad():
                    found.add_(1)
        assert [id(one) for one in net.parameters()] == [id(one) for one in before]
        with FSDP.summon_full_params(net, writeback=False), torch.no_grad():
            assert torch.equal(net.head.weight, alone.head.weight + 1)
            net.head.weight.zero_()
        with FSDP.summon_full_params(net, writeback=False, rank0_only=True):
            whole = net.head.weight.shape == alone.head.weight.shape
            assert whole or rank == 1
        assert torch.equal(net.state_dict()["head.weight"], alone.head.weight + 1)
        net.apply(lambda module: nn.init.ones_(module.weight) if isinstance(module, nn.Linear) else None)
        assert torch.equal(net.state_dict()["blocks.0.up.weight"], torch.ones(3 * WIDTH, WIDTH))
    _loss(net, _data(rank, 2)[1]).backward()
    with FSDP.summon_full_params(net, with_grads=True):
        assert all(parameter.grad.shape == parameter.shape for parameter in net.parameters())
        net.head.weight.grad.fill_(3.0)
    part = net.head.weight.grad
    assert part is None or bool((part == 3).all())


def test_whole_parameters(ranks):
    ranks(_summons, 2)


def _policies(rank):
    blocks = lambda net: [type(part.module).__name__ for part in FSDP.fsdp_modules(net)]
    for policy in (
        POLICY,
        functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block}),
        functools.partial(size_based_auto_wrap_policy, min_num_params=300),
        functools.partial(lambda_auto_wrap_policy, lambda_fn=lambda module: isinstance(module, Block)),
        CustomPolicy(lambda module: isinstance(module, Block)),
    ):
        assert blocks(_wrapped(auto_wrap_policy=policy)) == ["Net", "Block", "Block"], policy
    custom = CustomPolicy(lambda module: {"use_orig_params": True} if isinstance(module, Block) else False)
    net = _wrapped(auto_wrap_policy=custom)
    assert net.blocks[0]._use_orig_params and not net._use_orig_params
    assert FSDP.fsdp_modules(net, root_only=True) == [net] and not net.blocks[0].check_is_root()
    with enable_wrap(wrapper_cls=FSDP, use_orig_params=True):
        assert isinstance(wrap(nn.Linear(2, 2)), FSDP)
        with pytest.raises(NotImplementedError, match="nested autowrap"), enable_wrap(wrapper_cls=FSDP):
            pass
    assert isinstance(wrap(nn.Linear(2, 2)), nn.Linear)
    with pytest.raises(ValueError, match="should return False/True or a kwarg dict, but it returned 3"):
        _wrapped(auto_wrap_policy=CustomPolicy(lambda module: 3))
    with pytest.raises(ValueError, match="requires modules to not already have FSDP applied"):
        _wrapped(net)


def test_policies(ranks):
    ranks(_policies, 2)


def _others(rank):
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    with torch.no_grad():
        net[0].weight.fill_(rank)
    kept = net[1].weight
    made = FSDP(net, ignored_modules=[net[1]], sync_module_states=True)
    assert made[1].weight is kept and not made.state_dict()["0.weight"].any()
    made(torch.ones(1, 3)).sum().backward()
    with torch.device("meta"):
        empty = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    filled = FSDP(empty, param_init_fn=lambda part: part.to_empty(device="cpu", recurse=False))
    assert filled(torch.ones(1, 3)).shape == (1, 2)
    frozen = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3).requires_grad_(False))
    FSDP(frozen, use_orig_params=True)(torch.ones(1, 3)).sum().backward()
    assert all(parameter.grad is None for parameter in frozen[1].parameters())
    checked = FSDP(nn.Linear(3, 3))
    calls = []

    def hook(state, grad, part):
        calls.append(state)
        dist.reduce_scatter_tensor(part, grad)

    checked.register_comm_hook("state", hook)
    checked(torch.ones(1, 3)).sum().backward()
    assert calls == ["state"] and torch.equal(checked._flat_param.grad, torch.full((6,), 2.0))
    wrapped, mesh = _wrapped(), dist.init_device_mesh("cpu", (2,))
    on_mesh = FSDP(_net(), device_mesh=mesh)
    FSDP.set_state_dict_type(on_mesh, StateDictType.LOCAL_STATE_DICT)
    hybrid = ShardingStrategy.HYBRID_SHARD
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    partly = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False))
    for call, error, text in (
        (
            lambda: wrapped.blocks[0].clip_grad_norm_(1.0),
            RuntimeError,
            "should only be called on the root FSDP instance",
        ),
        (lambda: wrapped.blocks[0].no_sync().__enter__(), RuntimeError, "on inner FSDP instances is not supported"),
        (lambda: FSDP(_net(), sharding_strategy="x"), KeyError, "x"),
        (lambda: FSDP(_net(), ignored_modules=[3]), ValueError, "ignored_modules expects nn.Module list elements"),
        (lambda: FSDP(_net(), ignored_modules=[wrapped]), ValueError, "should not include FSDP modules"),
        (lambda: FSDP(_net(), ignored_modules=[], ignored_states=[]), ValueError, "Please just pass ignored_states"),
        (
            lambda: FSDP(_net(), sharding_strategy=hybrid),
            ValueError,
            "explicit specification of process group or device",
        ),
        (
            lambda: FSDP(_net(), None, hybrid, device_mesh=mesh),
            ValueError,
            "Expected device_mesh to have ndim=2 but got 1",
        ),
        (
            lambda: FSDP(_net(), (1,), hybrid),
            ValueError,
            "Expected process_group to be passed in as either None or Tuple",
        ),
        (on_mesh.state_dict, RuntimeError, "DeviceMesh is not compatible with LOCAL_STATE_DICT"),
        (lambda: FSDP(_net(), dist.group.WORLD, device_mesh=mesh), ValueError, "both process_group and device_mesh"),
        (lambda: FSDP(mixed), ValueError, "uniform dtype but got torch.float32 and torch.float64"),
        (lambda: FSDP(partly), ValueError, "uniform `requires_grad` when `use_orig_params=False`"),
        (
            lambda: FSDP.set_state_dict_type(wrapped, StateDictType.LOCAL_STATE_DICT, fsdp.FullStateDictConfig()),
            RuntimeError,
            "Expected state_dict_config of type",
        ),
        (lambda: FSDP.summon_full_params(wrapped, rank0_only=True).__enter__(), NotImplementedError, "writeback=True"),
        (lambda: FSDP.summon_full_params(wrapped, with_grads=True).__enter__(), NotImplementedError, "with_grads=True"),
        (lambda: wrapped.load_state_dict({}), RuntimeError, "Missing key"),
        (lambda: checked.register_comm_hook(None, hook), AssertionError, "already registered"),
    ):
        with pytest.raises(error, match=text):
            call()
    # The refused state has left the parameters as they were.
    assert torch.equal(wrapped.state_dict()["head.weight"], _net().head.weight)


def test_other_parameters(ranks):
    ranks(_others, 2)

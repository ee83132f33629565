"""`fully_shard`: training with parameters in parts is training, and memory is given back."""

import copy

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
    share_comm_ctx,
)
from rushlight.distributed.tensor import DTensor, Replicate, Shard
from rushlight.nn import functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """Blocks, and one weight in two places."""

    def __init__(self, width=7, tokens=11):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.head = nn.Linear(width, tokens, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def _net():
    torch.manual_seed(0)
    return Net()


def _shard(net, **options):
    for block in net.blocks:
        fully_shard(block, **options)
    return fully_shard(net, **options)


def _loss(net, data):
    return F.cross_entropy(net(data).flatten(0, 1).float(), data.roll(1, 1).flatten())


def _data(rank, size):
    data = torch.randint(11, (12, 5), generator=torch.Generator().manual_seed(1))
    return data, data.chunk(size)[rank]


def _compare(net, alone, **tolerance):
    names = dict(alone.named_parameters())
    found = dict(net.named_parameters())
    assert found.keys() == names.keys()
    for name, parameter in found.items():
        assert isinstance(parameter, DTensor) and parameter.shape == names[name].shape
        torch.testing.assert_close(parameter.full_tensor(), names[name].detach(), **tolerance)


def _trains(rank, size, options):
    whole, own = _data(rank, size)
    alone, net = _net(), _shard(_net(), **options)
    assert isinstance(net, FSDPModule) and isinstance(net, Net) and type(net).__name__ == "FSDPNet"
    optimizers = [torch.optim.AdamW(one.parameters(), 0.01) for one in (alone, net)]
    for _ in range(3):
        for optimizer, one, data in zip(optimizers, (alone, net), (whole, own)):
            optimizer.zero_grad()
            _loss(one, data).backward()
        for expected, found in zip(alone.parameters(), net.parameters()):
            torch.testing.assert_close(found.grad.full_tensor(), expected.grad, rtol=1e-4, atol=1e-6)
        norms = [torch.nn.utils.clip_grad_norm_(one.parameters(), 0.5) for one in (alone, net)]
        torch.testing.assert_close(norms[1].full_tensor(), norms[0])
        for optimizer in optimizers:
            optimizer.step()
    _compare(net, alone, rtol=1e-4, atol=1e-5)
    assert net.head.weight is net.embedding.weight
    # Each rank has its rows and states of them only.
    rows = -(-11 // size)
    assert net.head.weight.to_local().shape[0] == max(0, min(rows, 11 - rank * rows))
    assert optimizers[1].state[net.head.weight]["exp_avg"].to_local().shape == net.head.weight.to_local().shape
    state = net.state_dict()
    assert all(isinstance(value, DTensor) and value.placements == (Shard(0),) for value in state.values())
    again = _shard(Net())
    again.load_state_dict(state)
    _compare(again, alone, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(again(own), alone(own), rtol=1e-4, atol=1e-5)
    assert not again._fsdp_unit.is_whole


@pytest.mark.parametrize("options", [{}, {"reshard_after_forward": False}, {"reshard_after_forward": True}], ids=str)
@pytest.mark.parametrize("size", [2, 3])
def test_training(ranks, size, options):
    ranks(_trains, size, size, options)


def _columns(rank):
    whole, own = _data(rank, 2)
    placement = lambda parameter: Shard(1) if parameter.dim() > 1 and parameter.size(1) % 2 == 0 else None
    torch.manual_seed(0)
    alone, net = Net(8), Net(8)
    net.load_state_dict(alone.state_dict())
    _shard(net, shard_placement_fn=placement)
    assert net.head.weight.placements == (Shard(1),) and net.head.weight.to_local().shape == (11, 4)
    for one, data in ((alone, whole), (net, own)):
        _loss(one, data).backward()
        torch.optim.SGD(one.parameters(), 0.1).step()
    _compare(net, alone, rtol=1e-4, atol=1e-6)


def test_columns(ranks):
    ranks(_columns, 2)


def _several(rank):
    whole, own = _data(rank, 2)
    alone, net = _net(), _net()
    made = fully_shard([net.blocks[0], net.blocks[2]])
    assert made == [net.blocks[0], net.blocks[2]] and made[0]._fsdp_unit is made[1]._fsdp_unit
    fully_shard(net)
    seen = []
    for block in net.blocks:
        block.register_forward_hook(lambda *_: seen.append(made[0]._fsdp_unit.is_whole))
    for one, data in ((alone, whole), (net, own)):
        _loss(one, data).backward()
        torch.optim.SGD(one.parameters(), 0.1).step()
    # The unit is whole from the first to the last of its modules.
    assert seen == [True, True, False] and not made[0]._fsdp_unit.is_whole
    _compare(net, alone, rtol=1e-4, atol=1e-6)


def test_one_unit_of_several_modules(ranks):
    ranks(_several, 2)


def _smaller(rank):
    """Between forward and backward, parameters are in parts of two ranks."""
    whole, own = _data(rank, 4)
    alone, net = _net(), _shard(_net(), reshard_after_forward=2)
    block, gather = net.blocks[1], _Gather()
    block.set_custom_all_gather(gather)
    loss = _loss(net, own)
    assert all(piece.memory.untyped_storage().nbytes() == 0 for piece in block._fsdp_unit.pieces)
    for parameter, expected in zip(net.parameters(), alone.parameters()):
        assert parameter.placements == (Replicate(), Shard(0))
        assert parameter.device_mesh.mesh.tolist() == [[0, 1], [2, 3]]
        assert torch.equal(parameter.to_local(), expected.detach().chunk(2)[rank % 2])
        assert torch.equal(parameter.full_tensor(), expected)
    loss.backward()
    # Forward gathers from all ranks, backward from two.
    assert gather.ranks == [4, 2]
    _loss(alone, whole).backward()
    for one in (alone, net):
        torch.optim.SGD(one.parameters(), 0.1).step()
    _compare(net, alone, rtol=1e-4, atol=1e-5)
    _loss(net, own)
    assert all(value.placements == (Shard(0),) for value in net.state_dict().values())
    net.set_reshard_after_forward(True)
    _loss(net, own)
    assert block.up.weight.placements == (Shard(0),)
    stays = fully_shard(nn.Linear(2, 2), reshard_after_forward=1)
    stays(torch.ones(1, 2))
    assert not isinstance(stays.weight, DTensor)


@pytest.mark.filterwarnings("ignore:reshard_after_forward=1")
def test_parts_of_fewer_ranks_after_forward(ranks):
    ranks(_smaller, 4)


def _memory(rank):
    net = _shard(_net())
    seen = []

    def look(*_):
        seen.append([block._fsdp_unit.is_whole for block in net.blocks])

    for block in net.blocks:
        block.up.register_forward_hook(look)
        block.up.register_full_backward_pre_hook(look)
    _loss(net, _data(rank, 2)[1]).backward()
    one = lambda k: [number == k for number in range(3)]
    assert seen == [one(0), one(1), one(2), one(2), one(1), one(0)]
    for unit in (net, *net.blocks):
        pieces = unit._fsdp_unit.pieces
        assert pieces and all(piece.memory.untyped_storage().nbytes() == 0 for piece in pieces)
        assert all(piece.whole.grad is None for piece in pieces)


def test_memory_is_given_back(ranks):
    ranks(_memory, 2)


def _accumulates(rank):
    whole, own = _data(rank, 2)
    alone, net = _net(), _shard(_net())
    net.set_requires_gradient_sync(False)
    _loss(net, own).backward()
    assert all(parameter.grad is None for parameter in net.parameters())
    net.set_requires_gradient_sync(True)
    _loss(net, own).backward()
    _loss(net, own).backward()
    for _ in range(3):
        _loss(alone, whole).backward()
    for expected, found in zip(alone.parameters(), net.parameters()):
        torch.testing.assert_close(found.grad.full_tensor(), expected.grad, rtol=1e-4, atol=1e-6)
    net.zero_grad()
    for module in (net, *net.blocks):
        module.set_gradient_divide_factor(1.0)
    _loss(net, own).backward()
    torch.testing.assert_close(net.head.weight.grad.full_tensor(), alone.head.weight.grad * 2 / 3, rtol=1e-4, atol=1e-6)


def test_gradients_add_up(ranks):
    ranks(_accumulates, 2)


def _mixed(rank):
    whole, own = _data(rank, 2)
    alone, net = _net(), _net()
    for block in net.blocks:
        fully_shard(block, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    fully_shard(net, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32))
    dtypes = []
    net.blocks[0].up.register_forward_hook(lambda module, args, out: dtypes.append((module.weight.dtype, out.dtype)))
    loss = _loss(net, own)
    loss.backward()
    _loss(alone, whole).backward()
    assert dtypes == [(torch.bfloat16, torch.bfloat16)]
    with torch.no_grad():
        assert net(own).dtype == torch.float32
    for expected, found in zip(alone.parameters(), net.parameters()):
        assert found.dtype == found.grad.dtype == torch.float32
        torch.testing.assert_close(found.grad.full_tensor(), expected.grad, rtol=0.1, atol=5e-3)


def test_mixed_precision(ranks):
    ranks(_mixed, 2)


def _copies(rank):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "rows"))
    whole, own = _data(rank, 4)
    alone, net = _net(), _shard(_net(), mesh=mesh)
    assert net.head.weight.placements == (Replicate(), Shard(0))
    optimizers = [torch.optim.SGD(one.parameters(), 0.1) for one in (alone, net)]
    for _ in range(2):
        for optimizer, one, data in zip(optimizers, (alone, net), (whole, own)):
            optimizer.zero_grad()
            _loss(one, data).backward()
            optimizer.step()
    _compare(net, alone, rtol=1e-4, atol=1e-5)


def test_copies_of_parts(ranks):
    ranks(_copies, 4)


def _checkpoints(rank):
    whole, own = _data(rank, 2)
    alone, net = _net(), _net()
    for block in net.blocks:
        block.forward = (lambda forward: lambda x: torch.utils.checkpoint.checkpoint(forward, x, use_reentrant=False))(
            block.forward
        )
    _shard(net)
    _loss(alone, whole).backward()
    _loss(net, own).backward()
    for expected, found in zip(alone.parameters(), net.parameters()):
        torch.testing.assert_close(found.grad.full_tensor(), expected.grad, rtol=1e-4, atol=1e-6)


def test_recomputed_activations(ranks):
    ranks(_checkpoints, 2)


def _others(rank):
    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused, self.frozen = (
                nn.Linear(4, 4),
                nn.Linear(4, 4),
                nn.Linear(4, 4).requires_grad_(False),
            )

        def forward(self, x):
            return self.frozen(self.used(x))

        def features(self, x):
            return self.used(x)

    net = Partly()
    alone, kept = copy.deepcopy(net), net.frozen.bias
    fully_shard(net, ignored_params={kept})
    assert net.frozen.bias is kept and not isinstance(kept, DTensor)
    x = torch.ones(3, 4)
    net(x).sum().backward()
    alone(x).sum().backward()
    torch.testing.assert_close(net.used.weight.grad.full_tensor(), alone.used.weight.grad)
    # Unused parameters get no gradient, unless that is asked for.
    assert net.unused.weight.grad is None and net.frozen.weight.grad is None
    net.set_reduce_scatter_unused_params(True)
    net(x).sum().backward()
    assert net.unused.weight.grad.full_tensor().abs().sum() == 0 and net.frozen.weight.grad is None
    register_fsdp_forward_method(net, "features")
    torch.testing.assert_close(net.features(x), alone.features(x))
    net.unshard()
    assert not isinstance(net.used.weight, DTensor) and torch.equal(net.used.weight, alone.used.weight)
    net.reshard()
    assert isinstance(net.used.weight, DTensor)
    net.double()
    assert net.used.weight.dtype == torch.float64
    grid = dist.init_device_mesh("cpu", (2, 1))
    for call, error, text in (
        (
            lambda: fully_shard(net),
            AssertionError,
            "fully_shard has already been applied to the following module:\nFSDPPartly",
        ),
        (lambda: copy.deepcopy(net), AssertionError, "FSDP does not support deepcopy. Please use state dict"),
        (
            lambda: fully_shard(nn.Linear(1, 1), mesh=grid),
            AssertionError,
            "Please init the 2D mesh for HSDP with mesh_dim",
        ),
        (lambda: fully_shard(nn.Linear(1, 1), reshard_after_forward=3), ValueError, "should be a factor of 2, not 3"),
        (
            lambda: fully_shard(nn.Linear(1, 1), reshard_after_forward="a"),
            ValueError,
            "should be a bool or an int .* not a",
        ),
        (
            lambda: net.set_modules_to_forward_prefetch([nn.Linear(1, 1)]),
            ValueError,
            "Expects FSDPModule but got <class",
        ),
        (
            lambda: net.set_modules_to_backward_prefetch([nn.Linear(1, 1)]),
            ValueError,
            "Expects FSDPModule but got <class",
        ),
        (
            lambda: fully_shard(nn.Linear(1, 1), shard_placement_fn=lambda p: Replicate()),
            ValueError,
            "Invalid shard_placement_fn result: R",
        ),
        (
            lambda: fully_shard(nn.Linear(2, 1, device="meta"))(x),
            RuntimeError,
            r"materialized from meta device before training, but .* on meta device: \['weight', 'bias'\]",
        ),
        (lambda: fully_shard(nn.ModuleList([net])), ValueError, "do not implement forward"),
        (lambda: fully_shard([nn.Linear(2, 2), net]), AssertionError, "only be applied to a module once"),
        (lambda: fully_shard([]), IndexError, "out of range"),
        (
            lambda: fully_shard(nn.Linear(3, 2, False), shard_placement_fn=lambda p: Shard(1)),
            NotImplementedError,
            "does not support uneven sharding on dim 1: torch",
        ),
        (
            lambda: fully_shard(nn.Linear(2, 2), shard_placement_fn=lambda p: Shard(1)),
            AssertionError,
            "is invalid for 1D",
        ),
    ):
        with pytest.raises(error, match=text):
            call()
    scalar = nn.Module()
    scalar.x = nn.Parameter(torch.tensor(1.0))
    with pytest.raises(ValueError, match="doesn't support scalar parameters"):
        fully_shard(scalar)


def test_other_parameters(ranks):
    ranks(_others, 2)


def _converted(rank):
    x = torch.arange(12.0).view(2, 6) / 10
    for in_use in (False, True):
        torch.manual_seed(0)
        plain = nn.Linear(6, 5)
        model = fully_shard(copy.deepcopy(plain))
        if in_use:
            model(x)
        plain.double()
        model.double()
        for one in (plain, model):
            one(x.double()).sum().backward()
        assert model.weight.dtype == torch.float64
        torch.testing.assert_close(model.weight.grad.full_tensor(), plain.weight.grad)
        torch.testing.assert_close(model(x.double()), plain(x.double()))


def test_converted(ranks):
    ranks(_converted, 2)


def _unused_on_one_rank(rank):
    """A parameter without a gradient on one rank has one; a parameter without any has none, and so no step."""

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.both, self.first, self.none = (nn.Linear(2, 2) for _ in range(3))

        def forward(self, x):
            return self.both(x) + (self.first(x) if rank == 0 else 0)

    net = fully_shard(Branches())
    net(torch.ones(1, 2)).sum().backward()
    assert torch.equal(net.both.bias.grad.full_tensor(), torch.ones(2))
    assert torch.equal(net.first.bias.grad.full_tensor(), torch.full((2,), 0.5))
    assert net.none.bias.grad is None


def test_unused_parameters(ranks):
    ranks(_unused_on_one_rank, 2)


def _set_reduction(rank):
    x, grads = torch.full((1, 2), rank + 1.0), []
    for change in (
        lambda net: None,
        lambda net: net.set_force_sum_reduction_for_comms(True),
        lambda net: net.set_gradient_divide_factor(4.0),
        lambda net: net.set_all_reduce_hook(lambda flat: flat.mul_(10)),
    ):
        torch.manual_seed(0)
        net = fully_shard(nn.Linear(2, 2))
        change(net)
        net(x).sum().backward()
        grads.append(net.weight.grad.full_tensor()[0, 0].item())
    assert grads == [1.5, 1.5, 0.75, 15.0]
    with pytest.raises(ValueError, match="reshard_after_forward should be a bool, got <class 'int'>"):
        net.set_reshard_after_forward(2)
    share_comm_ctx([net])
    with pytest.raises(ValueError, match="Expects list of FSDPModules but got Linear"):
        share_comm_ctx([nn.Linear(2, 2)])


def test_how_gradients_are_averaged(ranks):
    ranks(_set_reduction, 2)


def _fails_in_backward(rank):
    def fail(grad):
        raise RuntimeError("no gradient")

    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    fully_shard(net[0])
    fully_shard(net)
    broken = net[0].register_forward_hook(lambda module, args, output: output.register_hook(fail) and None)
    with pytest.raises(RuntimeError, match="no gradient"):
        net(torch.ones(1, 2)).sum().backward()
    broken.remove()
    with pytest.raises(RuntimeError, match="reset_iter_state must be called on the root FSDP module"):
        net[0].reset_iter_state()
    net.reset_iter_state()
    net.zero_grad()
    assert isinstance(net[0].weight, DTensor) and isinstance(net[1].weight, DTensor)
    net(torch.ones(1, 2)).sum().backward()
    assert torch.equal(net[1].bias.grad.full_tensor(), torch.ones(2))


def test_after_an_error(ranks):
    ranks(_fails_in_backward, 2)


class _Gather:
    def __init__(self):
        self.calls, self.ranks = [], []

    def allocate(self, size, *, dtype, device):
        self.calls.append(tuple(size))
        # What the memory holds before must not matter.
        return torch.full(size, float("nan"), dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        assert output_tensor[group.rank() * input_tensor.numel()].data_ptr() == input_tensor.data_ptr()
        self.calls.append("call")
        self.ranks.append(group.size())
        return dist.all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


class _Scatter(_Gather):
    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        self.calls.append("call")
        return dist.reduce_scatter_tensor(output_tensor, input_tensor, op, group, async_op)


def _custom_calls(rank):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
    alone = copy.deepcopy(net)
    fully_shard(net[1])
    fully_shard(net)
    gather, scatter = _Gather(), _Scatter()
    net[1].set_custom_all_gather(gather)
    net[1].set_custom_reduce_scatter(scatter)
    x = torch.ones(1, 2)
    for one in (net, alone):
        one(x).sum().backward()
    for found, expected in zip(net.parameters(), alone.parameters()):
        torch.testing.assert_close(found.grad.full_tensor(), expected.grad)
    # Only the inner unit has them. It gathers for forward and for backward.
    assert gather.calls == [(4,), "call"] * 2
    assert scatter.calls == [(4,), (2,), "call"]


def test_custom_calls(ranks):
    ranks(_custom_calls, 2)


def _refused_settings(rank):
    net = fully_shard(nn.Linear(2, 2))
    net.set_separate_reduce_scatter_group()
    net.set_reduce_scatter_max_input_buffers(2)
    with pytest.raises(TypeError, match="max_input_buffers must be an int, got bool"):
        net.set_reduce_scatter_max_input_buffers(True)
    with pytest.raises(ValueError, match="max_input_buffers must be a positive int, got 0"):
        net.set_reduce_scatter_max_input_buffers(0)
    net.set_allocate_memory_from_process_group_for_comm(True)
    net.set_symm_mem_for_comm()
    with pytest.raises(RuntimeError, match="SymmetricMemory does not find allocation backend X"):
        net.set_symm_mem_for_comm("X")
    net.set_custom_reduce_scatter(_Scatter())
    with pytest.raises(
        AssertionError, match=r"cannot call set_symm_mem\(\) when reduce scatter comm is custom: _Scatter"
    ):
        net.set_symm_mem_for_comm()
    net.set_custom_all_gather(_Gather())
    with pytest.raises(AssertionError, match=r"_process_group\(\) when all gather comm is custom: _Gather"):
        net.set_allocate_memory_from_process_group_for_comm(False)


def test_buffers_of_reductions(ranks):
    ranks(_refused_settings, 2)


def _no_backward(rank):
    """The other rank would wait, and torch's does until the timeout or takes wrong numbers."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            x = self.first(x)
            return x, self.second(x)

    net = Two()
    fully_shard(net.second)
    fully_shard(net)
    with pytest.raises(RuntimeError, match="Detected mismatch between collectives on ranks"):
        net(torch.ones(1, 2))[rank].sum().backward()


def test_backward_that_leaves_out_a_unit_on_one_rank(ranks):
    ranks(_no_backward, 2)

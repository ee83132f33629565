"""What the ranks of `test_nccl.py` do with tensors in parts on GPUs; `nccl_ranks.py` starts them."""

import copy
from pathlib import Path

from nccl_cases import BOTH, begin

import rushlight as torch
import rushlight.distributed.checkpoint as dcp
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed import tensor as dt
from rushlight.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from rushlight.distributed.fsdp import CPUOffload, CPUOffloadPolicy, StateDictType, fully_shard
from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP
from rushlight.distributed.fsdp.wrap import ModuleWrapPolicy
from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from rushlight.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def _net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 3))


def _given(rank, size):
    every = torch.randn(4 * size, 5, generator=torch.Generator().manual_seed(1))
    return every, every.chunk(size)[rank]


def _train(net, alone, rank, size, host=False):
    """Steps of a net in parts and of a whole one on the CPU give the same parameters."""
    # The statistics of a batch are those of a rank.
    for one in (net, alone):
        one.eval()
    every, own = _given(rank, size)
    optimizers = [torch.optim.AdamW(one.parameters(), 0.05) for one in (net, alone)]
    for _ in range(3):
        for one, optimizer, data in ((net, optimizers[0], own), (alone, optimizers[1], every)):
            optimizer.zero_grad()
            output = one(data)
            assert output.device.type == ("cpu" if one is alone else "cuda")
            output.pow(2).mean().backward()
            optimizer.step()
    for parameter in net.parameters():
        kind = "cpu" if host else "cuda"
        part = parameter.to_local() if isinstance(parameter, DTensor) else parameter
        grad = parameter.grad.to_local() if isinstance(parameter, DTensor) else parameter.grad
        assert part.device.type == kind
        if part.numel():
            assert grad.device.type == optimizers[0].state[parameter]["exp_avg"].device.type == kind
    return optimizers[0]


def _same(state, alone):
    expected = alone.state_dict()
    assert state.keys() == expected.keys()
    for name, value in expected.items():
        found = state[name].full_tensor() if isinstance(state[name], DTensor) else state[name]
        torch.testing.assert_close(found.cpu(), value, **CLOSE)


def _sharded(**options):
    net = _net()
    fully_shard(net[0], **options)
    return fully_shard(net, **options)


def rows(rank, size, place):
    begin("nccl", place, rank, size)
    net, alone = _sharded(), _net()
    assert net[0].weight.device_mesh.device_type == "cuda" and net[1].running_mean.device.type == "cuda"
    _train(net, alone, rank, size)
    _same(net.state_dict(), alone)
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1).full_tensor()
    torch.testing.assert_close(norm.cpu(), torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.1), **CLOSE)
    # What has no memory yet gets it on the GPU.
    with torch.device("meta"):
        later = nn.Linear(4, 4)
    fully_shard(later)
    later.to_empty(device="cuda")
    later.reset_parameters()
    assert later(torch.ones(1, 4)).device.type == "cuda"


def copies_of_rows(rank, size, place):
    begin("nccl", place, rank, size)
    mesh = dist.init_device_mesh("cuda", (size, 1), mesh_dim_names=("replicate", "shard"))
    net, alone = _sharded(mesh=mesh), _net()
    _train(net, alone, rank, size)
    _same(net.state_dict(), alone)


def rows_on_host(rank, size, place):
    begin(BOTH, place, rank, size)
    net, alone = _sharded(offload_policy=CPUOffloadPolicy()), _net()
    assert net[0].weight.to_local().is_pinned()
    _train(net, alone, rank, size, host=True)
    _same(net.state_dict(), alone)


def flat(rank, size, place):
    begin("nccl", place, rank, size)
    for originals in (False, True):
        for options in ({"device_id": rank}, {}):
            net = _net() if options else _net().cuda()
            net = FSDP(net, auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), use_orig_params=originals, **options)
            alone = _net()
            optimizer = _train(net, alone, rank, size)
            _same(net.state_dict(), alone)
            state = FSDP.optim_state_dict(net, optimizer)
            assert all(value.device.type == "cpu" for one in state["state"].values() for value in one.values())
            optimizer.load_state_dict(FSDP.optim_state_dict_to_load(net, optimizer, state))
            with FSDP.state_dict_type(net, StateDictType.SHARDED_STATE_DICT):
                rows = net.state_dict()
                assert rows["0.weight"].device_mesh.device_type == "cuda"
                net.load_state_dict(rows)
            with FSDP.summon_full_params(net):
                assert net[0].weight.device.type == "cuda"
            net.clip_grad_norm_(1.0)
    moved = FSDP(_net())
    moved.cuda()
    assert moved(_given(rank, size)[1]).device.type == "cuda"


def flat_on_host(rank, size, place):
    begin(BOTH, place, rank, size)
    for originals in (False, True):
        net = FSDP(_net(), device_id=rank, cpu_offload=CPUOffload(True), use_orig_params=originals)
        alone = _net()
        optimizer = _train(net, alone, rank, size, host=True)
        _same(net.state_dict(), alone)
        optimizer.load_state_dict(FSDP.optim_state_dict_to_load(net, optimizer, FSDP.optim_state_dict(net, optimizer)))


def mesh(rank, size, place):
    begin("nccl", place, rank, size)
    grid = dist.init_device_mesh("cuda", (size,))
    whole = torch.arange(15.0).view(5, 3)
    for placement in (Shard(0), Shard(1), Replicate(), Partial()):
        tensor = distribute_tensor(whole, grid, [placement])
        assert tensor.device.type == "cuda"
        for wanted in (Shard(0), Shard(1), Replicate()):
            assert torch.equal(tensor.redistribute(placements=[wanted]).full_tensor().cpu(), whole)
    weight = distribute_tensor(whole, grid, [Shard(0)]).requires_grad_()
    factor = distribute_tensor(torch.ones(3, 2), grid, [Shard(1)])
    (weight @ factor).sum().backward()
    assert torch.equal(weight.grad.full_tensor().cpu(), torch.full((5, 3), 2.0))
    assert copy.deepcopy(weight).to_local().device.type == "cuda"
    local = DTensor.from_local(torch.full((2,), float(rank)), grid, [Shard(0)])
    assert local.full_tensor().tolist() == [float(one) for one in range(size) for _ in range(2)]
    for make in (
        dt.zeros,
        dt.ones,
        dt.empty,
        dt.rand,
        dt.randn,
        lambda *size, **options: dt.full(size, 3.0, **options),
    ):
        tensor = make(4, 2, device_mesh=grid, placements=[Shard(0)])
        assert tensor.device.type == "cuda" and tensor.shape == (4, 2) and tensor.full_tensor().shape == (4, 2)


def layers(rank, size, place):
    begin("nccl", place, rank, size)
    grid = dist.init_device_mesh("cuda", (size,))
    torch.manual_seed(0)
    alone = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    net = parallelize_module(copy.deepcopy(alone), grid, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    data = torch.randn(3, 4)
    for one, given in ((net, data.cuda()), (alone, data)):
        one(given).pow(2).sum().backward()
        torch.optim.SGD(one.parameters(), 0.1).step()
    _same(net.state_dict(), alone)


def states(rank, size, place):
    begin(BOTH, place, rank, size)
    folder = Path(place).with_name("checkpoint")
    net, alone = _sharded(), _net()
    optimizer = _train(net, alone, rank, size)
    model, steps = get_state_dict(net, optimizer)
    dcp.save({"model": model, "steps": steps}, checkpoint_id=folder)
    again = _sharded()
    other = torch.optim.AdamW(again.parameters(), 0.05)
    model, steps = get_state_dict(again, other)
    dcp.load({"model": model, "steps": steps}, checkpoint_id=folder)
    set_state_dict(again, other, model_state_dict=model, optim_state_dict=steps)
    _same(again.state_dict(), alone)
    assert other.state[again[0].weight]["exp_avg"].to_local().device.type == "cuda"
    whole = get_model_state_dict(again, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    assert not whole if rank else all(value.device.type == "cpu" for value in whole.values())
    parts = get_model_state_dict(again, options=StateDictOptions(cpu_offload=True))
    assert all(value.device.type == "cpu" for value in parts.values())
    again.load_state_dict(parts)
    _same(again.state_dict(), alone)
    later = folder.with_name("later")
    saved = dcp.async_save({"model": get_model_state_dict(again)}, checkpoint_id=later)
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.zero_()
    saved.result()
    model = get_model_state_dict(again)
    dcp.load({"model": model}, checkpoint_id=later)
    again.load_state_dict(model)
    _same(again.state_dict(), alone)
    only = dist.new_group(backend="nccl")
    try:
        dcp.async_save({"model": model}, checkpoint_id=later, process_group=only)
    except AssertionError as error:
        assert str(error).startswith("A CPU backend must be enabled for async save;")
    else:
        raise AssertionError("no error")


def flat_states(rank, size, place):
    """States of flat parameters in a group that has no backend for the CPU."""
    begin("nccl", place, rank, size)

    def made():
        torch.manual_seed(0)
        model = FSDP(_net().cuda())
        return model, torch.optim.Adam(model.parameters(), 0.1)

    first, other = made(), made()
    first[0](torch.ones(4, 5, device="cuda")).sum().backward()
    first[1].step()
    for offloads in (False, True):
        options = StateDictOptions(cpu_offload=offloads)
        model, steps = get_state_dict(*first, options=options)
        device = "cpu" if offloads else "cuda"
        parts = [one for one in model.values() if isinstance(one, DTensor)]
        parts += [one["exp_avg"] for one in steps["state"].values()]
        assert len(parts) == 2 * len(steps["state"]) and all(one.to_local().device.type == device for one in parts)
        set_state_dict(*other, model_state_dict=model, optim_state_dict=steps, options=options)
        (loaded,), (own,) = other[1].state.values(), first[1].state.values()
        assert loaded["exp_avg"].is_cuda and torch.equal(loaded["exp_avg"], own["exp_avg"])

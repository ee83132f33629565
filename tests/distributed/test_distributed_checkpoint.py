"""Checkpoints of several ranks: other numbers of ranks load them, damaged ones raise errors, nothing in them is executed."""

import copy
import os
import pickle
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed import checkpoint as dcp
from rushlight.distributed.checkpoint import format_utils, staging
from rushlight.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from rushlight.distributed.fsdp import FullyShardedDataParallel, fully_shard
from rushlight.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from rushlight.nn.parallel import DistributedDataParallel


def _whole():
    return torch.arange(35.0).view(7, 5)


def _state(size, value, layout):
    mesh = dist.init_device_mesh("cpu", (size,))
    return {
        "model": {
            "part": distribute_tensor(value, mesh, layout),
            "plain": value[0].clone(),
            "empty": torch.zeros(0, 2),
        },
        "list": [value[:1].clone(), {"deep": value.int()}],
        "epoch": 3,
        "text": ("a", [1, 2.5]),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
    }


def _saves(rank, size, folder, layout):
    metadata = dcp.save(_state(size, _whole(), layout), checkpoint_id=folder)
    assert metadata.state_dict_metadata["model.part"].size == (7, 5)
    assert (dist.get_rank(), sorted(metadata.planner_data)[0]) == (rank, "epoch")


def _loads(rank, size, folder, layout):
    state = _state(size, torch.zeros(7, 5), layout)
    state["epoch"], state["scalar"], state["text"] = 0, torch.zeros((), dtype=torch.float64), None
    kept = state["model"]["plain"]
    dcp.load(state, checkpoint_id=folder)
    assert torch.equal(state["model"]["part"].full_tensor(), _whole())
    assert state["model"]["plain"] is kept and torch.equal(kept, _whole()[0])
    assert torch.equal(state["list"][0], _whole()[:1]) and torch.equal(state["list"][1]["deep"], _whole().int())
    assert (state["epoch"], state["text"], state["scalar"].item()) == (3, ("a", [1, 2.5]), 2.5)


LAYOUTS = [[Shard(0)], [Shard(1)], [Replicate()]]


@pytest.mark.parametrize("sizes", [(1, 3), (2, 2), (3, 1), (2, 4), (4, 2)], ids=str)
def test_other_ranks_load(ranks, tmp_path, sizes):
    for number, (first, second) in enumerate(zip(LAYOUTS, [*LAYOUTS[1:], LAYOUTS[0]])):
        folder = str(tmp_path / f"checkpoint{number}")
        ranks(_saves, sizes[0], sizes[0], folder, first)
        files = os.listdir(folder)
        assert sorted(files) == [".metadata", *(f"__{rank}_0.distcp" for rank in range(sizes[0]))]
        ranks(_loads, sizes[1], sizes[1], folder, second)


def test_without_a_group(tmp_path):
    dcp.save({"x": _whole(), "n": 1}, checkpoint_id=tmp_path)
    state = {"x": torch.zeros(7, 5), "n": 0}
    dcp.load(state, storage_reader=dcp.FileSystemReader(tmp_path))
    assert torch.equal(state["x"], _whole()) and state["n"] == 1
    with pytest.raises(RuntimeError, match="`checkpoint_id` must be specificed"):
        dcp.save({})


class Counter:
    def __init__(self):
        self.count = 0

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def test_objects_with_a_state(tmp_path):
    torch.manual_seed(0)
    nets, counters = [nn.Linear(3, 2) for _ in range(2)], [Counter(), Counter()]
    counters[0].count = 7
    dcp.save({"net": nets[0], "counter": counters[0]}, checkpoint_id=tmp_path)
    dcp.load({"net": nets[1], "counter": counters[1]}, checkpoint_id=tmp_path)
    assert torch.equal(nets[1].weight, nets[0].weight) and counters[1].count == 7


def _fails(state, folder, error, text, **options):
    with pytest.raises(dcp.CheckpointException) as caught:
        dcp.load(state, checkpoint_id=folder, **options)
    ((rank, (found, stack)),) = caught.value.failures.items()
    assert rank == 0 and isinstance(found, error) and text in str(found) and stack
    assert text in str(caught.value)


def test_refusals(tmp_path):
    folder = tmp_path / "good"
    dcp.save({"x": _whole(), "n": 1}, checkpoint_id=folder)
    _fails({"y": _whole()}, folder, RuntimeError, "Missing key in checkpoint state_dict: y")
    _fails({"x": torch.zeros(2, 5)}, folder, ValueError, "Size mismatch between saved torch.Size([7, 5])")
    _fails({"x": 3}, folder, ValueError, "x is a tensor in the checkpoint")
    _fails({"n": torch.ones(1)}, folder, ValueError, "n is an object in the checkpoint")
    _fails({"x": _whole()}, tmp_path / "nowhere", FileNotFoundError, "No such file")
    planner = dcp.DefaultLoadPlanner(allow_partial_load=True)
    state = {"x": torch.zeros(7, 5), "y": torch.ones(1)}
    dcp.load(state, checkpoint_id=folder, planner=planner)
    assert torch.equal(state["x"], _whole()) and state["y"].item() == 1
    with pytest.raises(dcp.CheckpointException, match="Checkpoint already exists"):
        dcp.save({}, storage_writer=dcp.FileSystemWriter(folder, overwrite=False))


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


def test_nothing_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, damage in (("a", pickle.dumps(Evil())), ("b", b"nothing"), ("c", pickle.dumps({}))):
        dcp.save({"x": _whole()}, checkpoint_id=folder)
        (tmp_path / folder / ".metadata").write_bytes(damage)
        _fails({"x": torch.zeros(7, 5)}, folder, pickle.UnpicklingError, "")
    dcp.save({"x": _whole(), "n": Evil.__name__}, checkpoint_id="d")
    file = tmp_path / "d" / "__0_0.distcp"
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(dcp.CheckpointException):
        dcp.load({"x": torch.zeros(7, 5), "n": ""}, checkpoint_id="d")
    assert not (tmp_path / "evil").exists()


def test_an_interrupted_saving_keeps_the_last_checkpoint(tmp_path):
    dcp.save({"x": _whole()}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException):
        dcp.save({"x": _whole() + 1, "y": lambda: 0}, checkpoint_id=tmp_path)
    state = {"x": torch.zeros(7, 5)}
    dcp.load(state, checkpoint_id=tmp_path)
    assert torch.equal(state["x"], _whole())
    assert sorted(os.listdir(tmp_path)) == [".metadata", "__0_0.distcp"]


def _one_fails(rank, folder):
    with pytest.raises(dcp.CheckpointException) as caught:
        dcp.save({"x": torch.ones(2), "y": (lambda: 0) if rank == 1 else 1}, checkpoint_id=folder)
    failed = list(caught.value.failures)
    assert failed in ([0], [1])
    with pytest.raises(dcp.CheckpointException, match="rank 1: RuntimeError: Missing key in checkpoint state_dict: z"):
        dcp.save({"x": torch.ones(2)}, checkpoint_id=folder)
        dcp.load({"z": torch.ones(2)} if rank == 1 else {"x": torch.ones(2)}, checkpoint_id=folder)


def test_an_error_on_one_rank_is_one_on_all(ranks, tmp_path):
    ranks(_one_fails, 2, str(tmp_path / "a"))


def _in_the_background(rank, folder):
    mesh = dist.init_device_mesh("cpu", (2,))
    x = distribute_tensor(_whole(), mesh, [Shard(0)])
    future = dcp.async_save({"x": x, "n": [1, 2]}, checkpoint_id=folder)
    with torch.no_grad():
        for _ in range(20):  # training goes on, with calls of its own
            x.mul_(0)
            dist.all_reduce(torch.ones(1000))
    future.result(30)
    state = {"x": x, "n": None}
    dcp.load(state, checkpoint_id=folder)
    assert torch.equal(x.full_tensor(), _whole()) and state["n"] == [1, 2]
    assert dist.get_pg_count() == 1


def test_saving_in_the_background(ranks, tmp_path):
    ranks(_in_the_background, 2, str(tmp_path / "a"))


def _parts_to_file(rank, folder, file):
    mesh = dist.init_device_mesh("cpu", (2,))
    dcp.save({"a": {"x": distribute_tensor(_whole(), mesh, [Shard(0)])}, "l": [torch.ones(1), 2]}, checkpoint_id=folder)
    dist.barrier()
    if rank == 0:
        format_utils.dcp_to_torch_save(folder, file)


def test_one_file(ranks, tmp_path):
    folder, file, back = (str(tmp_path / name) for name in ("dcp", "one.pt", "back"))
    ranks(_parts_to_file, 2, folder, file)
    state = torch.load(file)
    assert torch.equal(state["a"]["x"], _whole()) and state["l"][0].item() == 1 and state["l"][1] == 2
    format_utils.torch_save_to_dcp(file, back)
    state = {"a": {"x": torch.zeros(7, 5)}}
    dcp.load(state, checkpoint_id=back)
    assert torch.equal(state["a"]["x"], _whole())


def test_conversion_from_the_command_line(tmp_path):
    def convert(*arguments):
        command = [sys.executable, "-m", "rushlight.distributed.checkpoint.format_utils", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    folder, file, back = (tmp_path / name for name in ("dcp", "one.pt", "back"))
    dcp.save({"a": {"x": _whole()}}, checkpoint_id=folder)
    done = convert("dcp_to_torch", folder, file)
    assert done.returncode == 0 and done.stderr == ""  # the package must not have imported the module that is run
    assert torch.equal(torch.load(file)["a"]["x"], _whole())
    assert convert("torch_to_dcp", file, back).returncode == 0
    state = {"a": {"x": torch.zeros(7, 5)}}
    dcp.load(state, checkpoint_id=back)
    assert torch.equal(state["a"]["x"], _whole())
    for mode in ("dcp_to_torch", "torch_to_dcp"):
        missing = convert(mode, tmp_path / "none", tmp_path / "made")
        assert missing.returncode == 2 and "No checkpoint found at" in missing.stderr
        assert not (tmp_path / "made").exists()
    as_torch = [sys.executable, "-m", "rushlight", "-m", "torch.distributed.checkpoint.format_utils", "--help"]
    done = subprocess.run(as_torch, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("usage: format_utils.py") and done.stderr == ""


# ---- models and optimizers ------------------------------------------------------------------------------------------


def _net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 2))


def _step(net, optimizer):
    torch.manual_seed(5)
    optimizer.zero_grad()
    net(torch.randn(8, 6)).pow(2).sum().backward()
    optimizer.step()


def _wrapped(kind, seed, lr=0.05):
    net = _net(seed)
    if kind == "ddp":
        net = DistributedDataParallel(net)
    elif kind == "fsdp":
        fully_shard(net[0])
        fully_shard(net)
    return net, torch.optim.AdamW(net.parameters(), lr)


def _train_and_save(rank, kind, folder):
    net, optimizer = _wrapped(kind, 0)
    for _ in range(2):
        _step(net, optimizer)
    model, state = get_state_dict(net, optimizer)
    assert list(model) == list(_net().state_dict())
    assert list(state["state"]) == [name for name, _ in _net().named_parameters()]
    assert state["param_groups"][0]["params"] == list(state["state"])
    dcp.save({"model": model, "optim": state}, checkpoint_id=folder)
    _step(net, optimizer)
    full = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True))
    return {name: value.detach() for name, value in full.items()}


def _load_and_train(rank, kind, folder):
    net, optimizer = _wrapped(kind, 1, lr=0.3)
    model, state = get_state_dict(net, optimizer)
    dcp.load({"model": model, "optim": state}, checkpoint_id=folder)
    set_state_dict(net, optimizer, model_state_dict=model, optim_state_dict=state)
    assert optimizer.param_groups[0]["lr"] == 0.05
    _step(net, optimizer)
    full = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True))
    return {name: value.detach() for name, value in full.items()}


@pytest.mark.parametrize("kinds", [("ddp", "fsdp"), ("fsdp", "ddp"), ("fsdp", "fsdp")], ids=str)
def test_models_and_optimizers(ranks, tmp_path, kinds):
    expected = ranks(_train_and_save, 2, kinds[0], str(tmp_path / "a"))[0]
    for size in (1, 3):
        for found in ranks(_load_and_train, size, kinds[1], str(tmp_path / "a")):
            assert found.keys() == expected.keys()
            for name, value in expected.items():
                torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5)


def _whole_states(rank):
    net, optimizer = _wrapped("fsdp", 0)
    _step(net, optimizer)
    full = StateDictOptions(full_state_dict=True, cpu_offload=True)
    model = get_model_state_dict(net, options=full)
    # Loading keeps the tensors of a state, which are those of the other optimizer.
    state = copy.deepcopy(get_optimizer_state_dict(net, optimizer, options=full))
    assert bool(model) == bool(state) == (rank == 0)
    assert not any(isinstance(value, DTensor) for value in model.values())
    other, second = _wrapped("fsdp", 1)
    first = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(other, model, options=first)
    set_optimizer_state_dict(other, second, state, options=first)
    _step(net, optimizer)
    _step(other, second)
    for one, two in zip(net.parameters(), other.parameters()):
        torch.testing.assert_close(two.full_tensor(), one.full_tensor())
    flat = StateDictOptions(flatten_optimizer_state_dict=True)
    state = copy.deepcopy(get_optimizer_state_dict(net, optimizer, options=flat))
    assert "state.0.weight.exp_avg" in state and state["param_groups.0.weight.lr"] == 0.05
    third, last = _wrapped("fsdp", 2)
    set_model_state_dict(third, get_model_state_dict(net))
    set_optimizer_state_dict(third, last, state, options=flat)
    _step(net, optimizer)
    _step(third, last)
    for one, two in zip(net.parameters(), third.parameters()):
        torch.testing.assert_close(two.full_tensor(), one.full_tensor())
    with pytest.raises(ValueError, match="full_state_dict must be True"):
        StateDictOptions(broadcast_from_rank0=True)


def test_whole_states(ranks):
    ranks(_whole_states, 2)


def _submodules(rank):
    net, optimizer = _wrapped("ddp", 0)
    _step(net, optimizer)
    inner = get_model_state_dict(net, submodules={net.module[1]})
    assert list(inner) == [f"1.{name}" for name in _net()[1].state_dict()]
    short = StateDictOptions(keep_submodule_prefixes=False)
    assert list(get_model_state_dict(net, submodules={net.module[3]}, options=short)) == ["weight", "bias"]


def test_states_of_submodules(ranks):
    ranks(_submodules, 2)


def _flat_names(rank, originals):
    """A flat state of an optimizer is that of `FullyShardedDataParallel`, too."""
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    nets = [FullyShardedDataParallel(_net(), use_orig_params=originals) for _ in range(2)]
    optimizers = [torch.optim.AdamW(net.parameters(), lr) for net, lr in zip(nets, (0.05, 0.3))]
    _step(nets[0], optimizers[0])
    model, state = copy.deepcopy(get_state_dict(nets[0], optimizers[0], options=options))
    assert state["state.0.weight.exp_avg"].placements == (Shard(0),) and state["param_groups.0.weight.lr"] == 0.05
    set_state_dict(nets[1], optimizers[1], model_state_dict=model, optim_state_dict=state, options=options)
    for net, optimizer in zip(nets, optimizers):
        _step(net, optimizer)
    for one, two in zip(*(net.parameters() for net in nets)):
        assert torch.equal(one, two)


@pytest.mark.parametrize("originals", [False, True])
def test_flat_names_of_flat_parameters(ranks, originals):
    ranks(_flat_names, 2, originals)


def test_a_checkpoint_of_torch():
    """`data/checkpoint` was written by torch 2.13: ``dcp.save({"m": {"w": ...}, "epoch": 3, "l": [torch.ones(2), 5]})``."""
    folder = Path(__file__).resolve().parent.parent / "data" / "checkpoint"
    state = {"m": {"w": torch.zeros(2, 3)}, "epoch": 0, "l": [torch.zeros(2), 0]}
    dcp.load(state, checkpoint_id=folder)
    assert state["m"]["w"].tolist() == [[0, 1, 2], [3, 4, 5]] and state["epoch"] == 3
    assert state["l"][0].tolist() == [1, 1] and state["l"][1] == 5


def test_names_in_files_are_those_of_torch(tmp_path):
    dcp.save({"x": _whole(), "n": 1}, checkpoint_id=tmp_path)
    data = (tmp_path / ".metadata").read_bytes()
    assert b"rushlight" not in data and b"torch.distributed.checkpoint.metadata\nTensorStorageMetadata" in data


def _stage(rank, folder):
    weight = torch.arange(3.0)
    stager = staging.DefaultStager(staging.StagingOptions(False, True, True, False))
    response = dcp.async_save({"weight": weight}, checkpoint_id=folder, async_stager=stager)
    # The copy exists, because the stager asks for that.
    assert response.staging_completion.result(20) is None
    weight += 1
    response.upload_completion.result(20)
    state = {"weight": torch.zeros(3)}
    dcp.load(state, checkpoint_id=folder)
    stager.close()
    return state["weight"].tolist()


def test_copies_in_the_background(ranks, tmp_path):
    assert ranks(_stage, 2, str(tmp_path / "checkpoint")) == [[0.0, 1.0, 2.0]] * 2


class _Stager:
    """A program's own, which fails in a thread."""

    should_synchronize_after_execute = False

    def stage(self, state):
        future = Future()
        future.set_exception(ValueError("no memory"))
        return future

    def synchronize_staging(self):
        raise AssertionError

    close = synchronize_staging


def test_stagers(tmp_path):
    state = {"a": torch.arange(2.0), "b": [torch.ones(1), 3], "c": {"d": torch.zeros(1)}}
    for kept in (False, True):
        stager = staging.BlockingAsyncStager(cache_staged_state_dict=kept)
        first = stager.stage(state)
        state["a"] += 1
        second = stager.stage(state)
        assert torch.equal(second["a"], state["a"]) and second["b"][1] == 3
        assert (first["a"].data_ptr() == second["a"].data_ptr()) is kept
    # Memory is used again only for tensors that fit.
    state["a"] = torch.zeros(5)
    assert torch.equal(stager.stage(state)["a"], state["a"])
    assert isinstance(stager, staging.AsyncStager) and isinstance(dcp.FileSystemWriter(tmp_path), staging.AsyncStager)
    shared = staging.DefaultStager(staging.StagingOptions(False, True, False, False)).stage(state)
    assert shared["a"].is_shared() and shared["b"][0].is_shared() and not state["a"].is_shared()
    response = dcp.async_save(state, checkpoint_id=tmp_path / "failed", async_stager=_Stager())
    for future in (response.staging_completion, response.upload_completion):
        with pytest.raises(ValueError, match="no memory"):
            future.result(20)
    if not torch.cuda.is_available():
        with pytest.raises(AssertionError, match="Non-blocking copy requires"):
            staging.DefaultStager()

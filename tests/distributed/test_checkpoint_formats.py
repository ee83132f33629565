"""Checkpoints in files of the safetensors format and of `torch.save`, and states of optimizers in parts."""

import json
import os

import pytest

import rushlight as torch
import rushlight.distributed.checkpoint as dcp
from rushlight import distributed as dist
from rushlight import safetensors
from rushlight.distributed.checkpoint.format_utils import BroadcastingTorchSaveReader, DynamicMetaLoadPlanner
from rushlight.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

SHARDING = "DCP_SHARDING_INFO"


def _whole():
    return torch.arange(35.0).view(7, 5)


def _header(path):
    with safetensors.safe_open(path) as file:
        return {key: file.get_slice(key).get_shape() for key in file.keys()}, file.metadata()


def test_one_process(tmp_path):
    state = {"a": {"w": _whole(), "n": torch.tensor(3)}, "b": torch.ones(2, dtype=torch.bfloat16)}
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path / "one"))
    assert _header(tmp_path / "one/model-00001-of-00001.safetensors") == (
        {"a.n": [], "a.w": [7, 5], "b": [2]},
        {
            SHARDING: json.dumps(
                {name: {"saved_offsets": at} for name, at in (("a.w", [0, 0]), ("a.n", []), ("b", [0]))}
            ),
            "DCP_VERSION": "1.0",
            "format": "pt",
        },
    )
    mapping = {"a.w": 1, "a.n": 2, "b": 2}
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path / "two", mapping))
    assert json.loads((tmp_path / "two/model.safetensors.index.json").read_text()) == {
        "metadata": {"total_size": 152},
        "weight_map": {name: f"model-{number:05}-of-00002.safetensors" for name, number in mapping.items()},
    }
    for folder in ("one", "two"):
        found = {"a": {"w": torch.zeros(7, 5), "n": torch.tensor(0)}, "b": torch.zeros(2)}
        dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(tmp_path / folder))
        assert torch.equal(found["a"]["w"], _whole()) and found["a"]["n"] == 3 and found["b"].tolist() == [1, 1]


def test_what_files_of_safetensors_cannot_have(tmp_path):
    with pytest.raises(dcp.CheckpointException, match="x is no tensor, and files of safetensors have nothing else"):
        dcp.save({"x": 3}, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path))
    with pytest.raises(dcp.CheckpointException, match="KeyError: 'b'"):
        state = {"a": torch.ones(1), "b": torch.ones(1)}
        dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path, {"a": 1}))
    with pytest.raises(dcp.CheckpointException, match="Missing key in checkpoint state_dict: c"):
        dcp.load({"c": torch.ones(1)}, storage_reader=dcp.HuggingFaceStorageReader(tmp_path))


def _parts(rank, folder):
    mesh = dist.init_device_mesh("cpu", (2,))
    rows, columns = (distribute_tensor(_whole(), mesh, [Shard(dim)]) for dim in (0, 1))
    state = {"rows": rows, "columns": columns, "copy": torch.ones(2)}
    with pytest.raises(dcp.CheckpointException, match="several ranks have tensors to write"):
        dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(f"{folder}/refused"))
    writers = {
        "parts": {},
        "mapped": {"fqn_to_index_mapping": {"rows": 1, "columns": 2, "copy": 1}},
        "consolidated": {"enable_consolidation": True, "fqn_to_index_mapping": {"rows": 1, "columns": 2, "copy": 1}},
    }
    for name, options in writers.items():
        writer = dcp.HuggingFaceStorageWriter(f"{folder}/{name}", save_distributed=True, **options)
        dcp.save(state, storage_writer=writer)
        found = {"rows": torch.zeros(7, 5), "columns": distribute_tensor(torch.zeros(7, 5), mesh, [Shard(0)])}
        dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(f"{folder}/{name}"))
        assert torch.equal(found["rows"], _whole()) and torch.equal(found["columns"].full_tensor(), _whole())


def test_parts_of_several_ranks(ranks, tmp_path):
    ranks(_parts, 2, str(tmp_path))
    assert sorted(os.listdir(tmp_path / "parts")) == [
        f"shard-0000{rank}-model-00001-of-00001.safetensors" for rank in (1, 2)
    ]
    shapes, metadata = _header(tmp_path / "parts/shard-00002-model-00001-of-00001.safetensors")
    assert shapes["rows"] == [3, 5] and shapes["columns"] == [7, 2]
    offsets = json.loads(metadata[SHARDING])
    assert offsets["rows"] == {"saved_offsets": [4, 0]} and offsets["columns"] == {"saved_offsets": [0, 3]}
    assert len(os.listdir(tmp_path / "mapped")) == 4 and len(os.listdir(tmp_path / "consolidated/sharded")) == 4
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    assert sorted(os.listdir(tmp_path / "consolidated")) == [*names, "model.safetensors.index.json", "sharded"]
    found = safetensors.load_file(tmp_path / "consolidated" / names[0])
    assert sorted(found) == ["copy", "rows"] and torch.equal(found["rows"], _whole())
    index = json.loads((tmp_path / "consolidated/model.safetensors.index.json").read_text())
    assert index["weight_map"] == {"rows": names[0], "copy": names[0], "columns": names[1]}
    assert index["metadata"] == {"total_size": 4 * 72}


def _quantized(rank, folder, numbers, four_bits):
    mesh = dist.init_device_mesh("cpu", (2,))
    for dtype in (torch.float32, torch.bfloat16):
        state = {
            "l.weight": distribute_tensor(torch.zeros(5, 7, dtype=dtype), mesh, [Shard(1)]),
            "e.w_blocks": distribute_tensor(torch.zeros(2, 3, 128, dtype=dtype), mesh, [Shard(2)]),
            "l.bias": torch.zeros(5),
        }
        reader = dcp.QuantizedHuggingFaceStorageReader(folder, target_dtype=dtype, block_size=2)
        dcp.load(state, storage_reader=reader)
        torch.testing.assert_close(state["l.weight"].full_tensor(), numbers.to(dtype), rtol=0, atol=0)
        torch.testing.assert_close(state["e.w_blocks"].full_tensor(), four_bits.to(dtype), rtol=0, atol=0)
        assert state["l.bias"].tolist() == [1] * 5


def test_quantized_weights(ranks, tmp_path):
    torch.manual_seed(0)
    weight = torch.randn(5, 7).to(torch.float8_e4m3fn)
    scales = torch.arange(1.0, 13.0).view(3, 4)
    blocks = torch.randint(0, 256, (2, 3, 4, 16), dtype=torch.uint8)
    exponents = torch.randint(120, 134, (2, 3, 4), dtype=torch.uint8)
    tensors = {"l.weight": weight, "l.bias": torch.ones(5), "e.w_blocks": blocks, "e.w_scales": exponents}
    safetensors.save_file(tensors, tmp_path / "model-1.safetensors")
    safetensors.save_file({"l.weight_scale_inv": scales}, tmp_path / "model-2.safetensors")  # may lie in another file
    factors = scales.repeat_interleave(2, 0)[:5].repeat_interleave(2, 1)[:, :7]
    magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    table = [*magnitudes, *(-one for one in magnitudes)]
    four_bits = [
        table[nibble] * 2.0 ** (exponent - 127)
        for line, exponent in zip(blocks.view(-1, 16).tolist(), exponents.view(-1).tolist())
        for byte in line
        for nibble in (byte % 16, byte // 16)
    ]
    ranks(_quantized, 2, str(tmp_path), weight.float() * factors, torch.tensor(four_bits).view(2, 3, 128))
    with pytest.raises(
        dcp.CheckpointException, match=r"has shape \(3, 4\), and l.weight has \(5, 7\) blocks of 1 rows"
    ):
        reader = dcp.QuantizedHuggingFaceStorageReader(tmp_path, block_size=1)
        dcp.load({"l.weight": torch.zeros(5, 7)}, storage_reader=reader)


def _from_one_file(rank, file):
    mesh = dist.init_device_mesh("cpu", (3,))
    for coordinator in (0, 2):
        # One row: two ranks have no part of it.
        state = {
            "model": {
                "rows": distribute_tensor(torch.zeros(7, 5), mesh, [Shard(0)]),
                "row": distribute_tensor(torch.zeros(1, 5), mesh, [Shard(0)]),
            },
            "copy": torch.zeros(2),
        }
        reader, planner = BroadcastingTorchSaveReader(coordinator_rank=coordinator), DynamicMetaLoadPlanner()
        dcp.load(state, storage_reader=reader, planner=planner, checkpoint_id=file)
        assert torch.equal(state["model"]["rows"].full_tensor(), _whole()) and state["copy"].tolist() == [1, 1]
        assert state["model"]["row"].full_tensor().tolist() == [[2.0] * 5]
        for wrong, sentence in (
            ({"none": torch.zeros(1)}, "has no tensor none"),
            ({"copy": torch.zeros(3)}, r"copy has shape \(2,\) in the file, and \(3,\) in the state"),
            (
                {"x": 3},
                "Non-tensor value identified at x. At this time DynamicMetaLoadPlanner only supports loading Tensors.",
            ),
        ):
            with pytest.raises(dcp.CheckpointException, match=sentence):
                dcp.load(wrong, storage_reader=reader, planner=DynamicMetaLoadPlanner(), checkpoint_id=file)


def test_one_file_for_all_ranks(ranks, tmp_path):
    state = {"model": {"rows": _whole().double(), "row": torch.full((1, 5), 2.0)}, "copy": torch.ones(2), "step": 3}
    torch.save(state, tmp_path / "one.pt")
    ranks(_from_one_file, 3, str(tmp_path / "one.pt"))


def _optimizer(rank, folder):
    mesh = dist.init_device_mesh("cpu", (2,))
    model = {"w": distribute_tensor(_whole(), mesh, [Shard(0)]), "b": torch.ones(3)}
    moment, step = distribute_tensor(_whole() * 2, mesh, [Shard(0)]), torch.tensor(4.0)
    state = {"w": {"exp_avg": moment, "step": step}, "b": {"exp_avg": torch.ones(3) * 5, "step": step}}
    optimizer = {"state": state, "param_groups": [{"lr": 0.1, "params": ["w", "b"]}]}
    dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=folder)
    for placement in (Shard(0), Shard(1), Replicate()):
        wanted = {"w": distribute_tensor(torch.zeros(7, 5), mesh, [placement]), "b": torch.zeros(3)}
        found = dcp.load_sharded_optimizer_state_dict(wanted, "optimizer", dcp.FileSystemReader(folder))
        assert list(found) == ["optimizer"] and found["optimizer"]["param_groups"] == optimizer["param_groups"]
        found = found["optimizer"]["state"]
        assert isinstance(found["w"]["exp_avg"], DTensor) and found["w"]["exp_avg"].placements == (placement,)
        assert torch.equal(found["w"]["exp_avg"].full_tensor(), _whole() * 2) and found["w"]["step"] == 4
        assert found["b"]["exp_avg"].tolist() == [5, 5, 5] and not isinstance(found["b"]["exp_avg"], DTensor)


def test_states_of_an_optimizer_have_the_parts_of_the_model(ranks, tmp_path):
    ranks(_optimizer, 2, str(tmp_path))

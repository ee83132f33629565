"""safetensors and npz in both directions, and the output of `python -m rushlight inspect`."""

import io
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import npz, safetensors
from rushlight._checkpoint import rebuild
from rushlight._checkpoint.inspect import inspect
from rushlight._checkpoint.pickler import Global

np = pytest.importorskip("numpy")
DATA = Path(__file__).parent / "data"

TENSORS = {
    "matrix": torch.arange(6.0).reshape(2, 3),
    "turned": torch.arange(6, dtype=torch.int16).reshape(2, 3).t(),
    "scalar": torch.tensor(2.5, dtype=torch.float64),
    "empty": torch.zeros(0, 3, dtype=torch.int64),
    "flags": torch.tensor([True, False]),
    "half": torch.tensor([1.5, -2.0], dtype=torch.float16),
    "complex": torch.tensor([1 + 2j]),
    "backwards": torch.arange(4, dtype=torch.uint8)[::-1],
}


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


@pytest.mark.parametrize("form", [safetensors, npz])
def test_round_trip(form, tmp_path):
    path = tmp_path / "tensors"
    form.save_file(TENSORS, path)
    same(form.load_file(path), TENSORS)
    same(form.load(form.save(TENSORS)), TENSORS)
    assert [file.name for file in tmp_path.iterdir()] == ["tensors"]
    with pytest.raises(ValueError):
        form.save({"a": 1})


def test_safetensors_is_laid_out_as_by_its_own_library():
    tensors = {"b": torch.tensor([1, 2], dtype=torch.uint8), "a": torch.tensor([1.0]), "c": torch.ones(1).bfloat16()}
    assert safetensors.save(tensors, {"format": "pt"}) == (
        b"\xc0\0\0\0\0\0\0\0"
        b'{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
        b'"c":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]},"b":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}}'
        b" \0\0\x80?\x80?\x01\x02"
    )


def test_safetensors_of_a_storage_that_has_shrunk(tmp_path):
    x = torch.arange(10.0)
    x.untyped_storage().resize_(4)
    safetensors.save_file({"a": x, "b": torch.ones(2)}, tmp_path / "x.safetensors")
    loaded = safetensors.load_file(tmp_path / "x.safetensors")
    assert loaded["a"].tolist() == list(range(10)) and loaded["b"].tolist() == [1, 1]


def test_an_open_file(tmp_path):
    path = tmp_path / "tensors"
    safetensors.save_file(TENSORS, path, {"epoch": "3"})
    with safetensors.safe_open(path, framework="pt") as file:
        assert file.keys() == sorted(TENSORS) and file.metadata() == {"epoch": "3"}
        assert torch.equal(file.get_tensor("half"), TENSORS["half"])
        with pytest.raises(safetensors.SafetensorError, match=r"does not contain tensor other"):
            file.get_tensor("other")
        assert sorted(file.offset_keys()) == list(file.get_tensors()) == file.keys()


def test_a_part_of_a_tensor(tmp_path):
    path = tmp_path / "tensors"
    tensors = {"block": torch.arange(24).reshape(4, 3, 2), "empty": torch.zeros(0, 3), "number": torch.tensor(2.0)}
    safetensors.save_file(tensors, path)
    rows = slice(1, 3)
    with safetensors.safe_open(path) as file:
        block = file.get_slice("block")
        assert (block.get_shape(), block.get_dtype()) == ([4, 3, 2], "I64")
        for index in (rows, (rows, 1), (rows, ..., 0), slice(-1, 9), slice(3, 1), slice(0, 4, 2), 2, [0, 1], (), None):
            assert torch.equal(block[index], tensors["block"][index])
        assert block[rows].untyped_storage().nbytes() == 2 * 3 * 2 * 8
        assert file.get_slice("empty")[:2].shape == (0, 3) and file.get_slice("number")[...] == 2
        for wrong in (4, (0, 0, 0, 0)):
            with pytest.raises(IndexError):
                block[wrong]
        with pytest.raises(safetensors.SafetensorError, match="does not contain tensor other"):
            file.get_slice("other")


@pytest.mark.parametrize("form", [safetensors, npz])
def test_a_name_where_bytes_are_asked_for(form):
    with pytest.raises(TypeError, match=r"use load_file\(\) for a path"):
        form.load("tensors")


def test_a_name_where_a_flag_is_asked_for(tmp_path):
    path = tmp_path / "x.npz"
    for name in (path, str(path)):
        with pytest.raises(TypeError, match=r"use save_file\(\) for a path"):
            npz.save(TENSORS, name)
        with pytest.raises(TypeError, match=r"use save_file\(\) for a path"):
            safetensors.save(TENSORS, name)
    with pytest.raises(TypeError, match="compress must be a bool"):
        npz.save_file(TENSORS, path, "yes")
    assert not path.exists()


def test_what_safetensors_cannot_hold():
    whole = torch.ones(4)
    with pytest.raises(RuntimeError, match=r"Some tensors share memory.*'a' and 'b'"):
        safetensors.save({"a": whole, "b": whole[2:]})
    same(safetensors.load(safetensors.save({"a": whole[:2], "b": whole[2:]})), {"a": whole[:2], "b": whole[2:]})
    with pytest.raises(safetensors.SafetensorError, match=r"no dtype"):
        safetensors.save({"a": torch.zeros(1, dtype=torch.complex128)})


@pytest.mark.parametrize("compress", [False, True])
def test_numpy_reads_npz(compress):
    with np.load(io.BytesIO(npz.save(TENSORS, compress))) as found:
        for name, tensor in TENSORS.items():
            assert np.array_equal(found[name], tensor.numpy()) and found[name].dtype == tensor.numpy().dtype


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_of_numpy(save):
    arrays = {
        "plain": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(24, dtype=np.int32).reshape(2, 3, 4)),
        "big": np.arange(5, dtype=">u4"),
        "big complex": np.array([1 + 2j], dtype=">c16"),
        "scalar": np.float32(3),
        "empty": np.zeros((0, 3)),
    }
    file = io.BytesIO()
    save(file, **arrays)
    found = npz.load(file.getvalue())
    for name, array in arrays.items():
        assert np.array_equal(found[name].numpy(), array), name
    assert found["fortran"].stride() == (1, 2, 6)


def test_npz_refuses_what_is_no_tensor():
    file = io.BytesIO()
    np.savez(file, objects=np.array([{}], dtype=object))
    with pytest.raises(npz.NpzError, match=r"not a tensor dtype"):
        npz.load(file.getvalue())
    with pytest.raises(npz.NpzError, match=r"NumPy has no dtype"):
        npz.save({"a": torch.ones(1).bfloat16()})


_WITHOUT_END = """
import resource
from rushlight import npz

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
try:
    npz.load_file("/dev/zero")
except npz.NpzError as error:
    print(error)
"""


def test_npz_refuses_a_device_without_end():
    done = subprocess.run([sys.executable, "-c", _WITHOUT_END], capture_output=True, text=True)
    assert done.stdout == "the file is empty\n", done.stderr


class Mine:
    pass


class Calls:
    def __reduce__(self):
        return os.listdir, (".",)


def test_inspection(tmp_path):
    path = str(tmp_path / "file")
    torch.save({"model": {"weight": torch.ones(2, 3)}, "steps": [torch.zeros(4).int()]}, path)
    lines = inspect(path)
    assert lines[0].endswith("checkpoint in torch's zip format, 2 storages of 40 bytes")
    assert "  contains only tensors and containers: loading executes no code" in lines
    assert lines[2:] == ["  model.weight: float32 (2, 3)", "  steps.0: int32 (4,)"]
    mine, name = Mine(), f"{Mine.__module__}.Mine"
    mine.own = [torch.zeros(1)]
    torch.save({"mine": mine, "weight": torch.ones(2), "calls": Calls()}, path)
    lines = inspect(path)
    assert "WARNING" in lines[1] and lines[2:4] == [f"    {os.listdir.__module__}.listdir", f"    {name}"]
    assert lines[4:] == [
        f"  mine: {name}, not built",
        "  mine.own.0: float32 (1,)",
        "  weight: float32 (2,)",
        f"  calls: {os.listdir.__module__}.listdir, not built",
    ]
    assert "the format before torch 1.6" in inspect(str(DATA / "legacy.pt"))[0]
    npz.save_file({"a": torch.ones(2)}, path)
    assert inspect(path)[1:] == ["  a: float32 (2,)"]
    columns = torch.ones(2, 3).t().numpy()
    np.savez(path + ".npz", a=columns)
    assert inspect(path + ".npz")[1:] == ["  a: float32 (3, 2), strides (1, 3)"]
    safetensors.save_file({"a": torch.ones(2)}, path, {"k": "v"})
    assert inspect(path)[1:] == ["  metadata k = 'v'", "  a: float32 (2,)"]
    (tmp_path / "file").write_bytes(pickle.dumps(print))
    assert inspect(path)[-1] == "    builtins.print"
    for content in (b"", b"hello", b"\x93NUMPY\x01\x00v\x00{"):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(
            pickle.UnpicklingError, match="^not a checkpoint, a safetensors file, an npz archive or a pickle$"
        ):
            inspect(path)


def test_inspection_of_what_is_no_plain_tensor(tmp_path):
    path = str(tmp_path / "file")
    sparse = torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (4,))
    rows = torch.eye(2).to_sparse_csr()
    torch.save({"sparse": sparse, "rows": rows, "set": {torch.ones(2)}, "bytes": torch.ones(3).untyped_storage()}, path)
    assert inspect(path)[2:] == [
        "  sparse: float32 (4,), sparse with 2 places",
        "  rows: float32 (2, 2), sparse with 2 places",
        "  set.0: float32 (2,)",
        "  bytes: storage of 12 bytes",
    ]


def _sparse_file(path, head, size):
    """A file that is larger than any memory. Its bytes after the header are never written."""
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + size)


def test_inspection_reads_no_data(tmp_path):
    size = 1 << 40
    header = json.dumps({"a": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    path = str(tmp_path / "file.safetensors")
    _sparse_file(path, len(header).to_bytes(8, "little") + header, size)
    assert inspect(path)[1:] == [f"  a: float32 ({size // 4},)"]


def test_data_of_the_format_before_torch_1_6_may_be_left_out(monkeypatch):
    monkeypatch.setattr(torch, "UntypedStorage", lambda size: torch.zeros(size, dtype=torch.uint8).untyped_storage())
    with torch.serialization.skip_data():
        assert torch.load(DATA / "legacy.pt")["numbers"].tolist() == [0] * 6


def test_layouts_that_are_none_yet_are_named():
    words = "^the checkpoint contains a tensor of layout torch.jagged, which rushlight does not support yet$"
    with pytest.raises(NotImplementedError, match=words):
        rebuild._rebuild_sparse_tensor(rebuild._get_layout("torch.jagged"), ((), (), ()))


def test_dtypes_that_are_none_yet_are_named():
    storage = torch.storage.TypedStorage(4, dtype=torch.uint8)
    with pytest.raises(
        NotImplementedError, match="^the checkpoint contains a tensor of torch.float4_e2m1fn_x2, which rushlight"
    ):
        rebuild._rebuild_tensor_v3(storage, 0, (4,), (1,), False, None, Global("torch", "float4_e2m1fn_x2"))


def test_the_command(tmp_path):
    path = tmp_path / "file.pt"
    torch.save(torch.ones(2), path)
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(safetensors.save({"a": torch.ones(2)})[:-1])
    command = [sys.executable, "-m", "rushlight", "inspect", str(path), str(damaged), str(tmp_path / "absent")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "the object itself: float32 (2,)" in done.stdout
    first, second = done.stderr.splitlines()
    assert first.startswith(f"{damaged}: Error while deserializing header")
    assert second == f"{tmp_path / 'absent'}: No such file or directory"

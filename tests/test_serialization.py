"""Checkpoints: files of torch are read bit for bit, written files equal torch's, and nothing in a file is executed.

torch 2.13 wrote the files in `tests/data`.
"""

import collections
import copy
import io
import mmap
import os
import pathlib
import pickle
import re
import struct
import subprocess
import sys
import warnings
import zipfile

import pytest

import rushlight as torch
from rushlight._checkpoint import locations
from rushlight._checkpoint.pickler import Pickler, named
from rushlight.serialization import get_safe_globals, get_unsafe_globals_in_checkpoint, load, safe_globals, save
from rushlight.utils.serialization import config

DATA = pathlib.Path(__file__).parent / "data"


def round_trip(obj, **options):
    file = io.BytesIO()
    save(obj, file, **options)
    file.seek(0)
    return load(file)


def checkpoint(pickled, **records):
    """A file object that contains this pickle."""
    contents = {"data.pkl": pickled, "version": b"3\n", "byteorder": b"little", **records}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(f"archive/{name}", content)
    file.seek(0)
    return file


# --- reading torch's files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"mmap": True}, {"weights_only": False}])
def test_a_state_dict_of_torch(options):
    state = load(DATA / "linear.pt", **options)
    assert type(state) is collections.OrderedDict and state._metadata[""] == {"version": 1}
    # nn.Linear(3, 2) after manual_seed(0)
    weight = [-0.004322517663240433, 0.3097158372402191, -0.4751853346824646]
    assert state["weight"][0].tolist() == weight
    assert state["weight"].shape == (2, 3) and state["bias"].shape == (2,)


@pytest.mark.parametrize("options", [{}, {"mmap": True}, {"weights_only": False}])
def test_everything_a_checkpoint_may_hold(options):
    found = load(DATA / "nested.pt", **options)
    assert found["list"] == [
        None,
        True,
        False,
        1,
        -5,
        2**70,
        1.5,
        "text",
        b"bytes",
        (1,),
        (),
        {1, 2},
        1j,
        bytearray(b"ab"),
    ]
    assert found["size"] == torch.Size([1, 2]) and isinstance(found["size"], torch.Size)
    assert found["dtype"] is torch.float16 and found["device"] == torch.device("cpu")
    assert found["ordered"] == collections.OrderedDict(a=1, b=[2])
    assert found["counter"] == collections.Counter("aab") and type(found["counter"]) is collections.Counter
    assert isinstance(found["parameter"], torch.nn.Parameter) and found["parameter"].tolist() == [1, 1]
    assert found["grad"].requires_grad and not found["numbers"].requires_grad
    assert found["empty"].shape == (0, 3)
    for name, dtype, values in [
        ("bool", torch.bool, [True, False]),
        ("half", torch.bfloat16, [1.5]),
        ("uint16", torch.uint16, [7, 65535]),
        ("complex", torch.complex64, [1 + 2j]),
        ("scalar", torch.int64, 3),
        ("transposed", torch.int64, [[0, 3], [1, 4], [2, 5]]),
    ]:
        assert found[name].dtype is dtype and found[name].tolist() == values
    assert found["transposed"].stride() == (1, 3)
    # A view of a shared storage.
    found["odd"] *= 2
    assert found["numbers"].tolist() == [0, 2, 2, 6, 4, 10]


@pytest.mark.parametrize("options", [{}, {"weights_only": False}])
def test_the_format_before_1_6(options):
    found = load(DATA / "legacy.pt", **options)
    assert found["numbers"].tolist() == [0, 1, 2, 3, 4, 5] and found["text"] == "x"
    assert isinstance(found["parameter"], torch.nn.Parameter)
    found["odd"] += 10
    assert found["numbers"].tolist() == [0, 11, 2, 13, 4, 15]


@pytest.mark.parametrize("options", [{}, {"weights_only": False}])
def test_files_of_that_format_may_follow_each_other(options):
    one = (DATA / "legacy.pt").read_bytes()
    for first in (b"", b"before"):
        file = io.BytesIO(first + one + one + b"behind")
        file.seek(len(first))
        assert str(load(file, **options)) == str(load(file, **options))
        assert file.read() == b"behind"


@pytest.mark.parametrize("options", [{}, {"weights_only": False}])
def test_a_storage_that_is_not_there(options):
    whole = (DATA / "legacy.pt").read_bytes()
    key = re.search(rb"FloatStorage\n.{0,40}?(\d{8,})", whole, re.DOTALL)[1]
    with pytest.raises(RuntimeError, match="does not contain its storage"):
        load(io.BytesIO(whole.replace(key, key[::-1], 1)), **options)


def made_of_numbers():
    """Tensors whose making reads numbers of other tensors: indices, scales, sizes."""
    scales, points = torch.tensor([0.5, 2.0]), torch.tensor([0, 1])
    with warnings.catch_warnings(action="ignore"):
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    return {
        "coo": torch.eye(3).to_sparse(),
        "csr": torch.eye(3).to_sparse_csr(),
        "channels": torch.quantize_per_channel(torch.ones(2, 2), scales, points, 0, torch.quint8),
        "nested": nested,
    }


@pytest.mark.parametrize("name", made_of_numbers())
def test_tensors_made_of_numbers_that_lie_behind_them(name):
    file = io.BytesIO()
    save(made_of_numbers()[name], file, _use_new_zipfile_serialization=False)
    file.seek(0)
    # Memory that was used before: what is read of it is wrong.
    used = [torch.full((count,), -1) for count in range(1, 10)]
    del used
    assert str(load(file, weights_only=False)) == str(made_of_numbers()[name])


def test_a_file_of_that_format_with_a_fault_runs_nothing():
    class Harmful:
        def __reduce__(self):
            return exec, ("import rushlight; rushlight.ran = True",)

    file = io.BytesIO()
    save([Harmful(), torch.ones(3)], file, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="unexpected EOF"):
        load(io.BytesIO(file.getvalue()[:-1]), weights_only=False)
    assert not hasattr(torch, "ran")


# --- writing torch's files -------------------------------------------------------------------------------------------


def test_the_file_is_torchs_file(tmp_path):
    path = tmp_path / "linear.pt"
    save(load(DATA / "linear.pt"), path)
    ours, theirs = path.read_bytes(), (DATA / "linear.pt").read_bytes()
    name = b"serialization_id"
    # Everything except the id, which is any 40 digits, and the bytes that depend on it.
    assert ours[: ours.index(name)] == theirs[: theirs.index(name)]
    assert len(ours) == len(theirs)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "linear/data.pkl"
        assert len(archive.read("linear/.data/serialization_id")) == 40


def test_a_nested_file_is_torchs_file():
    file = io.BytesIO()
    save(load(DATA / "nested.pt"), file)
    ours = zipfile.ZipFile(file)
    with zipfile.ZipFile(DATA / "nested.pt") as theirs:
        for name in theirs.namelist():
            # The pickle depends on which equal strings are the same object.
            if not name.endswith(("serialization_id", "data.pkl")):
                assert ours.read(name.replace("nested/", "archive/")) == theirs.read(name), name


def test_round_trip_of_values():
    plain = {"a": [1, -1, 2**100, None, True], "b": ("x", b"y", 1.5, float("inf")), 3: {4, 5}}
    assert round_trip(plain) == plain
    shared = [1]
    first, second = round_trip([shared, shared])
    assert first is second
    loop = []
    loop.append(loop)
    assert round_trip(loop)[0] is not None
    one, two = round_trip([tensor := torch.ones(2), tensor])
    assert one is two


def test_views_share_one_storage():
    numbers = torch.arange(10.0)
    file = io.BytesIO()
    save({"numbers": numbers, "evens": numbers[1::2]}, file)
    with zipfile.ZipFile(file) as archive:
        assert [name for name in archive.namelist() if name.startswith("archive/data/")] == ["archive/data/0"]
    file.seek(0)
    found = load(file)
    found["evens"].mul_(2)
    assert found["numbers"].tolist() == [0, 2, 2, 6, 4, 10, 6, 14, 8, 18]


def test_a_small_view_brings_its_storage_along_unless_compact():
    view = torch.zeros(10_000)[:2]
    large, small = io.BytesIO(), io.BytesIO()
    save(view, large)
    save(view, small, compact=True)
    assert len(large.getvalue()) > 40_000 > 4_000 > len(small.getvalue())
    small.seek(0)
    assert load(small).tolist() == [0, 0]


def test_a_storage_of_two_types_is_refused():
    numbers = torch.zeros(4)
    with pytest.raises(RuntimeError, match=r"Cannot save multiple tensors or storages that view the same data as diff"):
        save([numbers, numbers.view(torch.int32)], io.BytesIO())


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_are_saved_with_their_tensors():
    """As in torch: typed storages, and bytes if no dtype is given."""
    values = torch.arange(3.0)
    typed, tensor = round_trip([values.storage(), values])
    assert typed.dtype == torch.float32 and typed.tolist() == [0, 1, 2] and typed.data_ptr() == tensor.data_ptr()
    assert round_trip(values.untyped_storage()).tolist() == list(values.untyped_storage())


def test_a_model_round_trip():
    first, second = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    assert str(second.load_state_dict(round_trip(first.state_dict()))) == "<All keys matched successfully>"
    assert second.weight.tolist() == first.weight.tolist()


def test_a_file_that_takes_little_at_a_time():
    class Narrow(io.BytesIO):
        def write(self, data):
            return super().write(data[:100])

    narrow, wide = Narrow(), io.BytesIO()
    torch.save(torch.arange(1000), narrow)
    torch.save(torch.arange(1000), wide)
    assert narrow.getvalue() == wide.getvalue()


class Tagged(torch.Tensor):
    """A tensor that defines how it is pickled."""

    def __reduce_ex__(self, protocol):
        return torch.nn.Parameter, (self.as_subclass(torch.Tensor),)


def test_a_subclass_may_say_how_it_is_saved():
    found = round_trip(torch.ones(2).as_subclass(Tagged))
    assert type(found) is torch.nn.Parameter and found.tolist() == [1, 1]


def test_functions_have_torchs_names():
    functions = [torch.nn.functional.interpolate, torch.nn.init.xavier_uniform_, torch.einsum, torch.nn.Linear.forward]
    file = io.BytesIO()
    save(functions, file)
    file.seek(0)
    assert load(file, weights_only=False) == functions
    file.seek(0)
    assert set(get_unsafe_globals_in_checkpoint(file)) == {
        "torch.nn.functional.interpolate",
        "torch.nn.init.xavier_uniform_",
        "torch.functional.einsum",
        "torch.nn.modules.linear.Linear",
        "__builtin__.getattr",
    }


def test_a_memory_format_of_torchs():
    file = checkpoint(b"\x80\x04\x8c\x0ctorch._utils\x8c\x13torch.channels_last\x93.")
    assert load(file, weights_only=False) is torch.channels_last


def test_what_has_no_name_elsewhere():
    """torch 2.13 raises `AttributeError` up to Python 3.13, and `PicklingError` from 3.14."""

    class Local:
        pass

    for nameless, name in ((lambda: 3, "<lambda>"), (Local, "Local"), ([Local()], "Local")):
        for kind in (AttributeError, pickle.PicklingError):
            with pytest.raises(kind, match=rf"Can't pickle local object '.*<locals>\.{name}'"):
                save(nameless, io.BytesIO())


def test_where_one_cannot_write(tmp_path):
    with pytest.raises(RuntimeError, match=r"^Parent directory .*/no does not exist\."):
        save(1, tmp_path / "no" / "a.pt")
    with pytest.raises(AttributeError, match=r"expected 'f' to be string, path, or a file-like object with a 'write'"):
        save(1, 3)


# --- devices of storages ----------------------------------------------------------------------------------------


def test_map_location():
    seen = []

    def remember(storage, location):
        seen.append(location)
        return storage

    assert load(DATA / "linear.pt", map_location=remember)["bias"].shape == (2,)
    assert seen == ["cpu", "cpu"]
    for place in ("cpu", torch.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: None):
        assert load(DATA / "linear.pt", map_location=place)["weight"].device.type == "cpu"
    with pytest.raises(RuntimeError, match=r"don't know how to restore data location of .* \(tagged with moon\)"):
        load(DATA / "linear.pt", map_location="moon")


def test_mapped_tensors_are_private(tmp_path):
    path = tmp_path / "a.pt"
    save(torch.zeros(1000), path)
    before = path.read_bytes()
    mapped = load(path, mmap=True)
    mapped += 1
    assert mapped.sum().item() == 1000 and path.read_bytes() == before
    with pytest.raises(ValueError, match=r"f must be a file path in order to use the mmap argument"):
        load(io.BytesIO(before), mmap=True)
    with pytest.raises(RuntimeError, match=r"mmap can only be used with files saved with"):
        load(DATA / "legacy.pt", mmap=True)


# --- no execution of code ----------------------------------------------------------------------------------------


class Mine:
    def __init__(self):
        self.value = 1


def test_globals_are_refused_by_name():
    file = io.BytesIO()
    save(Mine(), file)
    name = f"{Mine.__module__}.Mine"
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError) as info:
        load(file)
    text = str(info.value)
    assert text.startswith("Weights only load failed. This file can still be loaded, to do so you have two options")
    assert f"Unsupported global: GLOBAL {name} was not an allowed global by default." in text
    assert f"torch.serialization.add_safe_globals([{name}])" in text
    file.seek(0)
    assert get_unsafe_globals_in_checkpoint(file) == [name]
    file.seek(0)
    with safe_globals([Mine]):
        assert load(file).value == 1
        assert get_safe_globals() == [Mine]
    assert get_safe_globals() == []
    file.seek(0)
    assert load(file, weights_only=False).value == 1


def test_hostile_pickles_do_nothing(tmp_path):
    witness = tmp_path / "witness"
    command = f"touch {witness}".encode()
    for module, name in [(b"os", b"system"), (b"posix", b"system"), (b"subprocess", b"getoutput")]:
        hostile = b"\x80\x02c" + module + b"\n" + name + b"\nX" + struct.pack("<I", len(command)) + command + b"\x85R."
        with pytest.raises(pickle.UnpicklingError, match=(module + b"." + name).decode()):
            load(checkpoint(hostile))
        get_unsafe_globals_in_checkpoint(checkpoint(hostile))
    assert not witness.exists()
    with pytest.raises(
        pickle.UnpicklingError, match=r"Trying to load unsupported GLOBAL os.system whose module os is blocked"
    ):
        load(checkpoint(b"\x80\x02cos\nsystem\n."))


def describe(size, stride, offset=0, elements=2):
    """A pickle of a tensor over a storage of `elements` floats."""

    def tuple_of(numbers):
        return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", number) for number in numbers) + b"t"

    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000"
        b"X\x03\0\0\0cpu\x8a\x08"
        + struct.pack("<q", elements)
        + b"tQ\x8a\x08"
        + struct.pack("<q", offset)
        + tuple_of(size)
        + tuple_of(stride)
        + b"\x89ccollections\nOrderedDict\n)RtR."
    )


def test_the_names_that_every_checkpoint_may_use_are_found():
    from rushlight._checkpoint.rebuild import find_known
    from rushlight._checkpoint.storage_classes import STORAGE_DTYPES, StorageClass

    for module, name, found in [
        ("collections", "OrderedDict", collections.OrderedDict),
        ("__builtin__", "dict", dict),
        ("torch", "Size", torch.Size),
        ("torch", "bfloat16", torch.bfloat16),
        ("torch", "float8_e5m2", torch.float8_e5m2),
        ("torch", "HalfStorage", StorageClass(torch.float16)),
        ("torch", "UntypedStorage", StorageClass(torch.uint8)),
        ("torch.nn.parameter", "Parameter", torch.nn.Parameter),
        ("torch._utils", "_rebuild_parameter", torch._utils._rebuild_parameter),
    ]:
        assert find_known(module, name) == found
    for module, name in [
        ("torch._tensor", "_rebuild_from_type_v2"),
        ("torch._utils", "_rebuild_meta_tensor_no_storage"),
        ("torch._utils", "_rebuild_parameter_with_state"),
        ("torch._utils", "_rebuild_sparse_tensor"),
        ("torch._utils", "_rebuild_tensor"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch._utils", "_rebuild_tensor_v3"),
        ("torch.serialization", "_get_layout"),
    ]:
        assert find_known(module, name).__name__ == name
    # Of a dtype that is not there yet a file knows the name alone.
    assert find_known("torch", "float4_e2m1fn_x2") is None
    for module, name in [("os", "system"), ("builtins", "eval"), ("torch", "load"), ("torch._utils", "set_state")]:
        assert find_known(module, name) is None
    assert all(getattr(torch, dtype).itemsize > 0 for dtype in STORAGE_DTYPES.values())


def test_a_tensor_cannot_reach_beyond_its_storage():
    storage = {"data/0": struct.pack("<2f", 1, 2)}
    assert load(checkpoint(describe([2], [1]), **storage)).tolist() == [1, 2]
    outside = "are out of bounds for storage of size 8"
    for size, stride, offset, message in [
        ([3], [1], 0, outside),
        ([2], [1], 1, outside),
        ([2], [2], 0, outside),
        ([2], [-1], 1, "impossible tensor"),
        ([-2], [1], 0, "numel: integer multiplication overflow"),
        ([1 << 40], [1], 0, outside),
        ([2, 1 << 61], [1, 1 << 2], 0, outside),
        ([2, 1 << 62], [1, 1], 0, "numel: integer multiplication overflow"),
        ([2], [1, 1], 0, r"unequal size length \(1\) and stride length \(2\)"),
        ([1], [1], -1, "invalid storage offset -1"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            load(checkpoint(describe(size, stride, offset), **storage))
    with pytest.raises(RuntimeError, match=r"record size \(8 bytes\) does not match expected size \(12 bytes"):
        load(checkpoint(describe([2], [1], elements=3), **storage))
    with pytest.raises(RuntimeError, match=r"PytorchStreamReader failed locating file data/0: file not found"):
        load(checkpoint(describe([2], [1])))


# --- damaged files -------------------------------------------------------------------------------------------------


def test_truncated_anywhere(tmp_path):
    whole = (DATA / "linear.pt").read_bytes()
    path = tmp_path / "broken.pt"
    for length in range(0, len(whole), 7):
        for source in (io.BytesIO(whole[:length]), path):
            path.write_bytes(whole[:length])
            with pytest.raises((EOFError, RuntimeError, pickle.UnpicklingError)):
                load(source)
    with pytest.raises(
        RuntimeError, match=r"^PytorchStreamReader failed reading zip archive: failed finding central dir"
    ):
        load(io.BytesIO(whole[:-5]))
    with pytest.raises(EOFError):
        load(io.BytesIO(b""))
    old = (DATA / "legacy.pt").read_bytes()
    for length in range(0, len(old), 5):
        with pytest.raises((EOFError, RuntimeError, pickle.UnpicklingError)):
            load(io.BytesIO(old[:length]))


def test_files_that_are_no_checkpoints(tmp_path):
    path = tmp_path / "text.pt"
    path.write_text("hello world, this is not a checkpoint")
    with pytest.raises(pickle.UnpicklingError, match=r"^Weights only load failed"):
        load(path)
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("a/b", "c")
    other.seek(0)
    with pytest.raises(RuntimeError, match=r'^Expected hasRecord\("version"\) to be true, but got false\.'):
        load(other)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.pt")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    with pytest.raises(AttributeError, match=r"You can only torch.load from a file that is seekable"):
        load(3)


def test_a_flipped_bit_is_noticed():
    whole = bytearray((DATA / "linear.pt").read_bytes())
    with zipfile.ZipFile(DATA / "linear.pt") as archive:
        place = whole.index(archive.read("linear/data/0"))
    whole[place] ^= 1
    with pytest.raises(RuntimeError, match=r"PytorchStreamReader failed reading zip archive: CRC-32 check failed"):
        load(io.BytesIO(bytes(whole)))


def test_arguments():
    with pytest.raises(RuntimeError, match=r"Can not safely load weights when explicit pickle_module is specified"):
        load(DATA / "linear.pt", weights_only=True, pickle_module=pickle)
    assert load(DATA / "linear.pt", pickle_module=pickle)["bias"].shape == (2,)
    with pytest.warns(UserWarning, match=r"pickle_load_args only works if `weights_only=False`"):
        load(DATA / "linear.pt", encoding="latin1")


# --- settings ------------------------------------------------------------------------------------------------------------


def test_storages_are_aligned_as_the_settings_say(tmp_path):
    values = {"a": torch.arange(10.0), "b": torch.arange(3)}
    with config.patch("save.storage_alignment", 4096):
        save(values, tmp_path / "wide.pt")
    archive = zipfile.ZipFile(tmp_path / "wide.pt")
    assert archive.read("wide/.storage_alignment") == b"4096"
    content = (tmp_path / "wide.pt").read_bytes()
    assert content.index(values["a"].numpy().tobytes()) % 4096 == 0
    assert load(tmp_path / "wide.pt", mmap=True)["a"].tolist() == values["a"].tolist()
    for number in (0, 1 << 20, -1, "wide"):
        with pytest.raises((RuntimeError, TypeError, OverflowError)), config.patch("save.storage_alignment", number):
            save(values, io.BytesIO())


def test_settings_are_taken_back():
    assert config.load.mmap is False
    with pytest.raises(KeyError), config.patch({"load.mmap": True, "save.compute_crc32": False}):
        assert config.load.mmap is True and not torch.serialization.get_crc32_options()
        raise KeyError
    assert config.load.mmap is False and torch.serialization.get_crc32_options()
    with pytest.raises(AttributeError, match=r"no setting 'load\.map'"), config.patch("load.map", True):
        pass


def test_files_without_checksums(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"a": torch.arange(10.0)}, tmp_path / "x.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        assert {record.CRC for record in archive.infolist()} == {0}
    for mapped in (False, True):
        assert torch.load(tmp_path / "x.pt", mmap=mapped)["a"].tolist() == list(range(10))


def test_a_mapped_file_may_be_written_to(tmp_path):
    path = tmp_path / "model.pt"
    save(torch.zeros(3), path)
    with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        load(path, mmap=True)[1] = 5
        with config.patch("load.mmap", True):
            load(path)[2] = 7
    load(path, mmap=True)[0] = 1
    assert load(path, mmap=True).tolist() == [0, 5, 7]
    assert torch.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    with pytest.raises(ValueError, match=r"MAP_PRIVATE or mmap\.MAP_SHARED"):
        torch.serialization.set_default_mmap_options(0)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_files_of_machines_with_another_byte_order(named, mapped, tmp_path):
    """A file of a big-endian machine: the bytes of each number are reversed, and old versions do not record the order."""
    path = tmp_path / "big.pt"
    save(
        [torch.tensor([1, -2]), torch.tensor([1 + 2j]), torch.tensor([True]), torch.tensor([0.5])], tmp_path / "own.pt"
    )
    units = {"data/0": 8, "data/1": 4, "data/2": 1, "data/3": 4}
    with zipfile.ZipFile(tmp_path / "own.pt") as own, zipfile.ZipFile(path, "w") as other:
        for name in own.namelist():
            record, key = own.read(name), name.partition("/")[2]
            if key in units:
                unit = units[key]
                record = b"".join(record[at : at + unit][::-1] for at in range(0, len(record), unit))
            if key != "byteorder":
                other.writestr(name, record)
            elif named:
                other.writestr(name, b"big")
    before = torch.serialization.get_default_load_endianness()
    try:
        if not named:
            torch.serialization.set_default_load_endianness(torch.serialization.LoadEndianness.BIG)
        found = load(path, mmap=mapped)
    finally:
        torch.serialization.set_default_load_endianness(before)
    assert [tensor.tolist() for tensor in found] == [[1, -2], [1 + 2j], [True], [0.5]]
    with pytest.raises(TypeError):
        torch.serialization.set_default_load_endianness("big")


def test_data_may_be_left_out(tmp_path):
    path, value = tmp_path / "a.pt", torch.arange(1.0, 4.0)
    with torch.serialization.skip_data():
        save(value, path)
    assert load(path).tolist() == [0, 0, 0]
    save(value, path)
    with torch.serialization.skip_data():
        assert load(path).shape == (3,) and load(path, mmap=True).shape == (3,)
    assert load(path).tolist() == [1, 2, 3]


def test_devices_of_others_can_be_named(monkeypatch):
    monkeypatch.setattr(locations, "_registry", list(locations._registry))
    asked = []

    def restore(storage, location):
        asked.append(location)
        return storage if location == "mine" else None

    torch.serialization.register_package(5, lambda storage: "mine" if storage.nbytes() == 8 else None, restore)
    file = io.BytesIO()
    save([torch.zeros(2), torch.ones(3)], file)
    assert b"mine" in zipfile.ZipFile(file).read("archive/data.pkl")
    assert [tensor.tolist() for tensor in load(io.BytesIO(file.getvalue()))] == [[0, 0], [1, 1, 1]]
    assert asked == ["mine", "cpu"]
    with pytest.raises(RuntimeError, match=r"tagged with nowhere"):
        load(io.BytesIO(file.getvalue()), map_location="nowhere")


def test_the_environment_may_force_weights_only(monkeypatch):
    file = io.BytesIO()
    save(Mine(), file)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(pickle.UnpicklingError):
        load(io.BytesIO(file.getvalue()), weights_only=False)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match=r"Only one of"):
        load(io.BytesIO(file.getvalue()))
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    with pytest.warns(UserWarning, match=r"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected"):
        assert isinstance(load(io.BytesIO(file.getvalue())), Mine)
    with pytest.raises(pickle.UnpicklingError):
        load(io.BytesIO(file.getvalue()), weights_only=True)


def test_load_reads_safetensors(tmp_path):
    path = tmp_path / "model.safetensors"
    torch.safetensors.save_file({"a": torch.ones(2)}, path)
    assert load(path)["a"].tolist() == [1, 1] and load(str(path), map_location="cpu")["a"].tolist() == [1, 1]
    for location, kind in ({"cpu": "cpu"}, "dict"), (lambda storage, place: storage, "callable"):
        with pytest.raises(RuntimeError, match=f"with {kind} map_location"):
            load(path, map_location=location)


@pytest.mark.parametrize(
    "call, kind, sentence",
    [
        (lambda: torch.save(1, ""), RuntimeError, "invalid file name: the path is empty"),
        (lambda: torch.save(1, "nowhere/file"), RuntimeError, "Parent directory nowhere does not exist."),
        (lambda: torch.load(io.StringIO("text")), AssertionError, "Expected bytes, got str"),
        (lambda: torch.load(None), AttributeError, "'NoneType' object has no attribute 'seek'"),
    ],
)
def test_files_that_are_none(call, kind, sentence):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("function", [os.system, os.getenv, sys.getsizeof])
def test_no_list_opens_blocked_modules(function):
    class Calls:
        def __reduce__(self):
            return function, ("x",)

    file = io.BytesIO()
    save(Calls(), file)
    module = function.__module__
    with safe_globals([function]), pytest.raises(pickle.UnpicklingError, match=f"whose module {module} is blocked"):
        load(io.BytesIO(file.getvalue()))
    with safe_globals([(function, f"{module}.{function.__name__}")]):
        assert get_unsafe_globals_in_checkpoint(io.BytesIO(file.getvalue())) == [f"{module}.{function.__name__}"]


def test_the_format_before_torch_1_6_is_written_too(tmp_path):
    x = torch.arange(6.0)
    state = {"a": x[1:3], "b": x[2:], "c": torch.nn.Parameter(x), "d": torch.ones(2, dtype=torch.bool), "e": [1, "2"]}
    path = tmp_path / "old.pt"
    save(state, path, _use_new_zipfile_serialization=False)
    assert path.read_bytes().startswith(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.")
    for options in ({}, {"weights_only": False}):
        found = load(path, **options)
        assert str(found) == str(state)
        found["a"][1] = 100
        assert found["b"][0] == 100 and found["c"][2] == 100
    file = io.BytesIO()
    for value in (x, x.int()):
        save(value, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert torch.equal(load(file), x) and torch.equal(load(file, weights_only=False), x.int())
    with pytest.raises(RuntimeError, match="the format before torch 1.6 has no storages without a dtype"):
        save(x.to(torch.uint16), path, _use_new_zipfile_serialization=False)
    assert str(load(path)) == str(state)


def legacy(persistent_ids, obj, keys, storages):
    """A file of the format before torch 1.6, from the persistent id of each storage."""

    class Old(Pickler):
        def persistent_id(self, obj):
            return persistent_ids.get(id(obj))

    file = io.BytesIO()
    for head in (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True}):
        pickle.dump(head, file, 2)
    Old(file, 2, False).dump(obj)
    pickle.dump(keys, file, 2)
    for values in storages:
        file.write(len(values).to_bytes(8, "little") + struct.pack(f"<{len(values)}f", *values))
    file.seek(0)
    return file


def test_slices_of_storages_and_classes_with_their_source():
    """As torch before 0.4 wrote them."""
    first, second, kind = object(), object(), object()
    storage = named("torch", "FloatStorage")
    ids = {
        id(first): ("storage", storage, "7", "cpu", 4, ("70", 1, 2)),
        id(second): ("storage", storage, "7", "cpu", 4, None),
        id(kind): ("module", collections.OrderedDict, "file.py", "class OrderedDict: ..."),
    }
    file = legacy(ids, [first, second, kind], ["7"], [[1.0, 2.0, 3.0, 4.0]])
    part, whole, found = load(file, weights_only=False)
    assert list(part) == [2.0, 3.0] and list(whole) == [1.0, 2.0, 3.0, 4.0] and found is collections.OrderedDict
    part[0] = 20.0
    assert whole[1] == 20.0


@pytest.mark.parametrize("weights_only", [True, False])
def test_slices_of_storages_share_memory(weights_only):
    whole, first, again, other = (object() for _ in range(4))
    storage = ("storage", named("torch", "FloatStorage"), "7", "cpu", 4)
    views = {whole: None, first: ("70", 1, 2), again: ("70", 1, 2), other: ("71", 2, 2)}
    ids = {id(one): (*storage, view) for one, view in views.items()}
    file = legacy(ids, [*views], ["7"], [[1.0, 2.0, 3.0, 4.0]])
    found = load(file, weights_only=weights_only)
    assert [list(one) for one in found] == [[1, 2, 3, 4], [2, 3], [2, 3], [3, 4]]
    found[1][1] = 30.0
    assert (found[0][2], found[2][1], found[3][0]) == (30, 30, 30)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("view", [("70", 3, 2), ("70", -1, 2), ("70", 0, -1), ("70", 2**62, 2**62)])
def test_slices_outside_of_their_storage_are_refused(weights_only, view):
    part = object()
    ids = {id(part): ("storage", named("torch", "FloatStorage"), "7", "cpu", 4, view)}
    file = legacy(ids, [part], ["7"], [[1.0, 2.0, 3.0, 4.0]])
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match="slice"):
        load(file, weights_only=weights_only)


def test_plain_pickles_of_torch(tmp_path):
    """`python -m rushlight` reads what a program pickled with torch, without `torch.save`."""
    script = tmp_path / "program.py"
    script.write_text(
        "import pickle, sys, torch\n"
        "found = pickle.load(open(sys.argv[1], 'rb'))\n"
        "assert found['t'].tolist() == [[0, 3], [1, 4], [2, 5]] and found['t'].stride() == (1, 3)\n"
        "assert found['same'].tolist() == [[0, 1, 2], [3, 4, 5]]\n"
        "assert isinstance(found['p'], torch.nn.Parameter) and found['p'].requires_grad\n"
        "assert isinstance(found['b'], torch.nn.Buffer) and found['b'].tolist() == [True]\n"
        "assert found['sparse'].to_dense().tolist() == [[1, 0], [0, 1]]\n"
        "assert found['meta'].is_meta and found['meta'].shape == (2,)\n"
        "assert type(found['max']) is torch.return_types.max and found['max'].indices.tolist() == [0]\n"
        "assert found['dtype'] is torch.float16 and found['layout'] is torch.strided\n"
        "print(found['linear'])\n"
    )
    command = [sys.executable, "-m", "rushlight", script, DATA / "plain.pickle"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "Linear(in_features=1, out_features=1, bias=True)\n", done.stderr


def test_constants_of_the_formats():
    own = torch.serialization
    assert (own.DEFAULT_PROTOCOL, own.STORAGE_KEY_SEPARATOR, own.MAP_SHARED, own.MAP_PRIVATE) == (2, ",", 1, 2)
    file = io.BytesIO()
    torch.save(torch.ones(1), file, _use_new_zipfile_serialization=False)
    file.seek(0)
    sizes = {"short": own.SHORT_SIZE, "int": own.INT_SIZE, "long": own.LONG_SIZE}
    assert pickle.load(file) == own.MAGIC_NUMBER and pickle.load(file) == own.PROTOCOL_VERSION
    assert pickle.load(file)["type_sizes"] == sizes


def test_views_that_step_back():
    tensor = torch.arange(6.0).reshape(2, 3)[:, ::-1]
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    for found in (torch.load(file), pickle.loads(pickle.dumps(tensor)), copy.deepcopy(tensor)):
        assert torch.equal(found, tensor)

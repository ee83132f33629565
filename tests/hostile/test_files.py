"""Malicious files: loading any file returns a result or raises one of the documented exceptions, and executes no code."""

import io
import json
import pickle
import struct
import zipfile
from pathlib import Path

import pytest
from fuzz_files import findings, readers

import rushlight as torch
from rushlight import npz, safetensors
from rushlight._checkpoint.inspect import inspect
from rushlight.serialization import get_unsafe_globals_in_checkpoint

DATA = Path(__file__).parents[1] / "data"
REFUSED = (RuntimeError, pickle.UnpicklingError, EOFError)


def archive(content, records=(), method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as written:
        written.writestr("archive/data.pkl", content)
        written.writestr("archive/version", "3\n")
        for name, data in dict(records).items():
            written.writestr(f"archive/{name}", data)
    return file.getvalue()


def legacy(content):
    """A pickle in place of the object in the format before torch 1.6."""
    magic, version, facts = 0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}
    return b"".join(pickle.dumps(value, 2) for value in (magic, version, facts)) + content + pickle.dumps([], 2)


# --- pickles that call functions ---------------------------------------------------------------------------------------

TEXT = b"X" + struct.pack("<I", 4) + b"true"
SHORT = b"\x8c"


def stacked(module, name):
    return b"".join(SHORT + bytes([len(part)]) + part for part in (module, name)) + b"\x93"


# Every opcode that calls a function, and every way to name the function.
CALLS = {
    "reduce": b"\x80\x02cos\nsystem\n" + TEXT + b"\x85R.",
    "inst": b"(" + TEXT + b"ios\nsystem\n.",
    "obj": b"(cos\nsystem\n" + TEXT + b"o.",
    "newobj": b"\x80\x02csubprocess\nPopen\n" + TEXT + b"\x85\x81.",
    "newobj_ex": b"\x80\x04" + stacked(b"subprocess", b"Popen") + TEXT + b"\x85}\x92.",
    "stack_global": b"\x80\x04" + stacked(b"os", b"system") + TEXT + b"\x85R.",
    "dotted": b"\x80\x04" + stacked(b"torch", b"serialization.os.system") + TEXT + b"\x85R.",
    "extension": b"\x80\x02\x82\x01.",
    "build": b"\x80\x02ccollections\nOrderedDict\n)R}X\x0b\0\0\0__setstate__cos\nsystem\nsb.",
    "memo": b"\x80\x02cos\nsystem\nq\x000h\x00" + TEXT + b"\x85R.",
    "eval": b"\x80\x02c__builtin__\neval\n" + TEXT + b"\x85R.",
    "getattr": b"\x80\x02c__builtin__\ngetattr\ncos\nsystem\n" + TEXT + b"\x86R.",
    "torch.load": b"\x80\x02ctorch\nload\n" + TEXT + b"\x85R.",
    "torch.hub": b"\x80\x02ctorch.hub\nload\n" + TEXT + b"\x85R.",
    "rushlight's own": b"\x80\x02crushlight._checkpoint.rebuild\nset_state\n" + TEXT + b"\x85R.",
    "numpy": b"\x80\x02cnumpy.f2py.crackfortran\nmyeval\n" + TEXT + b"\x85R.",
    "idlelib": b"\x80\x02cidlelib.run\nExecutive.runcode\n" + TEXT + b"\x85R.",
    "default factory": b"\x80\x02ccollections\ndefaultdict\ncos\nsystem\n\x85R.",
    "type of a tensor": b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch\nSize\ncos\nsystem\n)}tR.",
}


@pytest.fixture
def nothing_runs(monkeypatch):
    """Every name in a file refers to a function that records its call."""
    called = []
    for path in ("os.system", "subprocess.Popen", "builtins.eval"):
        monkeypatch.setattr(path, lambda *_, path=path: called.append(path))
    yield
    assert not called


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("form", [archive, legacy])
def test_calls_are_refused(name, form, nothing_runs):
    with pytest.raises(REFUSED):
        torch.load(io.BytesIO(form(CALLS[name])))


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_refused_in_a_bare_pickle(name, nothing_runs):
    with pytest.raises(REFUSED):
        torch.load(io.BytesIO(CALLS[name]))


@pytest.mark.parametrize("name", ["reduce", "inst", "obj", "stack_global", "eval", "torch.hub"])
def test_calls_are_listed(name, nothing_runs):
    (found,) = get_unsafe_globals_in_checkpoint(io.BytesIO(archive(CALLS[name])))
    assert found in ("os.system", "__builtin__.eval", "torch.hub.load")


def test_a_tar_is_no_checkpoint(nothing_runs):
    """CVE-2025-32434: an old tar checkpoint was executed although weights_only was set."""
    import tarfile

    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name in ("storages", "tensors", "pickle"):
            content = CALLS["reduce"]
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    with pytest.raises(REFUSED):
        torch.load(io.BytesIO(file.getvalue()))


STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu\x8a\x08%btQ"


def tensor_of(elements, offset, size, stride):
    def numbers(values):
        return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", value) for value in values) + b"t"

    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + STORAGE.replace(b"%b", struct.pack("<q", elements))
        + b"\x8a\x08"
        + struct.pack("<q", offset)
        + numbers(size)
        + numbers(stride)
        + b"\x89ccollections\nOrderedDict\n)RtR"
    )


GOOD = tensor_of(2, 0, [2], [1])


@pytest.mark.parametrize(
    "content",
    [
        # CVE-2026-24747: SETITEM(S) on a value that is not a dict, and wrong numbers of elements.
        GOOD + b"X\x01\0\0\0aX\x01\0\0\0bs.",
        GOOD + b"(X\x01\0\0\0aX\x01\0\0\0bu.",
        b"](X\x01\0\0\0aX\x01\0\0\0bu.",
        b")X\x01\0\0\0a}s.",
        tensor_of(1 << 40, 0, [2], [1]) + b".",
        tensor_of(-1, 0, [2], [1]) + b".",
        tensor_of(2, 1 << 61, [2], [1]) + b".",
        tensor_of(2, 0, [1 << 62, 1 << 62], [1, 1]) + b".",
        tensor_of(2, 0, [2], [-1]) + b".",
        # Containers that contain themselves as a key, endless keys, missing values on the stack.
        b"}q\x00h\x00Ns.",
        b")" + b"\x85" * 10_000 + b".",
        b"N)" + b"2\x86" * 60 + b"}2s.",
        b"0.",
        b"t.",
        b"h\x05.",
        b"\x8e" + struct.pack("<Q", 1 << 62) + b".",
        b"\x8d" + struct.pack("<Q", (1 << 64) - 1) + b".",
        b"\x8b" + struct.pack("<i", -1) + b".",
        # The state of a tensor may be data, but must have the right type.
        b"ctorch._utils\n_rebuild_parameter\n(NN}tR.",
        # Too few arguments, and arguments of the wrong type.
        b"ctorch._utils\n_rebuild_tensor_v2\n)R.",
        b"ctorch._utils\n_rebuild_tensor_v2\n(NNNNNNtR.",
        b"ctorch._utils\n_rebuild_parameter\n(ctorch._utils\n_rebuild_tensor\nNNtR.",
        b"ctorch.serialization\n_get_layout\n(NtR.",
        b"ccollections\nCounter\n(K\x01tR.",
        b"ctorch\nSize\n(X\x01\0\0\0atR.",
    ],
)
def test_pickles_that_lie(content):
    with pytest.raises((*REFUSED, MemoryError)):
        torch.load(io.BytesIO(archive(b"\x80\x02" + content, {"data/0": bytes(8)})))


def test_inspect_says_what_cannot_be_built(tmp_path):
    """A dict whose key is a dict: the objects and the exceptions are those of `load`."""
    path = tmp_path / "a.pt"
    path.write_bytes(archive(b"\x80\x02}ccollections\nOrderedDict\n)RNs.", {}))
    with pytest.raises(TypeError, match=r"unhashable"):
        torch.load(path)
    with pytest.raises(pickle.UnpicklingError, match=r"cannot be created: TypeError: unhashable"):
        inspect(path)


@pytest.mark.parametrize("opcodes", [b"K\x00K\x01s.", b"(K\x00K\x01u."])
def test_items_are_set_in_dicts_only(opcodes):
    """CVE-2026-24747: for a tensor this would execute indexing."""
    with pytest.raises(pickle.UnpicklingError, match=r"Can only SETITEM for a dict, but got Tensor"):
        torch.load(io.BytesIO(archive(b"\x80\x02" + GOOD + opcodes, {"data/0": bytes(8)})))


# --- malformed archives
# ------------------------------------------------------------------------------------------------


def test_compressed_records_are_refused():
    """A zip bomb: compressed checkpoints are rejected."""
    bomb = archive(b"\x80\x02" + GOOD + b".", {"data/0": bytes(1 << 20)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(RuntimeError, match=r"is compressed, which checkpoints never are"):
        torch.load(io.BytesIO(bomb))


def test_records_that_overlap_are_refused():
    """A zip bomb without compression: many records that share bytes."""
    whole = bytearray(archive(b"\x80\x02" + GOOD + b".", {"data/0": bytes(8), "data/1": bytes(8)}))
    entries = [at for at in range(len(whole)) if whole[at : at + 4] == b"PK\x01\x02"]
    whole[entries[-1] + 42 : entries[-1] + 46] = whole[entries[-2] + 42 : entries[-2] + 46]
    with pytest.raises(RuntimeError, match=r"records of the archive overlap"):
        torch.load(io.BytesIO(bytes(whole)))


def test_truncation_at_every_byte():
    tensors = {"a": torch.arange(4.0), "b": torch.ones(2, dtype=torch.int64)}
    checkpoint = io.BytesIO()
    torch.save(tensors, checkpoint)
    for content, load, refused in (
        (checkpoint.getvalue(), lambda data: torch.load(io.BytesIO(data)), REFUSED),
        ((DATA / "legacy.pt").read_bytes(), lambda data: torch.load(io.BytesIO(data)), REFUSED),
        (safetensors.save(tensors), safetensors.load, safetensors.SafetensorError),
        (npz.save(tensors), npz.load, npz.NpzError),
    ):
        load(content)
        for length in range(len(content)):
            with pytest.raises(refused):
                load(content[:length])


def header(**entries):
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


def entry(shape=(2,), first=0, last=8, dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [first, last]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(8),
        ((1 << 64) - 1).to_bytes(8, "little") + b"{}",
        (1 << 26).to_bytes(8, "little") + b"{}",
        (6).to_bytes(8, "little") + b'["a"] ',
        (2 * 10**5).to_bytes(8, "little") + b"{" + b'"a":[' * 39_999 + bytes(5),
        header(a=entry()),  # no data
        header(a=entry()) + bytes(9),  # unused bytes
        header(a=entry(last=12)) + bytes(12),
        header(a=entry(), b=entry()) + bytes(8),  # two tensors with the same bytes
        header(a=entry(), b=entry(first=4, last=12)) + bytes(12),
        header(a=entry(), b=entry(first=12, last=20)) + bytes(20),  # a gap
        header(a=entry(shape=[1 << 40, 1 << 40])) + bytes(8),
        header(a=entry(shape=[-2], last=-8)) + bytes(8),
        header(a=entry(shape=[2.0])) + bytes(8),
        header(a=entry(shape=[True, 2])) + bytes(8),
        header(a=entry(dtype="F31")) + bytes(8),
        header(a=entry(first=8, last=0)) + bytes(8),
        header(a={"dtype": "F32"}) + bytes(8),
        header(a=[]) + bytes(8),
        header(__metadata__={"a": 1}),
        (30).to_bytes(8, "little") + b'{"__metadata__":{"a":' + b"9" * 9,
    ],
)
def test_safetensors_that_lie(content):
    with pytest.raises(safetensors.SafetensorError):
        safetensors.load(content)


def npy(descr="<f4", shape="(2,)", data=bytes(8), fortran="False"):
    text = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x02\x00" + struct.pack("<I", (1 << 32) - 1) + b"{}",
        npy(descr="|O", data=CALLS["reduce"]),  # a pickle
        npy(shape="(3,)"),
        npy(shape="(1,)"),
        npy(shape="(4611686018427387904, 4611686018427387904, 4)"),
        npy(shape="(99999999999999999999,)"),
        npy(shape="(-2,)"),
        npy(shape="(__import__('os').system('true'),)"),
        npy(shape="(,,)"),
        npy(descr="<f3"),
        npy(descr="<U4"),
        npy(fortran="None"),
    ],
)
def test_arrays_that_lie(record, nothing_runs):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        written.writestr("a.npy", record)
    with pytest.raises(npz.NpzError):
        npz.load(file.getvalue())


def test_an_array_that_says_it_is_larger_than_deflate_can_make_it():
    content = bytearray(npz.save({"a": torch.zeros(1000)}, compress=True))
    at = content.index(b"PK\x01\x02")
    struct.pack_into("<I", content, at + 24, 1 << 31)
    with pytest.raises(npz.NpzError, match=r"cannot have the size that the archive gives"):
        npz.load(bytes(content))


# --- random damage
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", list(readers()))
def test_no_damaged_file_ends_the_process(reader, thorough, tmp_path):
    found = list(findings(reader, 0, 0, 1_000_000 if thorough else 1_500, tmp_path))
    assert not found, "\n".join(found)

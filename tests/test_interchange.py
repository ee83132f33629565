"""State dicts that torch wrote and, if torch is installed, 50 state dicts in both directions (see `interchange.py`)."""

import copy
import io
import zipfile
from pathlib import Path

import pytest
from interchange import compare, described, state

import rushlight


def test_states_that_torch_wrote():
    with zipfile.ZipFile(Path(__file__).parent / "data" / "states.zip") as archive:
        for name in archive.namelist():
            found = rushlight.load(io.BytesIO(archive.read(name)))
            expected = state(rushlight, int(name.removesuffix(".pt")))
            assert described(rushlight, found, {}) == described(rushlight, expected, {}), name


def test_both_ways():
    torch = pytest.importorskip("torch")
    if torch is rushlight:  # an earlier test makes `torch` import rushlight
        pytest.skip("torch is not installed")
    for seed in range(50):
        assert not list(compare(rushlight, torch, seed)), seed


def test_packages_both_ways():
    torch = pytest.importorskip("torch")
    if torch is rushlight:
        pytest.skip("torch is not installed")
    source = "import torch, json\nfrom absent import Plot\ndef twice(x):\n    return torch.add(x, x)\n"
    for writer, reader in ((rushlight, torch), (torch, rushlight)):
        file = io.BytesIO()
        with writer.package.PackageExporter(file) as exporter:
            layer = writer.nn.Linear(3, 2)
            exporter.save_source_string("tools", source)
            exporter.save_pickle("objects", "layer.pkl", [layer, layer.weight.detach()[1], writer.int8])
            exporter.save_text("texts", "one.txt", "één")
        found = reader.package.PackageImporter(io.BytesIO(file.getvalue()))
        read, row, dtype = found.load_pickle("objects", "layer.pkl")
        assert type(read) is reader.nn.Linear and read.weight.tolist() == layer.weight.tolist() and dtype is reader.int8
        assert row.untyped_storage().data_ptr() == read.weight.untyped_storage().data_ptr()
        assert found.load_text("texts", "one.txt") == "één"
        with pytest.raises(ModuleNotFoundError, match="absent"):
            found.import_module("tools")


def test_whole_modules_and_functions_that_torch_wrote():
    found = rushlight.load(Path(__file__).parent / "data" / "wholes.pt", weights_only=False)
    rushlight.manual_seed(0)
    own = {"lstm": rushlight.nn.LSTM(2, 2), "layer": rushlight.nn.TransformerEncoderLayer(2, 1, 2, activation="gelu")}
    for name, module in own.items():
        x = rushlight.ones(3, 1, 2)
        expected, results = module.eval()(x), found[name].eval()(x)
        assert str(found[name]) == str(module)
        rushlight.testing.assert_close(results, expected)
    F, linalg, fft = rushlight.nn.functional, rushlight.linalg, rushlight.fft
    functions = [rushlight.relu, F.gelu, rushlight.special.expit, linalg.inv, fft.fft, rushlight.Tensor.add]
    assert found["functions"] == functions


def test_whole_modules_say_what_torch_reads():
    """A saved module contains the attributes that torch's classes read."""
    lstm, layer = rushlight.nn.LSTM(2, 3), rushlight.nn.TransformerEncoderLayer(2, 1)
    assert lstm.__getstate__()["_flat_weights_names"] == [name for name, _ in lstm.named_parameters()]
    assert all(a is b for a, b in zip(lstm.__getstate__()["_flat_weights"], lstm.parameters()))
    assert layer.__getstate__()["activation_relu_or_gelu"] == 1
    for module in (lstm, layer):
        again = copy.deepcopy(module)
        assert vars(again).keys() == vars(module).keys()

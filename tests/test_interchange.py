"""State dicts that torch wrote, and, where torch is installed, 50 of them both ways (see `interchange.py`)."""

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
    if torch is rushlight:  # a test before this one runs programs whose `torch` is rushlight
        pytest.skip("torch is not installed")
    for seed in range(50):
        assert not list(compare(rushlight, torch, seed)), seed

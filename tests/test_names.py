"""`dir` of a module shows what is for users, and nothing that the module happens to import."""

import importlib
import operator
import types
from pathlib import Path

import pytest
from public_names import modules

import rushlight as torch


@pytest.mark.parametrize("name", sorted(modules()))
def test_dir_shows_what_is_for_users(name):
    module = modules()[name]
    for part in dir(module):
        value = getattr(module, part)  # also that there is one
        assert part not in ("TYPE_CHECKING", "annotations", "warn", "torch")
        promised = part in getattr(module, "__all__", ())
        if isinstance(value, types.ModuleType) and not promised and not part.startswith("_"):
            assert value.__name__ == f"{name}.{part}", f"{part} is a module of another place"
    assert set(getattr(module, "__all__", ())) <= set(dir(module))


def test_helpers_are_not_offered():
    assert "set_rate" not in dir(torch.optim.lr_scheduler) and "StepLR" in dir(torch.optim.lr_scheduler)
    assert "queues" not in dir(torch.multiprocessing) and "Queue" in dir(torch.multiprocessing)
    assert "math" not in dir(torch.nn.init) and "zeros_" in dir(torch.nn.init)
    assert {"relu", "linear", "max_pool2d"} <= set(dir(torch.nn.functional))


HOMES = [line.split() for line in (Path(__file__).parent / "data" / "homes.txt").read_text().splitlines()]


@pytest.mark.parametrize("name, home", HOMES, ids=[name for name, _ in HOMES])
def test_classes_live_where_torch_has_them(name, home):
    """Pickles name a class by its module: what one library saved the other finds."""
    module, _, part = name.replace("torch", "rushlight", 1).rpartition(".")
    value = getattr(importlib.import_module(module), part)
    assert f"{value.__module__}.{value.__qualname__}".replace("rushlight", "torch", 1) == home
    assert operator.attrgetter(value.__qualname__)(importlib.import_module(value.__module__)) is value

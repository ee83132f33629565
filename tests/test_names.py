"""`dir` of a module shows what is for users, and nothing that the module happens to import."""

import types

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

"""Type information: every existing name, and the types in an example program."""

import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import rushlight as torch

pytest.importorskip("mypy")

PROGRAM = Path(__file__).parent / "usage.py"
SPACES = (
    "torch torch.Tensor torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.optim torch.optim.lr_scheduler "
    "torch.autograd torch.linalg torch.special torch.fft torch.utils torch.utils.data torch.multiprocessing torch.cuda "
    "torch.testing torch.random torch.jit"
).split()


def check(file):
    options = ["--config-file=", "--strict", "--follow-imports=silent", "--cache-dir=/dev/null"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, file], capture_output=True, text=True, cwd=file.parent
    )
    return done.stdout + done.stderr


def shown(space, name):
    """Whether a name is public, and not only imported by a file."""
    value = getattr(space, name)
    imported = isinstance(value, ModuleType) and value.__name__ != f"{space.__name__}.{name}"
    return not (name.startswith("_") or imported or name in ("TYPE_CHECKING", "annotations"))


def test_a_program_of_a_user():
    runpy.run_path(str(PROGRAM))
    assert "Success" in (said := check(PROGRAM)), said


def test_every_name(tmp_path):
    lines = ["import rushlight as torch", "import rushlight.utils.data"]
    for space in SPACES:
        found = torch
        for part in space.split(".")[1:]:
            found = getattr(found, part)
        lines += [f"print({space}.{name})" for name in getattr(found, "__all__", dir(found)) if shown(found, name)]
    program = tmp_path / "names.py"
    program.write_text("\n".join(lines))
    assert "Success" in (said := check(program)), said


def test_bool_has_no_integer_limits():
    with pytest.raises(TypeError, match=r"torch\.bool is not supported by torch\.iinfo"):
        torch.iinfo(torch.bool)
    with pytest.raises(TypeError, match="requires an integer input type"):
        torch.iinfo(torch.float32)

"""The card made of software (`rust/softcuda`): whether it can run here, and programs that run on it in processes of their own."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "target" / "softcuda"
COMPILER = os.environ.get("SOFTCUDA_CXX", "c++")

#: For programs: a check that a call raises an error whose message begins with a sentence.
RAISES = """
def raises(kind, sentence, call):
    try:
        call()
    except Exception as error:
        assert type(error) is kind and str(error).startswith(sentence), repr(error)
        return error
    raise AssertionError(sentence)
"""


def why_not():
    """Why programs cannot run on it, or None."""
    if not (FOLDER / "libcuda.so.1").exists():
        return "the card made of software is not built: make softcuda"
    if shutil.which(COMPILER) is None:
        return f"the card made of software needs a C++ compiler, and there is no {COMPILER}"
    return None


needs_soft_card = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def environment(**variables):
    settings = {
        "LD_LIBRARY_PATH": str(FOLDER),
        "RUSHLIGHT_KERNEL_CACHE": str(FOLDER / "kernels"),
        "SOFTCUDA_SEED": "0",
        **{name: str(value) for name, value in variables.items()},
    }
    return {**os.environ, **settings}


def run(program, **variables):
    """What a program prints; an error if it fails."""
    return run_in(environment(**variables), program)


def run_file(path, program, **variables):
    """The same for a program that starts processes, which need it as a file."""
    return run_file_in(environment(**variables), path, program)


def run_in(environment, program):
    return _run("-c", "import rushlight as torch\n" + textwrap.dedent(program), environment=environment)


def run_file_in(environment, path, program):
    path.write_text(program)
    return _run(str(path), environment=environment)


def _run(*arguments, environment):
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

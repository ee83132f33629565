"""The card made of software (`rust/softcuda`): whether it can run here, and programs that run on it in processes of their own."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "target" / "softcuda"
COMPILER = os.environ.get("SOFTCUDA_CXX", "c++")


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
        "SOFTCUDA_SEED": "0",
        **{name: str(value) for name, value in variables.items()},
    }
    return {**os.environ, **settings}

"""What the fork server loads before it forks, so that its children share it instead of each loading its own."""

import os
import site
import sys
from importlib.machinery import PathFinder
from multiprocessing import forkserver
from typing import Any

# What the standard library means for itself.
_server: Any = forkserver._forkserver


def preload() -> None:
    """Has a fork server that starts after this load the package, and NumPy where this process has it."""
    wanted = ["rushlight.utils.data"]
    if "numpy" in sys.modules:
        wanted.append("numpy.random")
    found = [name for name in wanted if name not in _server._preload_modules and _finds_the_same(name)]
    _server._preload_modules = [*_server._preload_modules, *found]


def _finds_the_same(name: str) -> bool:
    """Whether a fresh interpreter would load the package that this process has: a program may have changed where it looks, and
    tells that to the children alone."""
    package = name.partition(".")[0]
    spec = PathFinder.find_spec(package, [os.getcwd(), *_paths()])
    return spec is not None and spec.origin == sys.modules[package].__file__


def _paths() -> list[str]:
    """Where every interpreter with this environment looks, without what files in these folders add."""
    given = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [*given.split(os.pathsep), *user, *site.getsitepackages()]

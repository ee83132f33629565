"""The modules that the fork server loads before it forks, so that its children share them."""

from __future__ import annotations

import glob
import os
import site
import sys
from importlib.machinery import PathFinder
from multiprocessing import forkserver
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Internal names of the standard library.
_server: Any = forkserver._forkserver


def preload() -> None:
    """Makes a fork server that starts later load the package, and NumPy if this process has loaded it."""
    wanted = ["rushlight.utils.data"]
    if "numpy" in sys.modules:
        wanted.append("numpy.random")
    found = [name for name in wanted if name not in _server._preload_modules and _finds_the_same(name)]
    _server._preload_modules = [*_server._preload_modules, *found]


def _finds_the_same(name: str) -> bool:
    """Whether a new interpreter would import the same package as this process. A program may have changed its import
    path, and only its children get this path."""
    package = name.partition(".")[0]
    spec = PathFinder.find_spec(package, [os.getcwd(), *_paths()])
    return spec is not None and spec.origin == sys.modules[package].__file__


def _paths() -> list[str]:
    """The import path of every interpreter in this environment."""
    given = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    folders = [*user, *site.getsitepackages()]
    return [*given.split(os.pathsep), *folders, *(path for folder in folders for path in _added(folder))]


def _added(folder: str) -> Iterator[str]:
    """The folders that path files (``.pth``) in a folder of packages name, where editable packages are."""
    for name in sorted(glob.glob(os.path.join(folder, "*.pth"))):
        with open(name, encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip() for line in file]
        paths = [os.path.join(folder, line) for line in lines if line and not line.startswith(("#", "import"))]
        yield from filter(os.path.isdir, paths)

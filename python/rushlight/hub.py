"""`torch.hub`: models of folders with a ``hubconf.py``, and downloads of their parameters.

A ``hubconf.py`` is a program: its functions make models, and its list ``dependencies`` names the packages that they
need. Only folders on this machine are loaded. Repositories are not downloaded, because this would run code of others.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager, suppress
from importlib.util import find_spec, module_from_spec, spec_from_file_location

from rushlight._loading import load as _load
from rushlight._missing_names import missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

ENV_TORCH_HOME = "TORCH_HOME"
ENV_XDG_CACHE_HOME = "XDG_CACHE_HOME"
DEFAULT_CACHE_DIR = "~/.cache"
MODULE_HUBCONF = "hubconf.py"
VAR_DEPENDENCY = "dependencies"
READ_DATA_CHUNK = 128 * 1024
#: The beginning of a file's hash, in its name: ``resnet18-f37072fd.pth``.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")

_folder: str | None = None


def __getattr__(name: str) -> object:
    # Libraries import it from here.
    if name == "urlparse":
        from urllib.parse import urlparse

        return urlparse
    raise missing_from("torch.hub", name, __dir__)


def _get_torch_home() -> str:
    """The folder for what is downloaded and cached: ``$TORCH_HOME`` or ``~/.cache/torch``."""
    cache = os.environ.get(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    home = os.environ.get(ENV_TORCH_HOME, os.path.join(cache, "torch"))
    return os.path.expanduser(home)


def get_dir() -> str:
    """The folder for downloads: that of `set_dir`, ``$TORCH_HOME/hub``, or ``~/.cache/torch/hub``.

    >>> os.path.basename(torch.hub.get_dir())
    'hub'
    """
    if _folder is not None:
        return _folder
    return os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Sets the folder for downloads.

    >>> before = torch.hub.get_dir()
    >>> torch.hub.set_dir("models")
    >>> torch.hub.get_dir()
    'models'
    >>> torch.hub.set_dir(before)
    """
    global _folder
    _folder = os.path.expanduser(d)


def load(
    repo_or_dir: str | os.PathLike[str],
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: bool | str | None = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What a function of a folder's ``hubconf.py`` returns: usually a model.

    The program of the folder is run, so that it has to be trusted.

    Args:
        repo_or_dir: the folder.
        model: the name of the function.
        args: its arguments.
        source: ``"local"``.
        trust_repo: accepted for repositories.
        force_reload: accepted for repositories.
        verbose: accepted for repositories.
        skip_validation: accepted for repositories.
        kwargs: its arguments by name.

    Raises:
        ValueError: the source is unknown, or the name of the function is not a string.
        NotImplementedError: the source is ``"github"``.
        RuntimeError: a package is missing, or there is no such function.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...         _ = file.write("def number(n): return 2 * n")
    ...     torch.hub.load(folder, "number", 3, source="local")
    6
    """
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise _no_repositories()
    with _program(repo_or_dir) as module:
        return _entry(module, model)(*args, **kwargs)


def list(
    github: str | os.PathLike[str],
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = "check",
    verbose: bool = True,
) -> builtins.list[str]:
    """The names of the functions of a folder's ``hubconf.py``.

    Args:
        github: the folder.
        force_reload: accepted for repositories.
        skip_validation: accepted for repositories.
        trust_repo: accepted for repositories.
        verbose: accepted for repositories.

    Raises:
        NotImplementedError: there is no such folder: repositories are not downloaded.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...         _ = file.write("def number(n): return 2 * n")
    ...     torch.hub.list(folder)
    ['number']
    """
    if not os.path.isdir(github):
        raise _no_repositories()
    with _program(github) as module:
        return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def help(
    github: str | os.PathLike[str],
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = "check",
) -> str | None:
    """The docstring of a function of a folder's ``hubconf.py``.

    Args:
        github: the folder.
        model: the name of the function.
        force_reload: accepted for repositories.
        skip_validation: accepted for repositories.
        trust_repo: accepted for repositories.

    Raises:
        NotImplementedError: there is no such folder: repositories are not downloaded.
        RuntimeError: a package is missing, or there is no such function.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...         _ = file.write("def number(n): 'Twice a number.'")
    ...     torch.hub.help(folder, "number")
    'Twice a number.'
    """
    if not os.path.isdir(github):
        raise _no_repositories()
    with _program(github) as module:
        return _entry(module, model).__doc__


def _no_repositories() -> NotImplementedError:
    return NotImplementedError(
        "torch.hub does not download repositories here: clone the repository, and load its folder with source='local'."
    )


@contextmanager
def _program(folder: str | os.PathLike[str]) -> Iterator[ModuleType]:
    """The module of a folder's ``hubconf.py``, which can import the folder's other modules meanwhile."""
    path = os.fspath(folder)
    sys.path.insert(0, path)
    try:
        spec = spec_from_file_location(MODULE_HUBCONF, os.path.join(path, MODULE_HUBCONF))
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        with suppress(ValueError):
            sys.path.remove(path)


def _entry(module: ModuleType, name: str) -> Callable[..., Any]:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    missing = [package for package in getattr(module, VAR_DEPENDENCY, None) or [] if find_spec(package) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    entry = getattr(module, name, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return entry


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Downloads a file. It appears under its name when it is complete.

    Args:
        url: the address.
        dst: the path of the file.
        hash_prefix: the beginning of the SHA-256 hash that the file must have.
        progress: whether to show on standard error how far the download is.

    Raises:
        RuntimeError: the file has another hash.
        urllib.error.URLError: the file cannot be downloaded.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "file")
    ...     torch.hub.download_url_to_file("data:,content", path, progress=False)
    ...     open(path).read()
    'content'
    """
    from hashlib import sha256
    from urllib.request import Request, urlopen
    from uuid import uuid4

    path = os.path.expanduser(dst)
    digest = sha256()
    with urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as answer:
        size = answer.headers.get("Content-Length")
        bar = _Bar(None if size is None else int(size)) if progress else None
        # In the same folder, because files are renamed within a file system only.
        partial = f"{path}.{uuid4().hex}.partial"
        try:
            with open(partial, "xb") as file:
                while part := answer.read(READ_DATA_CHUNK):
                    file.write(part)
                    digest.update(part)
                    if bar is not None:
                        bar.advance(len(part))
            found = digest.hexdigest()
            if hash_prefix is not None and not found.startswith(hash_prefix):
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
            os.replace(partial, path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(partial)
            raise
        finally:
            if bar is not None:
                bar.end()


class _Bar:
    """Shows on standard error how far a download is."""

    def __init__(self, size: int | None) -> None:
        self.size = size
        self.done = 0
        self.shown = ""

    def advance(self, count: int) -> None:
        self.done += count
        text = f"{self.done / 2**20:.1f} MB" if not self.size else f"{100 * self.done / self.size:.0f}%"
        if text != self.shown:
            self.shown = text
            sys.stderr.write(f"\r{text}")
            sys.stderr.flush()

    def end(self) -> None:
        sys.stderr.write("\n")


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """The content of a file that `torch.save` wrote, downloaded unless it was before.

    Args:
        url: the address.
        model_dir: the folder for the file; by default, ``checkpoints`` in `get_dir`.
        map_location: where tensors are put, as in `torch.load`.
        progress: whether to show on standard error how far the download is.
        check_hash: whether the file must have the hash whose beginning is in its name: ``net-f37072fd.pth``.
        file_name: the name of the file; by default, that of the address.
        weights_only: whether only tensors and plain objects are read, as in `torch.load`. Otherwise, the file may run
            any code.

    Raises:
        RuntimeError: the file has another hash.
        urllib.error.URLError: the file cannot be downloaded.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "state.pt")
    ...     torch.save({"weight": torch.ones(2)}, path)
    ...     torch.hub.load_state_dict_from_url(path.as_uri(), model_dir=folder)
    {'weight': tensor([1., 1.])}
    """
    from urllib.parse import urlparse

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(urlparse(url).path) if file_name is None else file_name
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found[1] if found else None, progress=progress)
    return _load("rushlight.serialization").load(path, map_location=map_location, weights_only=weights_only)


def __dir__() -> builtins.list[str]:
    return __all__

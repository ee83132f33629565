"""Makes imports of ``torch`` and its submodules import rushlight, for programs that cannot be changed."""

import importlib
import importlib.abc
import importlib.util
import os
import sys
from pathlib import Path

import rushlight as package
from rushlight._warnings import warn
from rushlight.torch_version import TorchVersion

# The version of torch that has the same names, for libraries that choose by it. The folder `torch-*.dist-info` says the same to
# `importlib.metadata`, in child processes too.
VERSION = "2.13.0"


def _own_name(fullname):
    return "rushlight" + fullname[len("torch") :]


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports ``torch.x`` as ``rushlight.x``: the same module with a second name."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        own = _own_name(fullname)
        try:
            module = importlib.import_module(own)
        except ModuleNotFoundError as error:
            if error.name != own:
                raise
            known = [name for name in package.__dir__() if name in package._SUBMODULES]
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: rushlight runs this program in torch's place and does not have it. "
                f"It has {', '.join(f'torch.{name}' for name in known)}.",
                name=fullname,
            ) from None
        # With -m, the origin becomes the name of the program.
        spec = importlib.util.spec_from_loader(fullname, self, origin=module.__spec__.origin)
        spec.loader_state = module, module.__spec__
        return spec

    def create_module(self, spec):
        return spec.loader_state[0]

    def get_code(self, fullname):
        """The code of a module that ``python -m rushlight -m torch.x`` runs."""
        own = _own_name(fullname)
        return importlib.util.find_spec(own).loader.get_code(own)

    def exec_module(self, module):
        # The import system has set another specification on the module. The first one is restored.
        spec = module.__spec__
        if spec.loader is self:
            module.__spec__ = spec.loader_state[1]


def _compile(model=None, **options):
    """`torch.compile` for programs that cannot leave it out: warns, and returns the function or module as it is."""
    if model is None:
        return lambda function: _compile(function, **options)
    if not options.get("disable"):
        warn("torch.compile: nothing is compiled. The function runs eagerly.")
    return model


_compile.__unsupported__ = True  # type: ignore[attr-defined]


def install():
    """Makes imports of torch in this process import rushlight."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        package.__version__ = package.version.__version__ = TorchVersion(f"{VERSION}+rushlight{package.__version__}")
        # Libraries compare these names.
        package.__name__ = "torch"
        package.Tensor.__module__ = "torch"
        package.compile = package.compiler.compile = _compile
        sys.meta_path.insert(0, _Finder())


def install_everywhere():
    """Makes imports of torch in this process and in its child processes import rushlight."""
    install()
    folder = str(Path(__file__).parent)
    sys.path.insert(1, folder)
    rest = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = folder if not rest else os.pathsep.join([folder, rest])

"""The environments from which modules are imported: importers find modules by name, and objects in them."""

from __future__ import annotations

import importlib
import pickle
from abc import ABC, abstractmethod

from rushlight._checkpoint.rebuild import home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


class ObjNotFoundError(Exception):
    """An importer has no object of this name.

    >>> issubclass(torch.package.ObjNotFoundError, Exception)
    True
    """


class ObjMismatchError(Exception):
    """An importer has another object of this name.

    >>> issubclass(torch.package.ObjMismatchError, Exception)
    True
    """


class Importer(ABC):
    """An environment of modules: it imports modules, and finds the names of objects in them. Subclasses define
    `import_module`.

    >>> import math
    >>> torch.package.sys_importer.get_name(math.sin)
    ('math', 'sin')
    """

    @abstractmethod
    def import_module(self, module_name: str) -> ModuleType:
        """The module of a name, as from ``importlib.import_module``."""

    def whichmodule(self, obj: Any, name: str) -> str:
        """The name of the module that has an object under a name."""
        return pickle.whichmodule(obj, name)  # type: ignore[attr-defined] # it has no stub

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        """The names of a module and of an object in it.

        Raises:
            ObjNotFoundError: the module cannot be imported, or has no object of this name.
            ObjMismatchError: the module has another object of this name.
        """
        if name is None:
            name = _reduced(obj) or getattr(obj, "__qualname__", None) or obj.__name__
        module_name = demangle(self.whichmodule(obj, name))
        try:
            found: Any = self.import_module(module_name)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, KeyError, AttributeError) as error:
            raise ObjNotFoundError(f"{obj} was not found as {module_name}.{name}") from error
        if found is not obj:
            raise ObjMismatchError(
                f"The object provided for '{name}' is not the one that module '{module_name}' has under this name"
            )
        return module_name, name


def is_mangled(name: str) -> bool:
    """Whether a module's name begins with that of a package."""
    return name.startswith("<torch_package_")


def demangle(name: str) -> str:
    """A module's name without that of its package."""
    return name.partition(".")[2] if is_mangled(name) else name


def _reduced(obj: Any) -> str | None:
    """The name that an object gives to pickles, if it gives one."""
    if isinstance(obj, type) or not hasattr(obj, "__reduce__"):
        return None
    try:
        reduced = obj.__reduce__()
    except Exception:
        return None
    return reduced if isinstance(reduced, str) else None


class _SysImporter(Importer):
    """The importer of the interpreter, in which torch is rushlight."""

    def import_module(self, module_name: str) -> ModuleType:
        return importlib.import_module(home(module_name, "")[0])

    def whichmodule(self, obj: Any, name: str) -> str:
        own = getattr(obj, "__module__", None)
        return super().whichmodule(obj, name) if own is None else own


#: The importer of the interpreter.
sys_importer = _SysImporter()


class OrderedImporter(Importer):
    """Several importers, of which the first that has a module is used.

    >>> importer = torch.package.OrderedImporter(torch.package.sys_importer)
    >>> importer.import_module("math").__name__
    'math'
    """

    def __init__(self, *args: Importer) -> None:
        self._importers = list(args)

    def import_module(self, module_name: str) -> ModuleType:
        last: Exception | None = None
        for importer in self._importers:
            if not isinstance(importer, Importer):
                raise TypeError(
                    f"{importer} is not a Importer. All importers in OrderedImporter must inherit from Importer."
                )
            try:
                return importer.import_module(module_name)
            except ModuleNotFoundError as error:
                last = error
        raise last or ModuleNotFoundError(module_name)

    def whichmodule(self, obj: Any, name: str) -> str:
        for importer in self._importers:
            found = importer.whichmodule(obj, name)
            if found != "__main__":
                return found
        return "__main__"

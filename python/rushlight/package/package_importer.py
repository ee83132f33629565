"""Imports modules, objects and resources from an archive that torch's `PackageExporter` wrote."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import io
import itertools
import linecache
import os
import pickle
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import rushlight as torch
from rushlight._checkpoint.locations import restorer
from rushlight._checkpoint.rebuild import find_known, home
from rushlight._checkpoint.storage_classes import StorageClass
from rushlight.storage import TypedStorage

from ._archive import opened
from .file_structure_representation import Directory, tree_of
from .importer import Importer, is_mangled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import BinaryIO

_numbers = itertools.count()


def is_from_package(obj: Any) -> bool:
    """Whether a module, or the class of an object, was imported from a package.

    >>> torch.package.is_from_package(torch.nn.Linear(1, 1))
    False
    """
    return is_mangled(obj.__name__ if type(obj) is ModuleType else type(obj).__module__)


class PackageImporter(Importer):
    """Imports modules from a package, beside those of the interpreter.

    Modules of the package are found in the package alone; the modules that it names as external ones are imported from
    the interpreter. Where it names torch, it gets rushlight. Importing a module and loading a pickle runs code of the
    package.

    Args:
        file_or_buffer: a path to an archive or to a folder with its files, or a file that is opened for reading bytes.
        module_allowed: says of a name whether the package may import this external module.

    Raises:
        RuntimeError: there is no such file, or it is no archive.
        ImportError: the package needs an external module that is not allowed.

    >>> import io
    >>> try:
    ...     torch.package.PackageImporter(io.BytesIO(b"no archive"))
    ... except RuntimeError as error:
    ...     print(str(error)[:74])
    PytorchStreamReader failed reading zip archive: not a ZIP archive. This is
    """

    def __init__(
        self,
        file_or_buffer: str | os.PathLike[str] | BinaryIO,
        module_allowed: Callable[[str], bool] = lambda module_name: True,
    ) -> None:
        self.filename, self.zip_reader = opened(file_or_buffer)
        self._names = set(self.zip_reader.names())
        self._folders = {name[:end] for name in self._names for end, letter in enumerate(name) if letter == "/"}
        self.extern_modules = self._text(".data/extern_modules").splitlines()
        for name in self.extern_modules:
            if not module_allowed(name):
                raise ImportError(
                    f"package '{file_or_buffer}' needs the external module '{name}' but that module has been disallowed"
                )
        self._mangle = f"<torch_package_{next(_numbers)}>"
        #: The modules that are imported so far, and the importer itself under the name by which packages ask for it.
        self.modules: dict[str, Any] = {"torch_package_importer": self}
        self.patched_builtins = {**vars(builtins), "__import__": self.__import__}

    def id(self) -> str:
        """The text before the names of this package's modules, which no other importer has."""
        return self._mangle

    def python_version(self) -> str | None:
        """The version of Python that wrote the package, if the package says it."""
        return self._text(".data/python_version").strip() if ".data/python_version" in self._names else None

    def file_structure(self, *, include: str | Iterable[str] = "**", exclude: str | Iterable[str] = ()) -> Directory:
        """The files of the package whose paths match patterns."""
        return tree_of(self.filename, sorted(self._names), include, exclude)

    def load_binary(self, package: str | ModuleType, resource: str) -> bytes:
        """The bytes of a resource.

        Raises:
            ModuleNotFoundError: there is no such package.
            RuntimeError: there is no such resource.
        """
        return self.zip_reader.read(self._path(package, resource))

    def load_text(
        self, package: str | ModuleType, resource: str, encoding: str = "utf-8", errors: str = "strict"
    ) -> str:
        """The text of a resource."""
        return self.load_binary(package, resource).decode(encoding, errors)

    def load_pickle(self, package: str | ModuleType, resource: str, map_location: Any = None) -> Any:
        """The object of a pickle, whose classes are those of the package. `map_location` is that of `torch.load`."""
        return _Unpickler(self, self.load_binary(package, resource), restorer(map_location)).load()

    def get_source(self, module_name: str) -> str:
        """The source of a module."""
        found = self._source_of(module_name)
        if found is None:
            raise self._missing(module_name)
        return self._text(found)

    def get_resource_reader(self, fullname: str) -> _ResourceReader | None:
        """What `importlib.resources` reads the files of a package with; None for a module that is no package."""
        return _ResourceReader(self, fullname) if fullname.replace(".", "/") in self._folders else None

    def import_module(self, module_name: str, package: object = None) -> ModuleType:
        """The module of a name, as from ``importlib.import_module``. It is not in ``sys.modules``.

        Raises:
            ModuleNotFoundError: the package has no such module, and does not name it as an external one.
        """
        if not module_name.startswith(".") and not module_name:
            raise ValueError("Empty module name")
        return self._load(module_name)

    def __import__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: object = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """What ``import`` does in the modules of the package."""
        whole = importlib.util.resolve_name("." * level + name, (globals or {}).get("__package__")) if level else name
        module = self._load(whole)
        if fromlist:
            self._load_submodules(module, whole, fromlist)
            return module
        if level and not name:
            return module
        return self._load(whole.removesuffix(name) + name.partition(".")[0])

    def _load_submodules(self, module: ModuleType, name: str, wanted: Iterable[str]) -> None:
        if not hasattr(module, "__path__"):
            return
        for part in wanted:
            if part == "*":
                self._load_submodules(module, name, [one for one in getattr(module, "__all__", ()) if one != "*"])
            elif not hasattr(module, part):
                try:
                    self._load(f"{name}.{part}")
                except ModuleNotFoundError as error:
                    if error.name != f"{name}.{part}":
                        raise

    def _load(self, name: str) -> ModuleType:
        if name in self.modules:
            return self.modules[name]
        if self._is_extern(name):
            return importlib.import_module(home(name, "")[0])
        parent, _, own = name.rpartition(".")
        if parent:
            self._load(parent)
            if name in self.modules:  # the package imports its own modules
                return self.modules[name]
        module = self._made(name)
        if parent:
            setattr(self.modules[parent], own, module)
        return module

    def _is_extern(self, name: str) -> bool:
        parts = name.split(".")
        return any(".".join(parts[:end]) in self.extern_modules for end in range(1, len(parts) + 1))

    def _source_of(self, name: str) -> str | None:
        path = name.replace(".", "/")
        return next((file for file in (f"{path}/__init__.py", f"{path}.py") if file in self._names), None)

    def _made(self, name: str) -> ModuleType:
        """Makes a module and runs its code. A folder without code is a module too."""
        file, path = self._source_of(name), name.replace(".", "/")
        leads_to_extern = any(extern.startswith(f"{name}.") for extern in self.extern_modules)
        if file is None and path not in self._folders and not leads_to_extern:
            raise self._missing(name)
        is_package = file is None or file.endswith("/__init__.py")
        spec = ModuleSpec(name, self, origin="<package_importer>", is_package=is_package)  # type: ignore[arg-type]
        module = ModuleType(f"{self._mangle}.{name}" if file else name)
        module.__dict__.update(
            __builtins__=self.patched_builtins,
            __torch_package__=True,
            __loader__=self,
            __spec__=spec,
            __package__=name if is_package else name.rpartition(".")[0],
            **({"__path__": []} if is_package else {}),
        )
        self.modules[name] = module
        # The parts of external modules are theirs also where the package does not list the module around them.
        for extern in self.extern_modules if leads_to_extern else ():
            outer, _, own = extern.rpartition(".")
            if outer == name:
                setattr(module, own, self._load(extern))
        if file is not None:
            module.__file__ = f"{self._mangle}.{file}"
            text = self._text(file)
            linecache.cache[module.__file__] = (len(text), None, text.splitlines(keepends=True), module.__file__)
            try:
                exec(compile(text, module.__file__, "exec", dont_inherit=True), module.__dict__)
            except BaseException:
                del self.modules[name]
                raise
        return module

    def _missing(self, name: str) -> ModuleNotFoundError:
        return ModuleNotFoundError(
            f'No module named "{name}" in self-contained archive "{self.filename}" and the module is also not in the list '
            f"of allowed external modules: {self.extern_modules}",
            name=name,
        )

    def _text(self, file: str) -> str:
        return self.zip_reader.read(file).decode()

    def _path(self, package: str | ModuleType, resource: str) -> str:
        module = package if isinstance(package, ModuleType) else self.import_module(package)
        spec = module.__spec__
        if spec is None or spec.submodule_search_locations is None:
            raise TypeError(f"{getattr(spec, 'name', module.__name__)!r} is not a package")
        if os.path.split(resource)[0]:
            raise ValueError(f"{resource!r} must be only a file name")
        return f"{spec.name.replace('.', '/')}/{resource}"


class _Unpickler(pickle.Unpickler):
    """Finds classes in the package, and storages among its files."""

    def __init__(self, importer: PackageImporter, data: bytes, restore: Callable[..., Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._importer = importer
        self._restore = restore
        self._storages: dict[str, TypedStorage] = {}
        self._reduced: dict[object, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        known = find_known(module, name)
        if known is not None:
            return known
        found: Any = self._importer.import_module(module)
        if module.partition(".")[0] == "torch":
            module, name = home(module, name)
            found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def persistent_load(self, saved: Any) -> Any:
        kind, *rest = saved
        if kind == "reduce_package":
            key, make, arguments = rest if len(rest) == 3 else (object(), *rest)
            if key not in self._reduced:
                self._reduced[key] = make(self._importer, *arguments)
            return self._reduced[key]
        if kind != "storage":
            raise pickle.UnpicklingError(
                f"Unknown typename for persistent_load, expected 'storage' or 'reduce_package' but got '{kind}'"
            )
        of, key, location, elements = rest
        if key not in self._storages:
            self._storages[key] = self._storage(of, key, location, elements)
        return self._storages[key]

    def _storage(self, of: Any, key: str, location: str, elements: int) -> TypedStorage:
        if not isinstance(of, StorageClass):
            raise TypeError(f"the class of a storage cannot be {of!r}")
        data = self._importer.zip_reader.read(f".data/{key}.storage")
        if len(data) != elements * of.dtype.itemsize:
            raise RuntimeError(
                f"the storage {key} has {len(data)} bytes, not {elements} elements of {of.dtype}. The file might be corrupted."
            )
        storage = torch.UntypedStorage(len(data))
        if data:
            memoryview(storage)[:] = data
        swapped = "byteorder" in self._importer._names and self._importer._text("byteorder") != sys.byteorder
        if swapped and of.dtype.itemsize > 1:
            storage.byteswap(of.dtype)
        return TypedStorage(wrap_storage=self._restore(storage, location), dtype=of.dtype)


class _ResourceReader:
    """The files of one package, for `importlib.resources`."""

    def __init__(self, importer: PackageImporter, fullname: str) -> None:
        self._importer = importer
        self._name = fullname

    def open_resource(self, resource: str) -> io.BytesIO:
        return io.BytesIO(self._importer.load_binary(self._name, resource))

    def resource_path(self, resource: str) -> str:
        raise FileNotFoundError  # it is in an archive

    def is_resource(self, name: str) -> bool:
        return f"{self._name.replace('.', '/')}/{name}" in self._importer._names

    def contents(self) -> list[str]:
        before = self._name.replace(".", "/") + "/"
        below = [name.removeprefix(before) for name in sorted(self._importer._names) if name.startswith(before)]
        return list(dict.fromkeys(name.partition("/")[0] for name in below))

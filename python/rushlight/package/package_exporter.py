"""Writes modules, objects and resources to an archive, which torch's `PackageImporter` reads too."""

from __future__ import annotations

import enum
import importlib.machinery
import io
import linecache
import os
import platform
import sys
from collections import OrderedDict
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from rushlight import _C
from rushlight._atomic_write import atomic_write
from rushlight._checkpoint.errors import translated
from rushlight._checkpoint.writer import bytes_of, serialization_id
from rushlight.utils.hooks import RemovableHandle

from . import _mock
from ._digraph import DiGraph
from ._package_pickler import PackagePickler
from .find_file_dependencies import find_files_source_depends_on
from .glob_group import GlobGroup
from .importer import Importer, OrderedImporter, demangle, is_mangled, sys_importer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType, TracebackType
    from typing import BinaryIO, Self

    Hook = Callable[["PackageExporter", str], None]

_MOCKED = """\
from _mock import MockedObject


def __getattr__(attr: str):
    return MockedObject(f"{__name__}.{attr}", _suppress_err=True)
"""

#: The modules of Python through which a package would reach everything: only a pattern makes them external.
_DISALLOWED_MODULES = ("sys", "io")

_DISALLOWED = (
    "Note: While we usually use modules in the python standard library from the local environment, `{0}` has a lot of system "
    "level access and therefore can pose a security risk. We heavily recommend removing `{0}` from your packaged code. However, "
    'if that is not possible, add it to the extern list by calling PackageExporter.extern("`{0}`")'
)


class _Action(enum.Enum):
    """What is done with a module."""

    INTERN = 1
    EXTERN = 2
    MOCK = 3
    DENY = 4
    #: A module that every importer has itself.
    SKIP = 5


class PackagingErrorReason(enum.Enum):
    """Why a module cannot be in a package."""

    IS_EXTENSION_MODULE = "Module is a C extension module. torch.package supports Python modules only."
    NO_DUNDER_FILE = "Module had no __file__ defined."
    SOURCE_FILE_NOT_FOUND = "Module had a __file__, but we could not find it in your filesystem."
    DEPENDENCY_RESOLUTION_FAILED = "Dependency resolution failed."
    NO_ACTION = "Module did not match against any action pattern. Extern, mock, or intern it."
    DENIED = "Module was denied by a pattern."
    MOCKED_BUT_STILL_USED = (
        "Module was mocked out, but is still being used in the package. Please intern or extern the mocked modules if "
        "objects are supposed to be in the package."
    )


class _Pattern(NamedTuple):
    action: _Action
    names: GlobGroup
    allow_empty: bool


class EmptyMatchError(Exception):
    """No module matched a pattern that was given with ``allow_empty=False``.

    >>> issubclass(torch.package.EmptyMatchError, Exception)
    True
    """


class PackagingError(Exception):
    """Modules that cannot be in a package, with the reasons.

    Args:
        dependency_graph: the graph of the package.
        debug: whether to show how each module is reached.

    >>> issubclass(torch.package.PackagingError, Exception)
    True
    """

    def __init__(self, dependency_graph: DiGraph, debug: bool = False) -> None:
        broken: dict[PackagingErrorReason, list[str]] = {}
        for name, node in dependency_graph.nodes.items():
            if node.get("error") is not None:
                broken.setdefault(node["error"], []).append(name)
        lines = [""]
        for reason, names in broken.items():
            lines.append(f"* {reason.value}")
            for name in names:
                lines.append(f"    {name}")
                if name in _DISALLOWED_MODULES:
                    lines.append(f"      {_DISALLOWED.format(name)}")
                if dependency_graph.nodes[name].get("error_context") is not None:
                    lines.append(f"      Context: {dependency_graph.nodes[name]['error_context']}")
                if debug:
                    lines.append(f"      A path to {name}: {' -> '.join(dependency_graph.first_path(name))}")
        if not debug:
            lines += [
                "",
                "Set debug=True when invoking PackageExporter for a visualization of where broken modules are coming from!",
            ]
        self.dependency_graph = dependency_graph
        super().__init__("\n".join([*lines, ""]))


class PackageExporter:
    """Writes a package: the sources of modules, pickled objects, and resources.

    Modules are added with what they import. A pattern says of each module what is done with it, and the first that matches
    counts: its source is in the package (`intern`), the importer takes it from its own environment (`extern`), a stand-in
    replaces it (`mock`), or the package is refused (`deny`). Modules of torch and of Python are external without a pattern,
    except ``sys`` and ``io``. A package of modules that import rushlight by this name needs rushlight.

    The package is complete when the ``with`` statement ends, or after `close`. A file at the path is replaced then, and not
    before; after an error it stays as it was.

    Args:
        f: a path, or a file that is opened for writing bytes.
        importer: where modules are found: an importer, or several in their order.
        debug: whether errors show how a module is reached.

    Raises:
        PackagingError: a module cannot be in the package.
        EmptyMatchError: a pattern with ``allow_empty=False`` matched no module.

    >>> import io
    >>> file = io.BytesIO()
    >>> with torch.package.PackageExporter(file) as exporter:
    ...     exporter.save_source_string("areas", "def square(side):\\n    return side * side")
    ...     exporter.save_pickle("objects", "ones.pkl", torch.ones(2))
    >>> importer = torch.package.PackageImporter(io.BytesIO(file.getvalue()))
    >>> importer.import_module("areas").square(importer.load_pickle("objects", "ones.pkl"))
    tensor([1., 1.])
    """

    importer: Importer

    def __init__(
        self,
        f: str | os.PathLike[str] | BinaryIO,
        importer: Importer | Sequence[Importer] = sys_importer,
        debug: bool = False,
    ) -> None:
        self.debug = debug
        if isinstance(importer, Importer):
            self.importer = importer
        elif isinstance(importer, (tuple, list)):
            self.importer = OrderedImporter(*importer)
        else:
            raise TypeError(
                "importer arg should be an Importer or a sequence of Importers, got "
                + type(importer).__name__
                + " instead."
            )
        self.dependency_graph = DiGraph()
        self._patterns: list[_Pattern] = []
        self._unmatched: dict[int, GlobGroup] = {}
        self._hooks: dict[_Action, OrderedDict[int, Hook]] = {
            action: OrderedDict() for action in (_Action.EXTERN, _Action.MOCK, _Action.INTERN)
        }
        self._written: set[str] = set()
        self._unique = 0
        #: The storages of all pickles, and how they are found: see `PackagePickler`.
        self._shared: tuple[list[Any], list[int], dict[Any, Any]] = ([], [], {})
        self._file = ExitStack()
        folder, target = "archive", f
        if not hasattr(f, "write"):
            path = os.fspath(f)
            stem = os.path.splitext(os.path.basename(path))[0]
            folder = stem if stem and stem.isascii() else folder
            target = self._file.enter_context(atomic_write(path))
        self.zip_file = translated(lambda: _C._CheckpointWriter(target, folder, 64, True))

    # --- modules ---------------------------------------------------------------------------------------------------------

    def save_source_file(self, module_name: str, file_or_directory: str, dependencies: bool = True) -> None:
        """Adds a file as the source of a module, or the Python files below a folder as those of a package.

        Args:
            module_name: the name of the module in the package.
            file_or_directory: the path. A file ``__init__.py`` is the source of a package.
            dependencies: whether to add what the sources import.
        """
        path = Path(file_or_directory)
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for file in files:
            parts = list(file.relative_to(path).with_suffix("").parts) if path.is_dir() else []
            is_package = file.name == "__init__.py"
            name = ".".join([module_name, *(parts[:-1] if is_package else parts)])
            self.save_source_string(name, file.read_text(encoding="utf-8"), is_package, dependencies)

    def save_source_string(
        self, module_name: str, src: str, is_package: bool = False, dependencies: bool = True
    ) -> None:
        """Adds a text as the source of a module.

        Args:
            module_name: the name of the module in the package.
            src: the source.
            is_package: whether other modules are below this one.
            dependencies: whether to add what the source imports.
        """
        self.dependency_graph.add_node(
            module_name, source=src, provided=True, is_package=is_package, action=_Action.INTERN
        )
        if dependencies:
            self._add_dependencies(module_name, src, is_package)

    def save_module(self, module_name: str, dependencies: bool = True) -> None:
        """Adds a module, whose source is found through the importers.

        Raises:
            TypeError: the name is no text.
            ModuleNotFoundError: there is no such module.
        """
        if not isinstance(module_name, str):
            raise TypeError("save_module() expects a string input, did you perhaps mean to pass `__name__`?")
        self._intern_module(module_name, dependencies)

    def add_dependency(self, module_name: str, dependencies: bool = True) -> None:
        """Adds a module as the patterns say."""
        if self.dependency_graph.nodes.get(module_name, {}).get("provided"):
            return
        if module_name in ("torch_package_importer", "_mock"):
            self.dependency_graph.add_node(module_name, action=_Action.SKIP, provided=True)
            return
        if self._can_implicitly_extern(module_name):
            self.dependency_graph.add_node(module_name, action=_Action.EXTERN, provided=True)
            return
        for number, pattern in enumerate(self._patterns):
            if pattern.names.matches(module_name):
                self._unmatched.pop(number, None)
                self.dependency_graph.add_node(module_name, action=pattern.action, provided=True)
                if pattern.action is _Action.DENY:
                    self.dependency_graph.add_node(module_name, error=PackagingErrorReason.DENIED)
                if pattern.action is _Action.INTERN:
                    self._intern_module(module_name, dependencies)
                return
        self.dependency_graph.add_node(module_name, error=PackagingErrorReason.NO_ACTION)

    def _intern_module(self, name: str, dependencies: bool) -> None:
        module = self._import_module(name)
        is_package = hasattr(module, "__path__")
        self.dependency_graph.add_node(name, action=_Action.INTERN, provided=True, is_package=is_package)
        source = self._get_source_of_module(module)
        if source is None:
            self.dependency_graph.add_node(name, **_without_source(module))
            return
        self.dependency_graph.add_node(name, source=source)
        if dependencies:
            self._add_dependencies(name, source, is_package)

    def _add_dependencies(self, name: str, source: str, is_package: bool) -> None:
        for other in self._get_dependencies(source, name, is_package):
            self.dependency_graph.add_edge(name, other)
            self.add_dependency(other)

    def _get_dependencies(self, src: str, module_name: str, is_package: bool) -> list[str]:
        """The modules that a source imports. What cannot be imported here is not among them."""
        package = module_name if is_package else module_name.rpartition(".")[0]
        try:
            found = find_files_source_depends_on(src, package)
        except Exception as error:
            self.dependency_graph.add_node(
                module_name, error=PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED, error_context=str(error)
            )
            return []
        names: dict[str, None] = {}
        for module, name in found:
            if name is not None and self._module_exists(f"{module}.{name}"):
                names[f"{module}.{name}"] = None
            elif self._module_exists(module):
                names[module] = None
        return list(names)

    def _import_module(self, module_name: str) -> ModuleType:
        try:
            return self.importer.import_module(module_name)
        except ModuleNotFoundError as error:
            if not is_mangled(module_name):
                raise
            raise ModuleNotFoundError(
                f"Module not found: '{module_name}'. Make sure the PackageImporter that created this module is present in "
                "`self.importer`"
            ) from error

    def _module_exists(self, module_name: str) -> bool:
        try:
            self._import_module(module_name)
        except Exception:
            return False
        return True

    def _get_source_of_module(self, module: ModuleType) -> str | None:
        loader = getattr(module, "__loader__", None)
        if is_mangled(module.__name__) and loader is not None:
            return loader.get_source(demangle(module.__name__))
        path = getattr(module, "__file__", None)
        if path is None or not path.endswith(".py"):
            return None
        linecache.checkcache(path)
        lines = linecache.getlines(path, module.__dict__)
        # An empty file has no lines either.
        return "".join(lines) if lines or os.path.exists(path) else None

    def _can_implicitly_extern(self, module_name: str) -> bool:
        top = module_name.partition(".")[0]
        own = top in ("torch", "rushlight")
        return own or (top not in _DISALLOWED_MODULES and top in sys.stdlib_module_names)

    # --- objects and resources -------------------------------------------------------------------------------------------

    def save_pickle(
        self, package: str, resource: str, obj: Any, dependencies: bool = True, pickle_protocol: int = 3
    ) -> None:
        """Adds an object with its tensors. Objects with ``__reduce_package__(exporter)`` say with which function and arguments
        the importer makes them.

        Args:
            package: the name of the package that has the resource.
            resource: the name of the file.
            obj: the object.
            dependencies: whether to add the modules of its classes.
            pickle_protocol: the version of the pickle.

        Raises:
            pickle.PicklingError: a class is not found under its name by the importers.
        """
        filename = self._filename(package, resource)
        data = io.BytesIO()
        known = len(self._shared[0])
        pickler = PackagePickler(data, pickle_protocol, self)
        pickler.dump(obj)
        name = f"<{package}.{resource}>"
        self.dependency_graph.add_node(name, action=_Action.INTERN, provided=True, is_pickle=True)
        if dependencies:
            for module, objects in pickler.modules.items():
                self.dependency_graph.add_edge(name, module)
                self.add_dependency(module)
                if self.dependency_graph.nodes[module].get("action") is _Action.MOCK:
                    self.dependency_graph.add_node(
                        module,
                        error=PackagingErrorReason.MOCKED_BUT_STILL_USED,
                        error_context=f"Object(s) '{objects}' from module `{module}` was mocked out during packaging but is "
                        f"being used in resource - `{resource}` in package `{package}`. ",
                    )
        for number, storage in enumerate(self._shared[0][known:], known):
            self._write(f".data/{number}.storage", bytes_of(storage))
        self._write(filename, data.getvalue())

    def save_text(self, package: str, resource: str, text: str) -> None:
        """Adds a text as a resource of a package."""
        self.save_binary(package, resource, text.encode("utf-8"))

    def save_binary(self, package: str, resource: str, binary: bytes) -> None:
        """Adds bytes as a resource of a package."""
        self._write(self._filename(package, resource), binary)

    def get_unique_id(self) -> str:
        """A number that this exporter gives only once."""
        self._unique += 1
        return str(self._unique - 1)

    # --- what is done with modules ---------------------------------------------------------------------------------------

    def intern(
        self, include: str | Iterable[str], *, exclude: str | Iterable[str] = (), allow_empty: bool = True
    ) -> None:
        """The sources of these modules are in the package, and what they import is looked at in turn.

        Args:
            include, exclude: patterns, as those of `GlobGroup`.
            allow_empty: whether the patterns may match no module.
        """
        self._add_pattern(_Action.INTERN, include, exclude, allow_empty)

    def mock(
        self, include: str | Iterable[str], *, exclude: str | Iterable[str] = (), allow_empty: bool = True
    ) -> None:
        """Modules with a stand-in replace these modules: every name can be imported from it, and no use of it is possible.
        The arguments are those of `intern`."""
        self._add_pattern(_Action.MOCK, include, exclude, allow_empty)

    def extern(
        self, include: str | Iterable[str], *, exclude: str | Iterable[str] = (), allow_empty: bool = True
    ) -> None:
        """The importer takes these modules from its own environment. The arguments are those of `intern`."""
        self._add_pattern(_Action.EXTERN, include, exclude, allow_empty)

    def deny(self, include: str | Iterable[str], *, exclude: str | Iterable[str] = ()) -> None:
        """The package must not need these modules."""
        self._add_pattern(_Action.DENY, include, exclude, True)

    def _add_pattern(
        self, action: _Action, include: str | Iterable[str], exclude: str | Iterable[str], allow_empty: bool
    ) -> None:
        names = GlobGroup(include, exclude=exclude)
        if not allow_empty:
            self._unmatched[len(self._patterns)] = names
        self._patterns.append(_Pattern(action, names, allow_empty))

    def register_extern_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(exporter, module_name)`` for each external module when the package is written."""
        return self._register(_Action.EXTERN, hook)

    def register_mock_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(exporter, module_name)`` for each mocked module when the package is written."""
        return self._register(_Action.MOCK, hook)

    def register_intern_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(exporter, name)`` for each module and pickle in the package when it is written."""
        return self._register(_Action.INTERN, hook)

    def _register(self, action: _Action, hook: Hook) -> RemovableHandle:
        handle = RemovableHandle(self._hooks[action])
        self._hooks[action][handle.id] = hook
        return handle

    # --- the graph -------------------------------------------------------------------------------------------------------

    def dependency_graph_string(self) -> str:
        """A drawing of the modules and what they need, in the language of Graphviz."""
        return self.dependency_graph.to_dot()

    def externed_modules(self) -> list[str]:
        """The names of the external modules so far."""
        return self._with_action(_Action.EXTERN)

    def interned_modules(self) -> list[str]:
        """The names of the modules in the package so far."""
        return self._with_action(_Action.INTERN)

    def mocked_modules(self) -> list[str]:
        """The names of the mocked modules so far."""
        return self._with_action(_Action.MOCK)

    def denied_modules(self) -> list[str]:
        """The names of the modules so far that are needed and must not be."""
        return self._with_action(_Action.DENY)

    def get_rdeps(self, module_name: str) -> list[str]:
        """The names of the modules and pickles that need a module."""
        return self.dependency_graph.predecessors(module_name)

    def all_paths(self, src: str, dst: str) -> str:
        """A drawing of all ways in which one module needs another.

        Raises:
            ValueError: a module is not in the graph.
        """
        return self.dependency_graph.all_paths(src, dst)

    def _with_action(self, action: _Action) -> list[str]:
        nodes = self.dependency_graph.nodes.items()
        return sorted(name for name, node in nodes if node.get("action") is action and not node.get("is_pickle"))

    # --- the archive -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._file.__exit__(kind, error, traceback)

    def close(self) -> None:
        """Writes the modules and completes the package.

        Raises:
            PackagingError: a module cannot be in the package.
            EmptyMatchError: a pattern with ``allow_empty=False`` matched no module.
        """
        with self._file:
            for names in self._unmatched.values():
                raise EmptyMatchError(
                    f"Exporter did not match any modules to {names}, which was marked as allow_empty=False"
                )
            if any(node.get("error") is not None for node in self.dependency_graph.nodes.values()):
                raise PackagingError(self.dependency_graph, debug=self.debug)
            self._write_modules()
            self._write(".data/python_version", platform.python_version())
            self._write(".data/version", "6\n")
            self._write("byteorder", sys.byteorder)
            self._write(".data/serialization_id", serialization_id(self.zip_file))
            translated(self.zip_file.finish)
            del self.zip_file

    def _write_modules(self) -> None:
        externed = []
        for name, node in list(self.dependency_graph.nodes.items()):
            action: Any = node.get("action")
            if action in self._hooks:
                for hook in list(self._hooks[action].values()):
                    hook(self, name)
            if action is _Action.EXTERN:
                externed.append(name)
            elif action is _Action.MOCK:
                if "_mock.py" not in self._written:
                    self._write_source("_mock", Path(_mock.__file__).read_text(encoding="utf-8"), False)
                self._write_source(name, _MOCKED, hasattr(self._import_module(name), "__path__"))
            elif action is _Action.INTERN and not node.get("is_pickle"):
                self._write_source(name, node["source"], node["is_package"])
        self._write(".data/extern_modules", "\n".join(externed) + "\n")

    def _write_source(self, name: str, source: str, is_package: bool) -> None:
        self._write(f"{name.replace('.', '/')}{'/__init__.py' if is_package else '.py'}", source)

    def _write(self, filename: str, content: str | bytes | memoryview) -> None:
        if filename in self._written:
            raise AssertionError(
                f"Tried to write file '{filename}', but it already exists in this archive. Please file a bug.\n  Resources of "
                "a package need different names, and a package is closed once."
            )
        if is_mangled(filename):
            raise AssertionError(
                f"Tried to save a torch.package'd module as '{filename}'. Directly saving torch.package'd modules is not allowed."
            )
        if not hasattr(self, "zip_file"):
            raise AttributeError("'PackageExporter' object has no attribute 'zip_file'\n  The package is closed.")
        self._written.add(filename)
        data = content.encode("utf-8") if isinstance(content, str) else content
        translated(lambda: self.zip_file.record(filename, data))

    def _filename(self, package: str, resource: str) -> str:
        if os.path.split(resource)[0]:
            raise ValueError(f"{resource!r} must be only a file name")
        return f"{package.replace('.', '/')}/{resource}"


def _without_source(module: ModuleType) -> dict[str, Any]:
    """Why a module has no source."""
    path = getattr(module, "__file__", None)
    if path is None:
        return {"error": PackagingErrorReason.NO_DUNDER_FILE}
    if path.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
        return {"error": PackagingErrorReason.IS_EXTENSION_MODULE}
    return {"error": PackagingErrorReason.SOURCE_FILE_NOT_FOUND, "error_context": f"filename: {path}"}

"""Pickles an object for a package: its classes have the names that the exporter's importers find, and are remembered."""

from __future__ import annotations

import pickle
import types
from typing import ClassVar

from rushlight._checkpoint.pickler import Pickler, _checkpoint_name

from .importer import ObjMismatchError, ObjNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    from .package_exporter import PackageExporter


class PackagePickler(Pickler):
    """Pickles of one exporter share their storages, which are files of the package."""

    def __init__(self, file: BinaryIO, protocol: int, exporter: PackageExporter) -> None:
        super().__init__(file, protocol, compact=False)
        self._exporter = exporter
        self.storages, self.item_sizes, self._keys = exporter._shared
        #: The names of the objects that the pickle takes from modules.
        self.modules: dict[str, list[str]] = {}
        self._reduced: dict[int, tuple[Any, ...]] = {}

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, type) and hasattr(obj, "__reduce_package__"):
            if id(obj) not in self._reduced:
                number = int(self._exporter.get_unique_id())
                # The object is kept with its parts, so that no other one gets its id.
                self._reduced[id(obj)] = ("reduce_package", number, *obj.__reduce_package__(self._exporter)), obj
            return self._reduced[id(obj)][0]
        return super().persistent_id(obj)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module, found = _checkpoint_name(obj, name)
        if module is None:
            try:
                module, found = self._exporter.importer.get_name(obj, name)
            except (ObjNotFoundError, ObjMismatchError) as error:
                raise pickle.PicklingError(f"Can't pickle {obj}: {error}") from error
        self.modules.setdefault(module, []).append(found)
        self._write_global(obj, module, found)

    def _module_of(self, obj: Any, name: str) -> Any:
        return self._exporter._import_module(name)

    # The class of this one looks up functions in this table before it calls `save_global`.
    dispatch: ClassVar[dict[Any, Any]] = {**Pickler.dispatch, types.FunctionType: save_global}

"""`torch.package`: programs with their data in one archive, which torch reads and writes too.

`PackageExporter` writes the sources of modules, objects and resources. `PackageImporter` imports the modules of an archive beside those of the interpreter, and loads its objects and resources.
A package is a program: importing its modules and loading its pickles runs its code.
"""

from __future__ import annotations

from .file_structure_representation import Directory
from .glob_group import GlobGroup
from .importer import Importer, ObjMismatchError, ObjNotFoundError, OrderedImporter, sys_importer
from .package_exporter import EmptyMatchError, PackageExporter, PackagingError
from .package_importer import PackageImporter, is_from_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Directory",
    "EmptyMatchError",
    "GlobGroup",
    "Importer",
    "ObjMismatchError",
    "ObjNotFoundError",
    "OrderedImporter",
    "PackageExporter",
    "PackageImporter",
    "PackagingError",
    "is_from_package",
    "sys_importer",
]


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

"""`torch.package`: programs with their data in one archive. Archives of torch can be read; none are written.

`PackageImporter` imports the modules of an archive beside those of the interpreter, and loads its objects and resources.
A package is a program: importing its modules and loading its pickles runs its code.
"""

from __future__ import annotations

from rushlight._absent import declare

from .file_structure_representation import Directory
from .glob_group import GlobGroup
from .importer import Importer, ObjMismatchError, ObjNotFoundError, OrderedImporter, sys_importer
from .package_importer import PackageImporter, is_from_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "archives of programs are not written",
        """
        class PackageExporter
        error EmptyMatchError(Exception)
        error PackagingError(Exception)
        """,
    ),
    "Directory",
    "GlobGroup",
    "Importer",
    "ObjMismatchError",
    "ObjNotFoundError",
    "OrderedImporter",
    "PackageImporter",
    "is_from_package",
    "sys_importer",
]


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

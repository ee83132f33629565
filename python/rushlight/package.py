"""`torch.package`: archives of programs, which rushlight neither writes nor reads."""

from __future__ import annotations

from rushlight._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "archives of programs are neither written nor read",
        """
        is_from_package(obj) = False
        class Directory GlobGroup Importer OrderedImporter PackageExporter PackageImporter
        error EmptyMatchError(Exception)
        error ObjMismatchError(Exception)
        error ObjNotFoundError(Exception)
        error PackagingError(Exception)
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

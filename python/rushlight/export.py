"""`torch.export`: the export of programs, which rushlight does not have."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "programs run eagerly, so that there are no graphs to export. Save a module's state_dict with torch.save",
        """
        default_decompositions dims draft_export export load register_dataclass save unflatten
        class AdditionalInputs Constraint CustomDecompTable Dim ExportBackwardSignature ExportGraphSignature
        class ExportedProgram FlatArgsAdapter ModuleCallEntry ModuleCallSignature ShapesCollection
        class UnflattenedModule
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

"""`torch.onnx`: the export to ONNX, which rushlight does not have."""

from __future__ import annotations

from rushlight._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "programs run eagerly, so that there are no graphs to export",
        """
        is_in_onnx_export() = False
        export
        class ExportableModule InputObserver ONNXProgram
        error OnnxExporterError(RuntimeError)
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

"""`torch.onnx`: the export to ONNX, which rushlight does not have."""

from __future__ import annotations

from rushlight._unsupported import declare

from . import operators
from ._enums import OperatorExportTypes, TensorProtoDataType, TrainingMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "programs run eagerly, so that there are no graphs to export",
        """
        is_in_onnx_export() = False
        register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version) = None
        unregister_custom_op_symbolic(symbolic_name, opset_version) = None
        export
        class ExportableModule InputObserver ONNXProgram
        error OnnxExporterError(RuntimeError)
        """,
    ),
    "OperatorExportTypes",
    "TensorProtoDataType",
    "TrainingMode",
    "operators",
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

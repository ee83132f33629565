"""Classes of torch's compiler and engine that libraries name in annotations and in `isinstance`."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PUBLIC = "torch"

__all__ = [
    *declare(
        globals(),
        "programs run eagerly, and sizes are numbers",
        """
        class PyTorchFileReader PyTorchFileWriter ScriptObject SymBool SymFloat SymInt
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

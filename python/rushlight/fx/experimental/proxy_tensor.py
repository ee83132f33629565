"""Tracing of programs, which rushlight does not have."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "programs run eagerly, so that there are no graphs to trace",
        """
        dispatch_trace get_innermost_proxy_mode get_proxy_mode handle_sym_dispatch make_fx
        maybe_disable_thunkify maybe_enable_thunkify selective_decompose
        class DecompositionInterpreter PythonKeyTracer
        """,
    ),
    "py_sym_types",
]

#: The classes of symbolic numbers: there are none.
py_sym_types: tuple[()] = ()

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

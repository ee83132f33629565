"""Marks for Intel's profilers (`torch.profiler.itt`). There is no support for them."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _refuse(name: str) -> Exception:
    return RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


__all__ = [
    *declare(
        globals(),
        "there is no support for Intel's profilers",
        """
        is_available() = False
        mark(msg)
        range(msg, *args, **kwargs)
        range_pop()
        range_push(msg)
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

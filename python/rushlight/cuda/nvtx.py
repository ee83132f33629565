"""Marks for NVIDIA's profilers (`torch.cuda.nvtx`). There is no support for them, so that every call is refused."""

from __future__ import annotations

from rushlight._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _refuse(name: str) -> Exception:
    return RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


__all__ = [
    *declare(
        globals(),
        "there is no support for NVIDIA's profilers",
        """
        mark(msg)
        range(msg, *args, **kwargs)
        range_end(range_id)
        range_pop()
        range_push(msg)
        range_start(msg)
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

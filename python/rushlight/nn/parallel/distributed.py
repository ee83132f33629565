"""Modules that several processes train together, which rushlight does not have."""

from __future__ import annotations

from rushlight._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "there are no process groups",
        """
        class DistributedDataParallel(module, device_ids=None, output_device=None, **options)
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

"""Communication that gradients pass through (`torch.distributed.nn`), which rushlight does not have."""

from __future__ import annotations

from rushlight._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "this part of distributed training does not exist yet",
        """
        all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce reduce_scatter scatter
        class Function ReduceOp RemoteModule group
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

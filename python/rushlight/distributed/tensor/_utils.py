"""The computation of a rank's part of a tensor (`torch.distributed.tensor._utils`), which rushlight does not have."""

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
        compute_local_shape_and_global_offset
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

"""Tensors of several processes (`torch.distributed.tensor`), which rushlight does not have, and descriptions of their parts."""

from __future__ import annotations

from rushlight._absent import declare
from rushlight.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    *declare(
        globals(),
        "this part of distributed training does not exist yet",
        """
        distribute_module distribute_tensor empty full ones rand randn zeros
        class DTensor
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

"""Scaled gradients of divided parameters (`torch.distributed.fsdp.sharded_grad_scaler`), which rushlight does not have."""

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
        class ShardedGradScaler
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

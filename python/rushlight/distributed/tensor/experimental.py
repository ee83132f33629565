"""Tensors of several processes in regions of a program (`torch.distributed.tensor.experimental`)."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "this part of distributed training does not exist yet",
        """
        context_parallel implicit_replication local_map register_sharding
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

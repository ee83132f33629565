"""The former place of `torch.distributed.fsdp.fully_shard`."""

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
        fully_shard register_fsdp_forward_method
        class CPUOffloadPolicy FSDPModule MixedPrecisionPolicy OffloadPolicy UnshardHandle
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

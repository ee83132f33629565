"""Which modules are divided (`torch.distributed.fsdp.wrap`), which rushlight does not have."""

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
        always_wrap_policy enable_wrap lambda_auto_wrap_policy size_based_auto_wrap_policy transformer_auto_wrap_policy wrap
        class CustomPolicy ModuleWrapPolicy
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

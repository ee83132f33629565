"""Gradients through calls of other processes (`torch.distributed.autograd`), which rushlight does not have."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "there are no remote calls",
        """
        is_available() = False
        backward get_gradients
        class DistAutogradContext context
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

"""Gradients of each sample by expanded weights, which rushlight does not have."""

from __future__ import annotations

from rushlight._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "there are no expanded weights. Use torch.func.vmap over torch.func.grad",
        """
        call_for_per_sample_grads
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

"""Instructions of a GPU in the text of a program (`torch._higher_order_ops.inline_asm_elementwise`)."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [*declare(globals(), "kernels are made of expressions, not of instructions", "inline_asm_elementwise")]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

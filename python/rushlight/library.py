"""`torch.library`: operators of programs, which cannot be registered with rushlight."""

from __future__ import annotations

from rushlight._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "operators cannot be registered. Write a function, or a torch.autograd.Function for gradients of its own",
        """
        custom_op define fallthrough_kernel get_ctx get_kernel impl impl_abstract infer_schema register_autocast
        register_fake register_torch_dispatch register_vmap triton_op wrap_triton
        class Library
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

"""`torch.library`: operators of programs, from Python functions. torch's registry itself is not there."""

from __future__ import annotations

from rushlight._absent import declare
from rushlight._custom_ops import CustomOpDef as CustomOpDef
from rushlight._custom_ops import custom_op as custom_op
from rushlight._custom_ops import register_autograd as register_autograd
from rushlight._custom_ops import register_fake as register_fake
from rushlight._custom_ops import register_kernel as register_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "there is no registry of schemas. Use torch.library.custom_op",
        """
        define fallthrough_kernel get_ctx get_kernel impl impl_abstract infer_schema register_autocast
        register_torch_dispatch register_vmap triton_op wrap_triton
        class Library
        """,
    ),
    "CustomOpDef",
    "custom_op",
    "register_autograd",
    "register_fake",
    "register_kernel",
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

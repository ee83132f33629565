"""`torch._custom_ops`: the older functions that define operators of programs. `torch.library` has those of today."""

from __future__ import annotations

from rushlight import library
from rushlight.library import get_ctx, infer_schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract"]


def custom_op(qualname: str, func_or_schema: Callable[..., Any] | str | None = None) -> Any:
    """Defines an operator by a schema, or by the annotations of a function that is not called. Usable as a decorator.

    >>> from rushlight import _custom_ops
    >>> _custom_ops.custom_op("example::added_one", "(Tensor x) -> Tensor")
    >>> added_one = _custom_ops.impl("example::added_one", func=lambda x: x + 1)
    >>> torch.ops.example.added_one(torch.ones(2))
    tensor([2., 2.])
    """

    def define(function: Callable[..., Any]) -> Callable[..., Any]:
        library.define(qualname, infer_schema(function, mutates_args=()))
        return function

    if isinstance(func_or_schema, str):
        library.define(qualname, func_or_schema)
        return None
    return define if func_or_schema is None else define(func_or_schema)


def impl(
    qualname: str, *, device_types: str | Iterable[str] = ("cpu", "cuda"), func: Callable[..., Any] | None = None
) -> Any:
    """Registers the function of an operator for devices of some types. Usable as a decorator."""
    types = device_types if isinstance(device_types, str) else list(device_types)
    return library.register_kernel(qualname, types, func)


def impl_abstract(qualname: str, *, func: Callable[..., Any] | None = None) -> Any:
    """Registers the function of an operator for tensors on the device ``meta``. Usable as a decorator."""
    return library.register_fake(qualname, func)

"""`torch.fx`: graphs of programs, which rushlight does not have. Hooks of modules see every call."""

from __future__ import annotations

from rushlight._absent import declare

from . import experimental

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "programs run eagerly, so that there are no graphs to transform",
        """
        map_arg replace_pattern symbolic_trace
        class Graph GraphModule Interpreter Node Proxy Tracer Transformer
        """,
    ),
    "experimental",
    "has_side_effect",
    "wrap",
]


def wrap(fn_or_name: Any) -> Any:
    """Returns its argument. In torch it keeps a function from being traced, which happens to none here.

    >>> torch.fx.wrap(len)
    <built-in function len>
    """
    return fn_or_name


def has_side_effect(fn: Any) -> Any:
    """Returns its argument. In torch it keeps calls of a function in graphs, which there are none of here.

    >>> torch.fx.has_side_effect(print)
    <built-in function print>
    """
    return fn


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

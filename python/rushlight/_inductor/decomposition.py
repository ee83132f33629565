"""Functions in place of operators (`torch._inductor.decomposition`), for a compiler that rushlight does not have."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _Function = TypeVar("_Function", bound=Callable[..., Any])

__all__ = ["register_decomposition"]


def register_decomposition(ops: Any) -> Callable[[_Function], _Function]:
    """A decorator that would give the compiler a function in place of operators. It returns the function.

    >>> from rushlight._inductor.decomposition import register_decomposition
    >>> @register_decomposition([torch.ops.aten.relu.default])
    ... def relu(x):
    ...     return x.clamp(min=0)
    >>> relu(torch.tensor(-1))
    tensor(0)
    """
    return lambda function: function


def __dir__() -> list[str]:
    return __all__

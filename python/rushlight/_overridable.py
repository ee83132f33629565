"""Functions written in Python in whose place classes and modes may answer, as they do for operators."""

from __future__ import annotations

from functools import wraps

from rushlight._C import _overridden as overridden
from rushlight._loading import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _Function = TypeVar("_Function", bound=Callable[..., Any])

#: The attribute of functions that classes and modes may answer.
ASKS = "_asks_overrides"


def overridable(function: _Function) -> _Function:
    """The function, or what `rushlight.overrides` finds that its arguments' classes make of the call.

    Where a wrapper would cost as much as the function, that `asks` by itself.
    """

    @wraps(function)
    def asking(*args: Any, **kwargs: Any) -> Any:
        if overridden(args) or (kwargs and overridden((*kwargs.values(),))):
            return answer(asking, args, kwargs)
        return function(*args, **kwargs)

    return asks(asking)  # type: ignore[return-value] # called as the function is


def asks(function: _Function) -> _Function:
    """Marks a function whose first lines are ``if overridden((input,)): return answer(function, (input,), {...})``."""
    setattr(function, ASKS, True)
    return function


def answer(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return load("rushlight.overrides")._answer(function, args, kwargs or None)

"""Makes functions written in Python overridable by classes and modes, as operators are (``__torch_function__``)."""

from __future__ import annotations

from functools import wraps

from rushlight._C import _overridden as overridden
from rushlight._loading import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _Function = TypeVar("_Function", bound=Callable[..., Any])

#: The attribute that marks overridable functions.
OVERRIDABLE_MARK = "_overridable"


def overridable(function: _Function) -> _Function:
    """Makes a function overridable: calls with arguments of overriding classes go to `rushlight.overrides`.

    ``mark_overridable`` is for functions for which a wrapper would cost too much; they make the check themselves.
    """

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if overridden(args) or (kwargs and overridden((*kwargs.values(),))):
            return call_override(wrapper, args, kwargs)
        return function(*args, **kwargs)

    return mark_overridable(wrapper)  # type: ignore[return-value] # called like the function


def mark_overridable(function: _Function) -> _Function:
    """Marks a function that begins with ``if overridden((input,)): return call_override(function, (input,), {...})``."""
    setattr(function, OVERRIDABLE_MARK, True)
    return function


def call_override(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return load("rushlight.overrides")._call_override(function, args, kwargs or None)

"""Functions written in Python in whose place classes and modes may answer, as they do for operators."""

from __future__ import annotations

from functools import wraps

from rushlight._C import _overridden
from rushlight._loading import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _Function = TypeVar("_Function", bound=Callable[..., Any])


def overridable(function: _Function) -> _Function:
    """The function, or what `rushlight.overrides` finds that its arguments' classes make of the call."""

    @wraps(function)
    def asking(*args: Any, **kwargs: Any) -> Any:
        if _overridden(args) or (kwargs and _overridden((*kwargs.values(),))):
            return load("rushlight.overrides")._answer(asking, args, kwargs or None)
        return function(*args, **kwargs)

    return asking  # type: ignore[return-value] # called as the function is

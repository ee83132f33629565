"""Replaces functions while a program is traced, so that calls of them with proxies are recorded."""

from __future__ import annotations

import builtins
import functools
import inspect

from rushlight.utils import _pytree as pytree

from .proxy import Proxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The functions that `wrap` was called for: the variables of a module, and the name there.
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}
_ABSENT = object()


class _Patcher:
    """Sets attributes and variables, and restores them at the end of its ``with`` block."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._visited: set[int] = set()

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *exception: object) -> None:
        while self._undo:
            self._undo.pop()()

    def patch_method(self, owner: type, name: str, value: Any, deduplicate: bool = True) -> None:
        """Sets an attribute of a class. A second value for the same attribute is set as well."""
        before = vars(owner).get(name, _ABSENT)
        self._undo.append(lambda: delattr(owner, name) if before is _ABSENT else setattr(owner, name, before))
        setattr(owner, name, value)

    def patch_variable(self, variables: dict[str, Any], name: str, value: Any) -> None:
        """Sets a variable of a module."""
        before = variables.get(name, _ABSENT)

        def undo() -> None:
            if before is _ABSENT:
                variables.pop(name, None)
            else:
                variables[name] = before

        self._undo.append(undo)
        variables[name] = value

    def first_visit(self, variables: dict[str, Any]) -> bool:
        """Whether this is the first call for these variables."""
        if id(variables) in self._visited:
            return False
        self._visited.add(id(variables))
        return True


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, except that calls with proxies are recorded."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        proxy = next((leaf for leaf in leaves if isinstance(leaf, Proxy)), None)
        if proxy is None:
            return function(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return wrapped


def _autowrap_check(patcher: _Patcher, variables: dict[str, Any], function_ids: set[int]) -> None:
    """Replaces those of a module's variables that are among the given functions."""
    if not patcher.first_visit(variables):
        return
    for name, value in list(variables.items()):
        if not name.startswith("_") and callable(value) and id(value) in function_ids:
            patcher.patch_variable(variables, name, _recording(value))


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """Replaces the functions that `wrap` was called for."""
    for (_, name), variables in list(_wrapped.items()):
        function = variables.get(name, getattr(builtins, name, _ABSENT))
        if function is not _ABSENT:
            patcher.patch_variable(variables, name, _recording(function))


def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Lets calls of a function with proxies be recorded as one step, instead of being entered. Called at the top level of
    a module with the name of one of its variables or of a builtin function, or as a decorator there.

    Returns:
        its argument.

    Raises:
        NotImplementedError: called inside a function.

    >>> torch.fx.wrap("len")
    'len'
    >>> torch.fx.symbolic_trace(lambda x: len(x)).graph.find_nodes(op="call_function")
    [len_1]
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    assert caller is not None
    if caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name

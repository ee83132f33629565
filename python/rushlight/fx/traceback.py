"""The ``meta`` of the node that is being run, for the nodes that a program makes in the meantime."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from copy import copy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .node import Node

__all__ = [
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "set_current_meta",
    "set_stack_trace",
]

_KEPT = ("custom", "nn_module_stack", "source_fn_stack", "stack_trace", "torch_fn")

_current: dict[str, Any] = {}
_preserving = False


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """A context in which new nodes get the ``meta`` of the node that is being run.

    >>> with torch.fx.traceback.preserve_node_meta():
    ...     torch.fx.traceback.has_preserved_node_meta()
    True
    """
    global _preserving, _current
    before = _preserving, _current
    _preserving, _current = enable, dict(_current)
    try:
        yield
    finally:
        _preserving, _current = before


def has_preserved_node_meta() -> bool:
    """Whether new nodes get the ``meta`` of the node that is being run.

    >>> torch.fx.traceback.has_preserved_node_meta()
    False
    """
    return _preserving


def set_stack_trace(stack: list[str]) -> None:
    """Sets the lines of the program for the nodes that follow.

    >>> torch.fx.traceback.set_stack_trace(["line"])
    """
    if _preserving and stack:
        _current["stack_trace"] = "".join(stack)


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """A context in which new nodes get these entries in ``meta["custom"]``.

    >>> with torch.fx.traceback.annotate({"stage": 1}):
    ...     gm = torch.fx.symbolic_trace(lambda x: x + 1)
    >>> gm.graph.find_nodes(op="call_function")[0].meta["custom"]
    {'stage': 1}
    """
    before = _current.get("custom")
    _current["custom"] = {**(before or {}), **annotation_dict}
    try:
        yield
    finally:
        if before is None:
            del _current["custom"]
        else:
            _current["custom"] = before


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[Any], Any]:
    """A decorator: `annotate` around the function.

    >>> @torch.fx.traceback.annotate_fn({"stage": 1})
    ... def program(x):
    ...     return x + 1
    """
    from functools import wraps

    def decorated(function: Any) -> Any:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return wrapped

    return decorated


def format_stack() -> list[str]:
    """The lines of the program: those of the node that is being run, or the current ones.

    >>> isinstance(torch.fx.traceback.format_stack(), list)
    True
    """
    if _preserving:
        return [_current.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextmanager
def set_current_meta(node: Node) -> Iterator[None]:
    """A context in which ``node`` is the node that is being run.

    >>> with torch.fx.traceback.set_current_meta(torch.fx.Graph().placeholder("x")):
    ...     pass
    """
    global _current
    if not (_preserving and node.meta):
        yield
        return
    before, _current = _current, {**_current, **node.meta}
    try:
        yield
    finally:
        _current = before


def get_current_meta() -> dict[str, Any]:
    """The ``meta`` for new nodes.

    >>> torch.fx.traceback.get_current_meta()
    {}
    """
    return _current


def _apply(node: Node) -> None:
    """Gives a new node the ``meta`` for it."""
    if "custom" in _current:
        node.meta["custom"] = copy(_current["custom"])
    if _preserving:
        node.meta.update((key, copy(_current[key])) for key in _KEPT if key in _current)


def __dir__() -> list[str]:
    return __all__

"""`torch.compiler`: what programs ask of a compiler and tell it. There is none: everything runs eagerly, as it is written."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
]


def is_compiling() -> bool:
    """Whether the calling code is being compiled: never.

    >>> torch.compiler.is_compiling()
    False
    """
    return False


def is_dynamo_compiling() -> bool:
    """Whether the calling code is being traced for a compiler: never.

    >>> torch.compiler.is_dynamo_compiling()
    False
    """
    return False


def is_exporting() -> bool:
    """Whether the calling code is being exported: never.

    >>> torch.compiler.is_exporting()
    False
    """
    return False


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Gives ``fn`` back, or a decorator that does: what is never compiled needs no exception.

    >>> @torch.compiler.disable(recursive=False)
    ... def double(x):
    ...     return x * 2
    >>> double(2)
    4
    """
    return (lambda decorated: decorated) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """Gives a function, or a list of functions, back: there is no graph that they could break.

    >>> torch.compiler.allow_in_graph(len)([1, 2])
    2
    """
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a function back; it is called each time.

    >>> torch.compiler.assume_constant_result(len)([1, 2])
    2
    """
    return fn


def cudagraph_mark_step_begin() -> None:
    """Marks a step for graphs of a card, of which there are none.

    >>> torch.compiler.cudagraph_mark_step_begin()
    """


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The compilers: none.

    >>> torch.compiler.list_backends()
    []
    """
    return []


def reset() -> None:
    """Forgets what was compiled, which is nothing.

    >>> torch.compiler.reset()
    """


def __dir__() -> list[str]:
    return __all__

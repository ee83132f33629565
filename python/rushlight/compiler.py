"""`torch.compiler`: stubs, because nothing is compiled. Programs run eagerly."""

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
    """Whether the calling code is being compiled: always False.

    >>> torch.compiler.is_compiling()
    False
    """
    return False


def is_dynamo_compiling() -> bool:
    """Whether the calling code is being traced for a compiler: always False.

    >>> torch.compiler.is_dynamo_compiling()
    False
    """
    return False


def is_exporting() -> bool:
    """Whether the calling code is being exported: always False.

    >>> torch.compiler.is_exporting()
    False
    """
    return False


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Returns ``fn``, or a decorator that returns its argument. Nothing is compiled anyway.

    >>> @torch.compiler.disable(recursive=False)
    ... def double(x):
    ...     return x * 2
    >>> double(2)
    4
    """
    return (lambda decorated: decorated) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """Returns a function, or a list of functions, unchanged.

    >>> torch.compiler.allow_in_graph(len)([1, 2])
    2
    """
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function unchanged. Its result is computed at each call.

    >>> torch.compiler.assume_constant_result(len)([1, 2])
    2
    """
    return fn


def cudagraph_mark_step_begin() -> None:
    """Marks a step for CUDA graphs. It has no effect.

    >>> torch.compiler.cudagraph_mark_step_begin()
    """


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The available compilers: none.

    >>> torch.compiler.list_backends()
    []
    """
    return []


def reset() -> None:
    """Discards compiled code. It has no effect.

    >>> torch.compiler.reset()
    """


def __dir__() -> list[str]:
    return __all__

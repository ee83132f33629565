"""What functions and operators share that are overridden: the modes of a thread, and the order in which classes are asked.

`rushlight.overrides` has the public functions, for ``__torch_function__``; `rushlight._torch_dispatch` calls the handlers of
operators, ``__torch_dispatch__``.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import local

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from rushlight.overrides import TorchFunctionMode


class _Modes(local):
    """The active modes of a thread. The innermost is last. Those of ``__torch_dispatch__`` come after all others."""

    def __init__(self) -> None:
        self.stack: list[TorchFunctionMode] = []
        self.dispatch: list[Any] = []

    def expect(self) -> None:
        """Has the engine ask for overrides as long as there is a mode, and for handlers as long as one handles operators."""
        _C._expect_overrides(len(self.stack) + len(self.dispatch))
        _C._expect_handlers(bool(self.dispatch))


modes = _Modes()


def active_dispatch_modes() -> list[Any]:
    """The modes of this thread that handle operators. The innermost is last."""
    return modes.dispatch if _C._has_mode() else []


def enter_dispatch_mode(mode: Any) -> None:
    modes.dispatch = [*modes.dispatch, mode]
    modes.expect()


def leave_dispatch_mode() -> None:
    """
    Raises:
        IndexError: no mode is active.
    """
    if not modes.dispatch:
        raise IndexError("pop from an empty deque")
    modes.dispatch = modes.dispatch[:-1]
    modes.expect()


@contextmanager
def without_dispatch_modes(outer: int) -> Iterator[None]:
    """Deactivates the modes that handle operators in the block, but so many of the outer ones."""
    before = modes.dispatch
    modes.dispatch = before[:outer]
    modes.expect()
    try:
        yield
    finally:
        modes.dispatch = before
        modes.expect()


def leaves(arguments: Iterable[Any]) -> Iterator[Any]:
    """The arguments, and the elements of lists among them."""
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            yield from argument
        else:
            yield argument


def one_of_each_class(arguments: Iterable[Any], is_asked: Callable[[Any], bool]) -> list[Any]:
    """One of the arguments of each class that is asked, in the order in which they are: subclasses before their bases."""
    found: list[Any] = []
    for argument in arguments:
        kind = type(argument)
        if any(kind is type(other) for other in found) or not is_asked(argument):
            continue
        later = (place for place, other in enumerate(found) if issubclass(kind, type(other)))
        found.insert(next(later, len(found)), argument)
    return found


def handling_classes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[type]:
    """The classes among the arguments that handle operators, in the order in which they are asked."""

    def handles(argument: Any) -> bool:
        return type(argument) is not Tensor and _C._handles_operators(type(argument))

    return [type(one) for one in one_of_each_class(leaves((*args, *kwargs.values())), handles)]


def without_handlers(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a function that no handler sees."""
    with without_dispatch_modes(0):
        if handling_classes(args, kwargs):
            return Tensor.__torch_dispatch__(func, (), args, kwargs)
        return func(*args, **kwargs)

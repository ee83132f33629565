"""Switches for recording gradients: context managers that also decorate functions."""

from __future__ import annotations

from rushlight import _C
from rushlight._set_module import set_module
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, TypeVar, overload

    _F = TypeVar("_F", bound=Callable[..., Any])


class _DecoratorContextManager:
    """A context manager that also decorates functions. It has torch's name, because programs derive from it.

    A class with constructor arguments overrides ``clone``: each call of a decorated function enters a new instance.
    """

    __slots__ = ()

    def __call__(self, function: _F) -> _F:
        import functools
        import inspect

        if inspect.isclass(function):
            warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
                "the `__init__` method and nothing else.",
                FutureWarning,
            )
        if inspect.isgeneratorfunction(function):
            return self._around_generator(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    def _around_generator(self, function: Any) -> Any:
        """The mode is active while the generator runs, and inactive between its steps."""
        import functools

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            step, argument = generator.send, None
            while True:
                try:
                    with self.clone():
                        value = step(argument)
                except StopIteration as stop:
                    return stop.value
                try:
                    step, argument = generator.send, (yield value)
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as error:
                    step, argument = generator.throw, error

        return wrapped

    def clone(self) -> Self:
        """A new instance with the same behaviour."""
        return type(self)()

    if TYPE_CHECKING:

        def __enter__(self) -> None: ...
        def __exit__(self, *exception: object) -> None: ...


class _Mode(_DecoratorContextManager):
    """A mode of the current thread that is active inside the block."""

    __slots__ = ("_before",)
    _before: bool


class _GradMode(_Mode):
    __slots__ = ()

    def __exit__(self, *exception: object) -> None:
        _C._set_grad_enabled(self._before)


class no_grad(_GradMode):
    """Disables recording of gradients inside the block.

    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @overload
        def __new__(cls, orig_func: None = None) -> Self: ...
        @overload
        def __new__(cls, orig_func: _F) -> _F: ...  # type: ignore[misc] # `@torch.no_grad`

    def __new__(cls, orig_func: Any = None) -> Any:
        mode = object.__new__(cls)
        return mode if orig_func is None else mode(orig_func)

    def __enter__(self) -> None:
        self._before = _C._set_grad_enabled(False)


class enable_grad(_GradMode):
    """Enables recording inside the block, also within `no_grad`. It also decorates functions.

    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.no_grad(), torch.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @overload
        def __new__(cls, orig_func: None = None) -> Self: ...
        @overload
        def __new__(cls, orig_func: _F) -> _F: ...  # type: ignore[misc] # `@torch.enable_grad`

    def __new__(cls, orig_func: Any = None) -> Any:
        mode = object.__new__(cls)
        return mode if orig_func is None else mode(orig_func)

    def __enter__(self) -> None:
        self._before = _C._set_grad_enabled(True)


class set_grad_enabled(_GradMode):
    """Enables or disables recording, immediately or for a ``with`` block.

    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.set_grad_enabled(False):
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    __slots__ = ("mode",)
    mode: bool

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        try:
            self._before = _C._set_grad_enabled(mode)
        except TypeError:
            from rushlight._text import kind_of

            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {kind_of(mode)}"
            ) from None

    def __call__(self, function: _F) -> _F:
        _C._set_grad_enabled(self._before)
        return super().__call__(function)

    def __enter__(self) -> None:
        _C._set_grad_enabled(self.mode)

    def clone(self) -> Self:
        return type(self)(self.mode)


class inference_mode(_Mode):
    """Disables recording inside the block, and tensors created there can never be recorded. Cheaper than `no_grad`.

    Args:
        mode: False has no effect; or the function to decorate.

    >>> with torch.inference_mode():
    ...     y = torch.ones(1) * 2
    >>> y.is_inference(), y.requires_grad
    (True, False)
    """

    __slots__ = ("_grad_before", "mode")
    _grad_before: bool
    mode: bool

    if TYPE_CHECKING:

        @overload
        def __new__(cls, mode: bool = True) -> Self: ...
        @overload
        def __new__(cls, mode: _F) -> _F: ...  # type: ignore[misc] # `@torch.inference_mode`

    def __new__(cls, mode: Any = True) -> Any:
        made = object.__new__(cls)
        if not isinstance(mode, bool):
            made.mode = True
            return made(mode)
        made.mode = mode
        return made

    def __enter__(self) -> None:
        self._before = _C._set_inference_enabled(self.mode)
        self._grad_before = _C._set_grad_enabled(not self.mode)

    def __exit__(self, *exception: object) -> None:
        _C._set_grad_enabled(self._grad_before)
        _C._set_inference_enabled(self._before)

    def clone(self) -> Self:
        return type(self)(self.mode)


set_module("rushlight.utils._contextlib", _DecoratorContextManager)
set_module("rushlight.autograd.grad_mode", enable_grad, inference_mode, no_grad, set_grad_enabled)

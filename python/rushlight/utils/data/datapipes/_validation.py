"""Decorators of data pipes: pipes that give other items in each pass, and checks of items and arguments by annotations."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from .datapipe import IterDataPipe, MapDataPipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "argument_validation",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "runtime_validation",
    "runtime_validation_disabled",
]

#: What the contexts below have set.
_state = {"deterministic": False, "validated": True}


class _Setting:
    """A switch that is set when it is made, and back at the end of its block."""

    _name: str
    _value: bool

    def __init__(self) -> None:
        self._before, _state[self._name] = _state[self._name], self._value

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        _state[self._name] = self._before


class guaranteed_datapipes_determinism(_Setting):
    """A context in which pipes marked by `non_deterministic` cannot be made.

    >>> from rushlight.utils.data import IterDataPipe, guaranteed_datapipes_determinism, non_deterministic
    >>> @non_deterministic
    ... class Shuffled(IterDataPipe):
    ...     pass
    >>> with guaranteed_datapipes_determinism():
    ...     try:
    ...         Shuffled()
    ...     except TypeError as error:
    ...         print(str(error).partition(",")[0])
    Shuffled is non-deterministic
    """

    _name, _value = "deterministic", True


class runtime_validation_disabled(_Setting):
    """A context in which `runtime_validation` checks nothing.

    >>> with torch.utils.data.runtime_validation_disabled():
    ...     pass
    """

    _name, _value = "validated", False


class non_deterministic:
    """Marks a class of pipes whose items differ from pass to pass, so that `guaranteed_datapipes_determinism` refuses it.

    Args:
        arg: the class; or a function of the constructor's arguments that returns whether these make a pipe of this
            kind. Then the result decorates the class.

    Raises:
        TypeError: what is decorated is no class of `IterDataPipe`.

    >>> from rushlight.utils.data import IterDataPipe, non_deterministic
    >>> @non_deterministic(lambda shuffled: shuffled)
    ... class Numbers(IterDataPipe):
    ...     def __init__(self, shuffled):
    ...         pass
    >>> Numbers(True)
    Numbers
    """

    cls = None  # type: Any

    def __init__(self, arg: Any) -> None:
        self.deterministic_fn: Callable[..., bool] | None = None
        if isinstance(arg, type):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(
                    f"Only `IterDataPipe` can be decorated with `non_deterministic`, but {arg.__name__} is found"
                )
            self.cls = arg
        elif callable(arg):
            self.deterministic_fn = arg
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is None:
            (cls,) = args
            if not (isinstance(cls, type) and issubclass(cls, IterDataPipe)):
                raise TypeError(f"Only `IterDataPipe` can be decorated, but {cls.__name__} is found")
            self.cls = cls
            return self.deterministic_wrapper_fn
        self._refuse(True, "")
        return self.cls(*args, **kwargs)

    def deterministic_wrapper_fn(self, *args: Any, **kwargs: Any) -> Any:
        """Makes the pipe, unless its items would differ and must not."""
        assert self.deterministic_fn is not None
        differs = self.deterministic_fn(*args, **kwargs)
        if not isinstance(differs, bool):
            raise TypeError(
                "deterministic_fn of `non_deterministic` decorator is required to return a boolean value, "
                f"but {type(differs)} is found"
            )
        self._refuse(differs, " with the inputs")
        return self.cls(*args, **kwargs)

    def _refuse(self, differs: bool, where: str) -> None:
        if differs and _state["deterministic"]:
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic{where}, but you set 'guaranteed_datapipes_determinism'. "
                "You can turn off determinism for this DataPipe if that is acceptable for your application"
            )


def _items(kind: Any) -> Any:
    """The annotation of a pipe's items: ``int`` for ``IterDataPipe[int]`` and for classes that derive from it."""
    if (origin := get_origin(kind)) is not None:
        return (
            get_args(kind)[0] if isinstance(origin, type) and issubclass(origin, (IterDataPipe, MapDataPipe)) else Any
        )
    for base in getattr(kind, "__orig_bases__", ()):
        found = _items(base)
        if found is not Any and not isinstance(found, TypeVar):
            return found
    bases = [base for base in getattr(kind, "__bases__", ()) if base not in (IterDataPipe, MapDataPipe)]
    return next((found for found in map(_items, bases) if found is not Any), Any)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is one of an annotation, with its elements."""
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if len(_alternatives(hint)) > 1:
        return any(_fits(value, one) for one in _alternatives(hint))
    hint = type(None) if hint is None else hint
    origin, parts = get_origin(hint), get_args(hint)
    if origin is None:
        return not isinstance(hint, type) or isinstance(value, hint)
    if not isinstance(origin, type) or not isinstance(value, origin):
        return not isinstance(origin, type)
    items: Any = value
    if issubclass(origin, tuple):
        if len(parts) == 2 and parts[1] is Ellipsis:
            return all(_fits(item, parts[0]) for item in items)
        return len(items) == len(parts) and all(map(_fits, items, parts))
    if issubclass(origin, Mapping):
        return all(_fits(key, parts[0]) and _fits(item, parts[1]) for key, item in items.items())
    if issubclass(origin, (Sequence, set, frozenset)):
        return all(_fits(item, parts[0]) for item in items)
    return True


def _named(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint)


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Checks that the arguments of a function that are annotated as pipes are such. As in torch, an annotation with the
    type of items, ``IterDataPipe[int]``, is not checked.

    Raises:
        TypeError: when the function is called, an argument with such an annotation is no ``IterDataPipe``.

    >>> from rushlight.utils.data import IterDataPipe, argument_validation
    >>> @argument_validation
    ... def first(source: IterDataPipe):
    ...     return next(iter(source))
    >>> try:
    ...     first([1])
    ... except TypeError as error:
    ...     print(error)
    Expected argument 'source' as a IterDataPipe, but found <class 'list'>
    """
    signature, hints = inspect.signature(f), get_type_hints(f)

    @functools.wraps(f)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            hint = hints.get(name)
            is_pipe = isinstance(hint, type) and issubclass(hint, (IterDataPipe, MapDataPipe))
            # torch accepts instances of IterDataPipe alone, whichever class the annotation names.
            if is_pipe and not isinstance(value, IterDataPipe):
                raise TypeError(f"Expected argument '{name}' as a IterDataPipe, but found {type(value)}")
        return f(*args, **kwargs)

    return checked


def runtime_validation(f: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """Checks the items that a pipe's ``__iter__`` yields by the annotation in its base class, ``IterDataPipe[int]``.

    Raises:
        TypeError: the function has another name.
        RuntimeError: during a pass, an item is of another type.

    >>> from rushlight.utils.data import IterDataPipe, runtime_validation
    >>> class Numbers(IterDataPipe[int]):
    ...     @runtime_validation
    ...     def __iter__(self):
    ...         yield from (1, "two")
    >>> try:
    ...     list(Numbers())
    ... except RuntimeError as error:
    ...     print(error)
    Expected an instance as subtype of int, but found two(<class 'str'>)
    """
    if f.__name__ != "__iter__":
        raise TypeError(f"Can not decorate function {f.__name__} with 'runtime_validation'")

    @functools.wraps(f)
    def checked(self: Any) -> Iterator[Any]:
        hint = _items(type(self))
        for item in f(self):
            if _state["validated"] and not _fits(item, hint):
                raise RuntimeError(f"Expected an instance as subtype of {_named(hint)}, but found {item}({type(item)})")
            yield item

    return checked


def __dir__() -> list[str]:
    return __all__

"""The base classes of data pipes, and the registration of pipes as methods."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable  # noqa: TC003
from typing import Any, ClassVar, TypeVar

from ..dataset import Dataset, IterableDataset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe"]


#: The type of a pipe's items.
_T_co = TypeVar("_T_co", covariant=True)


class _Pipe:
    """What both kinds of pipes share: functions that are methods of all pipes of a kind."""

    functions: ClassVar[dict[str, Callable[..., Any]]]

    def __getattr__(self, name: str) -> Any:
        function = self.functions.get(name)
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return functools.partial(function, self)

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Makes a function a method of all pipes of this kind."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any, **options: Any) -> None:
        """Makes a pipe a method of all pipes of this kind: ``pipe.name(...)`` is ``Class(pipe, ...)``."""
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register

    def __str__(self) -> str:
        return type(self).__qualname__

    __repr__ = __str__


class MapDataPipe(_Pipe, Dataset[_T_co]):
    """A pipe with an index: subclasses define ``__getitem__`` and ``__len__``.

    >>> class Squares(torch.utils.data.MapDataPipe):
    ...     def __getitem__(self, index):
    ...         return index * index
    ...     def __len__(self):
    ...         return 3
    >>> pipe = Squares().map(lambda number: number + 1)
    >>> pipe[2], len(pipe)
    (5, 3)
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class IterDataPipe(_Pipe, IterableDataset[_T_co]):
    """A pipe that is a stream: subclasses define ``__iter__``, and ``reset`` if each pass begins with something.

    A pipe has one iterator at a time: an earlier one is refused after another has been made.

    >>> class Numbers(torch.utils.data.IterDataPipe):
    ...     def __iter__(self):
    ...         yield from range(4)
    >>> list(Numbers().map(lambda number: 10 * number).batch(2))
    [[0, 10], [20, 30]]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _passes: int = 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__iter__" in vars(cls):
            cls.__iter__ = _with_one_iterator(cls.__iter__)  # type: ignore[method-assign]

    def __iter__(self) -> Iterator[_T_co]:
        return self

    def reset(self) -> None:
        """Called before each pass."""


#: Equal to no item.
_END = object()


def _with_one_iterator(iterate: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    def steps(pipe: Any, number: int, iterator: Iterator[Any]) -> Iterator[Any]:
        for item in iterator:
            yield item
            if pipe._passes != number:
                raise RuntimeError(
                    "This iterator has been invalidated because another iterator has been created from the same "
                    f"IterDataPipe: {_described(pipe)}\nThis may be caused by multiple references to the same IterDataPipe."
                )

    @functools.wraps(iterate)
    def checked(pipe: Any) -> Iterator[Any]:
        pipe._passes += 1
        pipe.reset()
        found = iterate(pipe)
        # A pipe may be its own iterator, which must not be asked for an iterator again.
        return steps(pipe, pipe._passes, iter(found.__next__, _END) if found is pipe else found)

    return checked


def _described(pipe: Any) -> str:
    names = [name for name in inspect.signature(type(pipe)).parameters if name in vars(pipe)]
    return f"{type(pipe).__name__}({', '.join(f'{name}={vars(pipe)[name]}' for name in names)})"


class DFIterDataPipe(IterDataPipe[Any]):
    """A pipe of data frames.

    >>> issubclass(torch.utils.data.DFIterDataPipe, torch.utils.data.IterDataPipe)
    True
    """


class DataChunk(list[Any]):
    """A batch that a pipe yields: a list.

    >>> torch.utils.data.DataChunk([1, 2]).as_str("- ")
    '- [1, 2]'
    """

    def __init__(self, items: Any) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The items as text."""
        return f"{indent}[{', '.join(str(item) for item in self)}]"

    def raw_iterator(self) -> Iterator[Any]:
        """The items."""
        yield from self.items


class functional_datapipe:
    """Decorates a class of pipes, so that it is a method of all pipes of its kind.

    Args:
        name: the name of the method.
        enable_df_api_tracing: accepted for pipes of data frames.

    Raises:
        Exception: there is such a method already.

    >>> @torch.utils.data.functional_datapipe("first")
    ... class First(torch.utils.data.IterDataPipe):
    ...     def __init__(self, source, count):
    ...         self.source, self.count = source, count
    ...     def __iter__(self):
    ...         for _, item in zip(range(self.count), self.source):
    ...             yield item
    >>> list(torch.utils.data.datapipes.iter.IterableWrapper("abc").first(2))
    ['a', 'b']
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: Any) -> Any:
        if isinstance(cls, type):
            for kind in (IterDataPipe, MapDataPipe):
                if issubclass(cls, kind):
                    kind.register_datapipe_as_function(self.name, cls)
        return cls


def __dir__() -> list[str]:
    return __all__

"""Containers of modules and parameters: sequences, lists and dictionaries."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice

import rushlight as torch
from rushlight._text import indented, typename
from rushlight._warnings import warn

from ..parameter import Parameter
from .module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Self

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _place(index: Any, length: int) -> int:
    """Converts an index, which may be negative, to one that counts from the front."""
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range")
    return index % length


def _is_iterable(value: object) -> bool:
    return hasattr(type(value), "__iter__")


class Container(Module):
    """A container of named modules. Deprecated, because `Module` itself is one; it gives a warning.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     list(torch.nn.Container(first=torch.nn.ReLU()).state_dict())
    []
    """

    def __init__(self, **kwargs: Any) -> None:
        warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that "
            "instead.",
            FutureWarning,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """The base of sequences and lists of modules. The names of their modules are their indices."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def _rename(self, modules: Iterable[Module]) -> None:
        self._modules = {str(place): module for place, module in enumerate(modules)}

    if TYPE_CHECKING:

        def __getitem__(self, index: Any) -> Any: ...
        def __delitem__(self, index: Any) -> None: ...

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Self:
        """Appends a module."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: Any) -> Any:
        """Removes a module and returns it."""
        module = self[key]
        del self[key]
        return module


class Sequential(_Numbered):
    """Calls modules one after the other. Each gets the result of the one before.

    Args:
        *args: modules, or one ``OrderedDict`` of modules whose keys become their names.

    Shapes, dtypes and errors are those of the modules.

    >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.ReLU())
    >>> net(torch.tensor([[-1.0, 2.0]]))
    tensor([[0., 2.]])
    >>> net[-1]
    ReLU()
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for place, module in enumerate(args):
                self.add_module(str(place), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def _name_at(self, index: Any) -> str:
        return next(islice(self._modules, _place(index, len(self)), None))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            delattr(self, name)
        self._rename(list(self._modules.values()))

    def __add__(self, other: Any) -> Sequential:
        self._require_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        self._require_sequential(other)
        return self.extend(list(other))

    def _require_sequential(self, other: Any) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)!s} is given.")

    def __mul__(self, other: int) -> Sequential:
        self._require_count(other)
        return Sequential(*list(self) * other)

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        self._require_count(other)
        return self.extend(list(self) * (other - 1))

    def _require_count(self, other: Any) -> None:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def insert(self, index: int, module: Module) -> Self:
        """Inserts a module before the one at ``index``."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self._rename(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Appends modules."""
        for module in sequential:
            self.append(module)
        return self


class ModuleList(_Numbered):
    """A list of registered modules. It has no ``forward``.

    >>> layers = torch.nn.ModuleList([torch.nn.ReLU() for _ in range(3)])
    >>> layers
    ModuleList(
      (0-2): 3 x ReLU()
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[str(_place(index, len(self)))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(_place(index, len(self))), module)

    def __delitem__(self, index: Any) -> None:
        modules = list(self)
        if not isinstance(index, slice):
            index = _place(index, len(modules))
        del modules[index]
        self._rename(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def insert(self, index: int, module: Module) -> None:
        """Inserts a module before the one at ``index``."""
        modules = list(self)
        modules.insert(index, module)
        self._rename(modules)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Appends modules."""
        if not _is_iterable(modules):
            raise TypeError("ModuleList.extend should be called with an iterable, but got " + type(modules).__name__)
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        # Consecutive equal modules are printed once with their count.
        blocks: list[list[Any]] = []
        for place, text in enumerate(map(repr, self)):
            if blocks and blocks[-1][2] == text:
                blocks[-1][1] = place
            else:
                blocks.append([place, place, text])
        lines = [
            indented(f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}", 2)
            for first, last, text in blocks
        ]
        return self._get_name() + ("(\n  " + "\n  ".join(lines) + "\n)" if lines else "()")


class ModuleDict(Module):
    """A dictionary of registered modules, in the order of insertion. It has no ``forward``.

    >>> choices = torch.nn.ModuleDict({"relu": torch.nn.ReLU()})
    >>> choices["tanh"] = torch.nn.Tanh()
    >>> list(choices)
    ['relu', 'tanh']
    """

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Removes all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Removes a module and returns it."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """The names with the modules."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Adds the modules of a dictionary or of pairs of name and module."""
        for key, module in _pairs(modules, "ModuleDict.update", "ModuleDict"):
            self[key] = module


def _pairs(given: Any, caller: str, kind: str) -> Iterable[tuple[Any, Any]]:
    """The items of a mapping, or pairs, which are checked."""
    if not _is_iterable(given):
        raise TypeError(
            f"{caller} should be called with an iterable of key/value pairs, but got " + type(given).__name__
        )
    if hasattr(given, "items"):
        return given.items()
    return _checked_pairs(given, kind)


def _checked_pairs(given: Iterable[Any], kind: str) -> Iterator[tuple[Any, Any]]:
    for place, pair in enumerate(given):
        if not _is_iterable(pair):
            raise TypeError(f"{kind} update sequence element #{place} should be Iterable; is" + type(pair).__name__)
        if len(pair) != 2:
            raise ValueError(f"{kind} update sequence element #{place} has length {len(pair)}; 2 is required")
        yield pair[0], pair[1]


def _described(value: Any, size_of: Any) -> str:
    if isinstance(value, torch.Tensor):
        place = "" if value.device.type == "cpu" else f" ({value.device})"
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        return f"{kind} containing: [{size_of(value)}{place}]"
    return f"Object of type: {type(value).__name__}"


class ParameterList(Module):
    """A list of registered parameters. Tensors become parameters; other objects are kept unchanged.

    >>> scales = torch.nn.ParameterList([torch.ones(2), torch.ones(3)])
    >>> [name for name, _ in scales.named_parameters()]
    ['0', '1']
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(getattr(self, str(place)) for place in range(*index.indices(len(self))))
        return getattr(self, str(_place(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        if isinstance(value, torch.Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, str(_place(index, len(self))), value)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self, value: Any) -> Self:
        """Appends a value."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Appends values."""
        if not _is_iterable(values) or isinstance(values, torch.Tensor):
            raise TypeError("ParameterList.extend should be called with an iterable, but got " + type(values).__name__)
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        lines = []
        for place, value in enumerate(self):
            text = _described(value, lambda tensor: f"{tensor.dtype} of size {_sizes(tensor)}")
            lines.append(f"  ({place}): {text}")
        return "\n".join(lines)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of registered parameters. Tensors become parameters; other objects are kept unchanged.

    Raises:
        TypeError: a key is not a string.

    >>> table = torch.nn.ParameterDict({"left": torch.ones(2)})
    >>> "left" in table, len(table)
    (True, 1)
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        # The values are attributes. This dictionary keeps the order of the keys.
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._key_to_attr(key)
        self._keys[key] = None
        if isinstance(value, torch.Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, name, value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: Any) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: Any) -> Any:
        merged = other.copy()
        merged.update(self.items())
        return merged

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """A new dictionary with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value for a key. If there is none, the default is stored first."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Removes all values."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Any:
        """Removes a value and returns it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Removes the last pair and returns it."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value for a key, or the default."""
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dictionary with these keys and the same value for each."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """The keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The keys with the values."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Adds the values of pairs of key and value, or of a dictionary: in the order of an `OrderedDict` or a
        `ParameterDict`, and sorted by key otherwise."""
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            parameters = OrderedDict(sorted(parameters.items()))
        for key, value in _pairs(parameters, "ParametersDict.update", "ParameterDict"):
            self[key] = value

    def extra_repr(self) -> str:
        lines = []
        for key, value in self.items():
            text = _described(value, lambda tensor: f"{typename(tensor)} of size {_sizes(tensor)}")
            lines.append(f"  ({key}): {text}")
        return "\n".join(lines)

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")


def _sizes(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.size()))

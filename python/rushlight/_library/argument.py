"""The arguments and results of a schema as torch's objects: `Argument`, with a type of TorchScript and what it shares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rushlight.jit import _types

__all__ = ["AliasInfo", "Argument", "argument"]

#: A type in a schema, the name of its number where tensors share memory, and what follows: ``Tensor(a!)[]``.
_SHARED = re.compile(r"(\w+)\(([^()]*)\)(.*)")
_KINDS: dict[str, Any] = {
    "Tensor": _types.TensorType,
    "int": _types.IntType,
    "SymInt": _types.IntType,
    "float": _types.FloatType,
    "bool": _types.BoolType,
    "SymBool": _types.BoolType,
    "str": _types.StringType,
    "complex": _types.ComplexType,
    "Scalar": _types.NumberType,
    "Device": _types.DeviceObjType,
    "DeviceIndex": _types.IntType,
    "ScalarType": _types.IntType,
    "Layout": _types.IntType,
    "MemoryFormat": _types.IntType,
    "QScheme": _types.IntType,
    "Stream": _types.StreamObjType,
    "None": _types.NoneType,
    "NoneType": _types.NoneType,
}


class _Named(_types._Single):
    """A type that torch's Python has no class for, such as that of generators, or the enumeration that an int stands for."""

    def __init__(self, word: str) -> None:
        self._word = word

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and self._word == other._word


@dataclass(frozen=True)
class AliasInfo:
    """Which memory an argument shares, by letters, before and after the call, and whether the call changes it."""

    is_write: bool
    before_set: set[str]
    after_set: set[str]


@dataclass(frozen=True)
class Argument:
    """An argument or a result of a schema."""

    name: str
    type: _types.Type
    #: The type with the enumerations (``ScalarType``, ``Layout``) that are ints in `type`.
    real_type: _types.Type
    default_value: Any = None
    _has_default: bool = False
    kwarg_only: bool = False
    alias_info: AliasInfo | None = None
    #: The length of a list of fixed length.
    N: int | None = None

    def has_default_value(self) -> bool:
        """Whether the argument may be left out."""
        return self._has_default

    @property
    def is_write(self) -> bool:
        """Whether the call changes the argument."""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """Whether the argument is a tensor for the result."""
        return self.kwarg_only and self.is_write


def argument(
    kind: str, name: str, default: Any = None, has_default: bool = False, kwarg_only: bool = False
) -> Argument:
    """The argument of a type with marks of aliases, as a schema has it: ``Tensor(a!)[]``."""
    alias, shared = None, None if kind.startswith("Dict(") else _SHARED.fullmatch(kind)
    if shared is not None:
        kind = shared[1] + shared[3]
        before, arrow, after = shared[2].partition("->")
        # The marks of a list are those of its elements.
        sets = [set()] * 2 if "[" in kind else [_letters(before), _letters(after if arrow else before)]
        alias = AliasInfo("!" in before, *sets)
    length = re.search(r"\[(\d+)\]", kind)
    size = int(length[1]) if length else None
    return Argument(name, _type(kind, False), _type(kind, True), default, has_default, kwarg_only, alias, size)


def _letters(marks: str) -> set[str]:
    return {mark.strip(" !") for mark in marks.split("|")}


def _type(kind: str, real: bool) -> _types.Type:
    if kind.endswith("?"):
        return _types.OptionalType(_type(kind[:-1], real))
    if kind.endswith("]"):
        return _types.ListType(_type(kind[: kind.rindex("[")], real))
    if kind.startswith("Dict("):
        of_keys, of_values = kind[len("Dict(") : -1].split(",", 1)
        return _types.DictType(_type(of_keys.strip(), real), _type(of_values.strip(), real))
    if kind not in _KINDS or (real and kind in ("ScalarType", "Layout", "MemoryFormat", "QScheme")):
        return _Named(kind)
    found: _types.Type = _KINDS[kind].get()
    return found

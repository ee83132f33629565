"""The keys that lead from a node of a tree to its children, and paths made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class KeyEntry(Protocol):
    """What leads from a node to one of its children."""

    def __hash__(self) -> int:
        """Keys with the same meaning have the same hash."""
        ...

    def __eq__(self, other: object) -> bool:
        """Whether two keys mean the same."""
        ...

    def __str__(self) -> str:
        """The key as Python code."""
        ...

    def get(self, parent: Any) -> Any:
        """The child of a node."""
        ...


KeyPath = tuple[KeyEntry, ...]


@dataclass(frozen=True, slots=True)
class SequenceKey:
    """The key of an element of a sequence.

    >>> str(SequenceKey(2)), SequenceKey(2).get("abc")
    ('[2]', 'c')
    """

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The element of a sequence."""
        return sequence[self.idx]


@dataclass(frozen=True, slots=True)
class MappingKey:
    """The key of a value in a mapping.

    >>> str(MappingKey("a")), MappingKey("a").get({"a": 1})
    ("['a']", 1)
    """

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The value in a mapping."""
        return mapping[self.key]


@dataclass(frozen=True, slots=True)
class GetAttrKey:
    """The key of an attribute.

    >>> str(GetAttrKey("real")), GetAttrKey("real").get(2 + 1j)
    ('.real', 2.0)
    """

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The attribute of an object."""
        return getattr(obj, self.name)


def keystr(kp: KeyPath) -> str:
    """A path as Python code.

    >>> keystr((MappingKey("a"), SequenceKey(1), GetAttrKey("weight")))
    "['a'][1].weight"
    """
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: KeyPath) -> Any:
    """The part of a tree to which a path leads.

    >>> key_get({"a": [1, 2]}, (MappingKey("a"), SequenceKey(1)))
    2
    """
    for key in kp:
        obj = key.get(obj)
    return obj

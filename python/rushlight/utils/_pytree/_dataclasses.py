"""Registration of dataclasses as nodes, and of classes whose objects belong to the structure instead of the leaves."""

from __future__ import annotations

import dataclasses
from typing import Any

from ._keys import GetAttrKey
from ._registry import CONSTANT_NODES, register_pytree_node


def register_dataclass(
    cls: type[Any],
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Makes the objects of a dataclass nodes of trees, with their fields as children.

    Fields that are None belong to the structure and not to the leaves.

    Args:
        cls: a dataclass, or another class that is called with its fields as keyword arguments.
        field_names: the fields; by default, all that the constructor takes.
        drop_field_names: fields that are left out. Rebuilt objects have their default value.
        serialized_type_name: the name of the class in the text of `treespec_dumps`.

    Raises:
        ValueError: the fields are not those of the class, or it is not a dataclass and no fields are given.

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Batch:
    ...     inputs: list
    ...     targets: object = None
    >>> register_dataclass(Batch)
    >>> torch.utils._pytree.tree_map(lambda leaf: leaf + 1, Batch([1, 2], 3))
    Batch(inputs=[2, 3], targets=4)
    """
    dropped = drop_field_names or []
    if not dataclasses.is_dataclass(cls):
        if field_names is None:
            raise ValueError(
                "field_names must be specified with a list of all fields used to initialize "
                f"{cls}, as it is not a dataclass."
            )
    elif field_names is None:
        field_names = [field.name for field in dataclasses.fields(cls) if field.init and field.name not in dropped]
    else:
        _check_fields(cls, set(field_names), set(dropped))
    names = field_names

    def flatten_with_keys(obj: Any) -> tuple[list[tuple[Any, Any]], Any]:
        full: list[tuple[Any, Any]] = []
        empty: list[str] = []
        for name in names:
            value = getattr(obj, name)
            if value is None:
                empty.append(name)
            else:
                full.append((GetAttrKey(name), value))
        return full, [[key.name for key, _ in full], empty]

    def flatten(obj: Any) -> tuple[list[Any], Any]:
        full, context = flatten_with_keys(obj)
        return [value for _, value in full], context

    def unflatten(values: Any, context: Any) -> Any:
        full, empty = context
        return cls(**dict(zip(full, values)), **dict.fromkeys(empty))

    register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=flatten_with_keys
    )


def _check_fields(cls: Any, given: set[str], dropped: set[str]) -> None:
    expected = {field.name for field in dataclasses.fields(cls) if field.init} - dropped
    message = ""
    if expected - given:
        message += (
            f"Missing fields in `field_names`: {expected - given}. If you want to include these fields in the pytree, "
            "please add them to `field_names`, otherwise please add them to `drop_field_names`.\n"
        )
    if given - expected:
        message += (
            f"Unexpected fields in `field_names`: {given - expected}. "
            "Please remove these fields, or add them to `drop_field_names`.\n"
        )
    if message:
        raise ValueError(f"field_names does not include all dataclass fields.\n{message}")


@dataclasses.dataclass(frozen=True, slots=True)
class ConstantNode:
    """The context of an object that belongs to the structure."""

    value: Any


def register_constant(cls: type[Any]) -> None:
    """Makes the objects of a class nodes without children: they belong to the structure and are not leaves.

    Raises:
        TypeError: the class does not define what equality of its objects means, or they have no hash.

    >>> import dataclasses
    >>> @dataclasses.dataclass(frozen=True)
    ... class Mode:
    ...     name: str
    >>> register_constant(Mode)
    >>> torch.utils._pytree.tree_leaves([Mode("train"), 1])
    [1]
    """
    if cls.__eq__ is object.__eq__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__eq__` implementation.")
    if cls.__hash__ is None:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__hash__` implementation.")
    register_pytree_node(
        cls,
        lambda constant: ([], ConstantNode(constant)),
        lambda values, context: context.value,
        flatten_with_keys_fn=lambda constant: ([], ConstantNode(constant)),
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type[Any]) -> bool:
    """Whether `register_constant` was called with a class.

    >>> is_constant_class(int)
    False
    """
    return isinstance(cls, type) and cls in CONSTANT_NODES

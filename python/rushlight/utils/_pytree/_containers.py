"""The containers that are nodes of trees from the start."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple

import rushlight as torch
from rushlight import return_types

from ._keys import GetAttrKey, KeyEntry, MappingKey, SequenceKey
from ._registry import (
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    SUPPORTED_SERIALIZED_TYPES,
    Context,
    DumpableContext,
    _private_register_pytree_node,
    is_structseq_class,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def _sequence_keys(sequence: Iterable[Any]) -> list[tuple[KeyEntry, Any]]:
    return [(SequenceKey(index), value) for index, value in enumerate(sequence)]


def _field_keys(record: Any) -> list[tuple[KeyEntry, Any]]:
    return [(GetAttrKey(name), value) for name, value in zip(record._fields, record)]


def _mapping_keys(mapping: dict[Any, Any]) -> list[tuple[KeyEntry, Any]]:
    return [(MappingKey(key), value) for key, value in mapping.items()]


def _default_dict_context(mapping: Any) -> Context:
    return [mapping.default_factory, list(mapping)]


def _dump_default_dict(context: Context) -> DumpableContext:
    factory, keys = context
    return {
        "default_factory_module": None if factory is None else factory.__module__,
        "default_factory_name": None if factory is None else factory.__qualname__,
        "dict_context": keys,
    }


def _load_default_dict(dumped: DumpableContext) -> Context:
    from importlib import import_module
    from operator import attrgetter

    module, name = dumped["default_factory_module"], dumped["default_factory_name"]
    return [None if module is None else attrgetter(name)(import_module(module)), dumped["dict_context"]]


def _dump_namedtuple(cls: Context) -> DumpableContext:
    found = SUPPORTED_SERIALIZED_TYPES.get(cls)
    if found is None or found.serialized_type_name is None:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {cls} because we didn't register a serializated_type_name. "
            "Please register using `_register_namedtuple`."
        )
    return found.serialized_type_name


def _load_namedtuple(dumped: DumpableContext) -> Context:
    found = SERIALIZED_TYPE_TO_PYTHON_TYPE.get(dumped)
    if found is None:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {dumped} because we couldn't find a serializated name."
        )
    return found


def _register_sequence(kind: Any, name: str | None) -> None:
    _private_register_pytree_node(
        kind,
        lambda sequence: (list(sequence), None),
        lambda values, context: kind(list(values)),
        serialized_type_name=name,
        flatten_with_keys_fn=lambda sequence: (_sequence_keys(sequence), None),
    )


def _register_mapping(kind: Any, name: str) -> None:
    _private_register_pytree_node(
        kind,
        lambda mapping: (list(mapping.values()), list(mapping)),
        lambda values, context: kind(zip(context, values)),
        serialized_type_name=name,
        flatten_with_keys_fn=lambda mapping: (_mapping_keys(mapping), list(mapping)),
    )


def register_containers() -> None:
    """Registers Python's containers, `torch.Size` and the results of operators."""
    named: Any = namedtuple
    _register_sequence(tuple, "builtins.tuple")
    _register_sequence(list, "builtins.list")
    _register_sequence(torch.Size, "torch.Size")
    for kind in vars(return_types).values():
        if is_structseq_class(kind):
            _register_sequence(kind, None)
    _register_mapping(dict, "builtins.dict")
    _register_mapping(OrderedDict, "collections.OrderedDict")
    _private_register_pytree_node(
        named,
        lambda record: (list(record), type(record)),
        lambda values, context: context(*values),
        serialized_type_name="collections.namedtuple",
        to_dumpable_context=_dump_namedtuple,
        from_dumpable_context=_load_namedtuple,
        flatten_with_keys_fn=lambda record: (_field_keys(record), type(record)),
    )
    _private_register_pytree_node(
        defaultdict,
        lambda mapping: (list(mapping.values()), _default_dict_context(mapping)),
        lambda values, context: defaultdict(context[0], zip(context[1], values)),
        serialized_type_name="collections.defaultdict",
        to_dumpable_context=_dump_default_dict,
        from_dumpable_context=_load_default_dict,
        flatten_with_keys_fn=lambda mapping: (_mapping_keys(mapping), _default_dict_context(mapping)),
    )
    _private_register_pytree_node(
        deque,
        lambda queue: (list(queue), queue.maxlen),
        lambda values, context: deque(values, maxlen=context),
        serialized_type_name="collections.deque",
        flatten_with_keys_fn=lambda queue: (_sequence_keys(queue), queue.maxlen),
    )

"""Structures of trees as text, in torch's format (JSON)."""

from __future__ import annotations

from typing import Any
from warnings import warn

from ._registry import SERIALIZED_TYPE_TO_PYTHON_TYPE, SUPPORTED_SERIALIZED_TYPES
from ._spec import TreeSpec, treespec_leaf

_PROTOCOL = 1


def expect_spec(treespec: Any) -> TreeSpec:
    """The argument, if it is a structure."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    return treespec


def _dump_enum(value: Any) -> Any:
    from enum import Enum

    if isinstance(value, Enum):
        kind = type(value)
        return {"__enum__": True, "fqn": f"{kind.__module__}:{kind.__qualname__}", "name": value.name}
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _load_enum(found: dict[str, Any]) -> Any:
    if "__enum__" not in found:
        return found
    from importlib import import_module
    from operator import attrgetter

    module, _, name = found["fqn"].partition(":")
    return attrgetter(name)(import_module(module))[found["name"]]


def _to_json(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    found = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if found is None:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    if found.serialized_type_name is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. "
            "Please update your _register_pytree_node call with a `serialized_type_name` kwarg."
        )
    if found.to_dumpable_context is None:
        from json import dumps

        try:
            context = dumps(spec.context, default=_dump_enum)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register a custom serializer "
                "using _register_pytree_node."
            ) from error
    else:
        context = found.to_dumpable_context(spec.context)
    return {
        "type": found.serialized_type_name,
        "context": context,
        "children_spec": [_to_json(child) for child in spec.children()],
    }


def _from_json(found: dict[str, Any]) -> TreeSpec:
    name = found["type"]
    if name is None:
        return treespec_leaf()
    if name not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE[name]
    load_context = SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context
    if load_context is None:
        from json import JSONDecodeError, loads

        try:
            context = loads(found["context"], object_hook=_load_enum)
        except (TypeError, JSONDecodeError) as error:
            raise TypeError(
                "Unable to deserialize context. Please make the context json load-able, or register a custom "
                "serializer using _register_pytree_node."
            ) from error
    else:
        context = load_context(found["context"])
    return TreeSpec(kind, context, [_from_json(child) for child in found["children_spec"]])


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A structure as text.

    Raises:
        TypeError: the argument is not a structure, or JSON cannot represent a context.
        ValueError: there is no such protocol; 1 is the only one.
        NotImplementedError: a node's class was registered without ``serialized_type_name``.

    >>> treespec_dumps(torch.utils._pytree.tree_structure(1))
    '[1, {"type": null, "context": null, "children_spec": []}]'
    """
    from json import dumps

    spec = expect_spec(treespec)
    if protocol is not None and protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return dumps([_PROTOCOL, _to_json(spec)])


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` wrote.

    The text names classes; those that are not registered are refused. A defaultdict's function and the members of
    enumerations are imported, so that only trusted text should be read.

    Raises:
        ValueError: the text has another protocol.
        NotImplementedError: the text has a class that is not registered.

    >>> treespec_loads(treespec_dumps(torch.utils._pytree.tree_structure([1, 2])))
    TreeSpec(list, None, [*,
      *])
    """
    from json import loads

    protocol, found = loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return _from_json(found)


class _Star:
    """Stands for a leaf in `treespec_pprint`."""

    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """A structure as the text of a tree whose leaves are stars.

    >>> treespec_pprint(torch.utils._pytree.tree_structure({"a": [1, (2, 3)]}))
    "{'a': [*, (*, *)]}"
    """
    spec = expect_spec(treespec)
    return repr(spec.unflatten([_Star()] * spec.num_leaves))


def pytree_to_str(treespec: TreeSpec) -> str:
    """The older name of `treespec_dumps`."""
    warn("`pytree_to_str` is deprecated. Please use `treespec_dumps` instead.", FutureWarning, stacklevel=2)
    return treespec_dumps(treespec)


def str_to_pytree(json: str) -> TreeSpec:
    """The older name of `treespec_loads`."""
    warn("`str_to_pytree` is deprecated. Please use `treespec_loads` instead.", FutureWarning, stacklevel=2)
    return treespec_loads(json)

"""The container types that are nodes of a tree: how each is flattened and rebuilt. All other objects are leaves."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from warnings import warn

from ._keys import KeyEntry

PyTree = Any
Context = Any
DumpableContext = Any
FlattenFn = Callable[[PyTree], tuple[list[Any], Context]]
UnflattenFn = Callable[[Iterable[Any], Context], PyTree]
FlattenWithKeysFn = Callable[[PyTree], tuple[list[tuple[KeyEntry, Any]], Context]]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]


class NodeDef(NamedTuple):
    """How objects of a type are flattened and rebuilt."""

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None


class SerializeNodeDef(NamedTuple):
    """How the context of a type is written to JSON and read from it. Without functions, it is written as it is."""

    typ: Any
    serialized_type_name: str | None
    to_dumpable_context: ToDumpableContextFn | None
    from_dumpable_context: FromDumpableContextFn | None


#: The node types. Named tuples share one entry, whose key is the function `namedtuple`.
SUPPORTED_NODES: dict[Any, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[Any, SerializeNodeDef] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {}
CONSTANT_NODES: set[type] = set()
BUILTIN_TYPES: frozenset[Any] = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})
#: Dictionaries whose specs fit each other.
STANDARD_DICT_TYPES: frozenset[Any] = frozenset({dict, OrderedDict, defaultdict})


def register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Makes objects of a class nodes of trees.

    Args:
        cls: the class; objects of subclasses stay leaves.
        flatten_fn: returns the children of an object as a list, and its context: everything else needed to rebuild it.
        unflatten_fn: makes an object from children and a context.
        serialized_type_name: the name of the class in the text of `treespec_dumps`.
        to_dumpable_context: turns a context into what JSON can represent.
        from_dumpable_context: the reverse.
        flatten_with_keys_fn: the same as ``flatten_fn``, with children as pairs of a key and a child.

    Raises:
        ValueError: the class is registered already, or one of the functions for contexts is given without the other.

    >>> class Pair:
    ...     def __init__(self, first, second):
    ...         self.first, self.second = first, second
    >>> register_pytree_node(
    ...     Pair, lambda pair: ([pair.first, pair.second], None), lambda children, context: Pair(*children)
    ... )
    >>> torch.utils._pytree.tree_leaves([Pair(1, 2), 3])
    [1, 2, 3]
    >>> _deregister_pytree_node(Pair)
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def _private_register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """`register_pytree_node` that replaces an earlier registration, with a warning."""
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    if cls in SUPPORTED_NODES:
        warn(f"{cls} is already registered as pytree node. Overwriting the previous registration.", stacklevel=3)
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SUPPORTED_SERIALIZED_TYPES[cls] = SerializeNodeDef(
        cls, serialized_type_name, to_dumpable_context, from_dumpable_context
    )
    if serialized_type_name is not None:
        SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


def _register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    to_str_fn: Any = None,
    maybe_from_str_fn: Any = None,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """The older name of `register_pytree_node`, which replaces an earlier registration."""
    warn(
        "`torch.utils._pytree._register_pytree_node` is deprecated. "
        "Please use `torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warn(
            "`to_str_fn` and `maybe_from_str_fn` is deprecated. Please use `to_dumpable_context` and "
            "`from_dumpable_context` instead.",
            FutureWarning,
            stacklevel=2,
        )
    _private_register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def _register_namedtuple(cls: type[Any], *, serialized_type_name: str) -> None:
    """Gives a class of named tuples the name that it has in the text of `treespec_dumps`.

    >>> from collections import namedtuple
    >>> Point = namedtuple("Point", "x y")
    >>> _register_namedtuple(Point, serialized_type_name="geometry.Point")
    >>> torch.utils._pytree.treespec_dumps(torch.utils._pytree.tree_structure(Point(1, 2)))[:65]
    '[1, {"type": "collections.namedtuple", "context": "geometry.Point'
    """
    SUPPORTED_SERIALIZED_TYPES[cls] = SerializeNodeDef(cls, serialized_type_name, None, None)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


def _deregister_pytree_node(cls: type[Any]) -> None:
    """Makes objects of a registered class leaves again."""
    del SUPPORTED_NODES[cls]
    CONSTANT_NODES.discard(cls)
    name = SUPPORTED_SERIALIZED_TYPES.pop(cls).serialized_type_name
    if name is not None and SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name) is cls:
        del SERIALIZED_TYPE_TO_PYTHON_TYPE[name]


def is_structseq_class(cls: type) -> bool:
    """Whether a class is that of C's named tuples (`time.struct_time`) or of the results of operators.

    >>> import time
    >>> is_structseq_class(time.struct_time), is_structseq_class(torch.return_types.max)
    (True, True)
    """
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and all(isinstance(vars(cls).get(name), int) for name in ("n_fields", "n_sequence_fields", "n_unnamed_fields"))
    )


def is_structseq_instance(obj: object) -> bool:
    """Whether an object is one of C's named tuples or a result of an operator.

    >>> is_structseq_instance(torch.ones(2, 2).max(0)), is_structseq_instance((1, 2))
    (True, False)
    """
    return is_structseq_class(type(obj))


def is_structseq(obj: object | type) -> bool:
    """Whether an object is one of C's named tuples or a result of an operator, or the class of such objects.

    >>> is_structseq(torch.return_types.max), is_structseq(torch.ones(2, 2).max(0))
    (True, True)
    """
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_class(cls: type) -> bool:
    """Whether a class is made by `collections.namedtuple`, or derives from one that is.

    >>> from collections import namedtuple
    >>> is_namedtuple_class(namedtuple("Point", "x y")), is_namedtuple_class(tuple)
    (True, False)
    """
    if not isinstance(cls, type) or not issubclass(cls, tuple) or is_structseq_class(cls):
        return False
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(fields, tuple)
        and all(type(field) is str for field in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Whether an object is a named tuple.

    >>> from collections import namedtuple
    >>> is_namedtuple_instance(namedtuple("Point", "x y")(1, 2))
    True
    """
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object | type) -> bool:
    """Whether an object is a named tuple or a class of named tuples.

    >>> from collections import namedtuple
    >>> Point = namedtuple("Point", "x y")
    >>> is_namedtuple(Point), is_namedtuple(Point(1, 2)), is_namedtuple((1, 2))
    (True, True, False)
    """
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def _get_node_type(tree: Any) -> Any:
    """The key of an object in `SUPPORTED_NODES`: its class, or the function `namedtuple`."""
    kind = type(tree)
    # Classes that were registered by themselves, too, count as named tuples, as in torch.
    if issubclass(kind, tuple) and kind is not tuple and is_namedtuple_class(kind):
        return namedtuple
    return kind

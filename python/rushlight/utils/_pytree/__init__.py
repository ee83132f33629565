"""Trees of containers (`torch.utils._pytree`): flattening them into leaves, and mapping functions over the leaves.

Lists, tuples, dictionaries, named tuples, deques, the results of operators and registered classes are nodes; all other
objects, None included, are leaves. Every function takes ``is_leaf``: a function that is asked of each part of the tree,
and that makes it a leaf by returning True.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, UnionType
from typing import Any

from rushlight._set_module import set_module

from ._containers import register_containers
from ._dataclasses import ConstantNode as ConstantNode
from ._dataclasses import is_constant_class as is_constant_class
from ._dataclasses import register_constant as register_constant
from ._dataclasses import register_dataclass as register_dataclass
from ._keys import GetAttrKey as GetAttrKey
from ._keys import KeyEntry as KeyEntry
from ._keys import KeyPath, key_get, keystr
from ._keys import MappingKey as MappingKey
from ._keys import SequenceKey as SequenceKey
from ._registry import BUILTIN_TYPES as BUILTIN_TYPES
from ._registry import CONSTANT_NODES as CONSTANT_NODES
from ._registry import SERIALIZED_TYPE_TO_PYTHON_TYPE as SERIALIZED_TYPE_TO_PYTHON_TYPE
from ._registry import STANDARD_DICT_TYPES as STANDARD_DICT_TYPES
from ._registry import (
    SUPPORTED_NODES,
    Context,
    DumpableContext,
    FlattenFn,
    FromDumpableContextFn,
    PyTree,
    ToDumpableContextFn,
    UnflattenFn,
    _get_node_type,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    register_pytree_node,
)
from ._registry import SUPPORTED_SERIALIZED_TYPES as SUPPORTED_SERIALIZED_TYPES
from ._registry import FlattenWithKeysFn as FlattenWithKeysFn
from ._registry import NodeDef as NodeDef
from ._registry import _deregister_pytree_node as _deregister_pytree_node
from ._registry import _private_register_pytree_node as _private_register_pytree_node
from ._registry import _register_namedtuple as _register_namedtuple
from ._registry import _register_pytree_node as _register_pytree_node
from ._serial import expect_spec, treespec_dumps, treespec_loads, treespec_pprint
from ._serial import pytree_to_str as pytree_to_str
from ._serial import str_to_pytree as str_to_pytree
from ._spec import LEAF, LeafSpec, PyTreeSpec, TreeSpec
from ._spec import treespec_dict as treespec_dict
from ._spec import treespec_leaf as treespec_leaf
from ._spec import treespec_tuple as treespec_tuple

__all__ = [
    "Context",
    "DumpableContext",
    "FlattenFn",
    "FromDumpableContextFn",
    "LeafSpec",
    "PyTree",
    "PyTreeSpec",
    "ToDumpableContextFn",
    "TreeSpec",
    "UnflattenFn",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dumps",
    "treespec_loads",
    "treespec_pprint",
]

#: A question about a part of a tree.
_Asks = Callable[[PyTree], bool]
_Types = type[Any] | tuple[type[Any], ...] | UnionType

register_containers()

# The functions of the registered containers by torch's names: `_dict_flatten`, `_dict_unflatten`, `_dict_flatten_with_keys`.
for _kind, _prefix in (
    (tuple, "_tuple"),
    (list, "_list"),
    (dict, "_dict"),
    (namedtuple, "_namedtuple"),
    (OrderedDict, "_ordereddict"),
    (defaultdict, "_defaultdict"),
    (deque, "_deque"),
):
    globals()[f"{_prefix}_flatten"] = SUPPORTED_NODES[_kind].flatten_fn
    globals()[f"{_prefix}_unflatten"] = SUPPORTED_NODES[_kind].unflatten_fn
    globals()[f"{_prefix}_flatten_with_keys"] = SUPPORTED_NODES[_kind].flatten_with_keys_fn


def tree_is_leaf(tree: PyTree, is_leaf: _Asks | None = None) -> bool:
    """Whether an object is a leaf.

    >>> tree_is_leaf(1), tree_is_leaf(None), tree_is_leaf([]), tree_is_leaf([], is_leaf=lambda part: part == [])
    (True, True, False, True)
    """
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


def _flatten(tree: PyTree, leaves: list[Any], is_leaf: _Asks | None) -> TreeSpec:
    """Appends the leaves to a list, and returns the structure."""
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return LEAF
    kind = _get_node_type(tree)
    parts, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(part, leaves, is_leaf) for part in parts])


def tree_flatten(tree: PyTree, is_leaf: _Asks | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree from left to right, and its structure.

    >>> tree_flatten({"a": [1, 2], "b": 3})
    ([1, 2, 3], TreeSpec(dict, ['a', 'b'], [TreeSpec(list, None, [*,
        *]),
      *]))
    """
    leaves: list[Any] = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of a structure with the given leaves.

    Raises:
        TypeError: the second argument is not a structure.
        ValueError: there are more or fewer leaves than the structure has.

    >>> tree_unflatten([1, 2, 3], tree_structure({"a": [0, 0], "b": 0}))
    {'a': [1, 2], 'b': 3}
    """
    return expect_spec(treespec).unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: _Asks | None = None) -> Iterator[Any]:
    """Yields the leaves of a tree from left to right.

    >>> list(tree_iter([1, (2, {"a": 3})]))
    [1, 2, 3]
    """
    if tree_is_leaf(tree, is_leaf):
        yield tree
    else:
        for part in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
            yield from tree_iter(part, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: _Asks | None = None) -> list[Any]:
    """The leaves of a tree from left to right.

    >>> tree_leaves([1, (2, 3)], is_leaf=lambda part: isinstance(part, tuple))
    [1, (2, 3)]
    """
    return list(tree_iter(tree, is_leaf))


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of all arguments.

    >>> arg_tree_leaves(1, [2], last=(3,))
    [1, 2, 3]
    """
    return tree_leaves(((*args,), kwargs))


def tree_structure(tree: PyTree, is_leaf: _Asks | None = None) -> TreeSpec:
    """The structure of a tree.

    >>> tree_structure((1, [2]))
    TreeSpec(tuple, None, [*,
      TreeSpec(list, None, [*])])
    """
    return tree_flatten(tree, is_leaf)[1]


def _rows(tree: PyTree, rests: tuple[PyTree, ...], is_leaf: _Asks | None) -> tuple[TreeSpec, list[list[Any]]]:
    """The structure of a tree, its leaves, and the parts of the other trees at the positions of the leaves."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec, [leaves, *(spec.flatten_up_to(rest) for rest in rests)]


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _Asks | None = None) -> PyTree:
    """The tree with ``func(leaf)`` in place of each leaf.

    With more trees, the function also gets their parts at the position of the leaf.

    Raises:
        ValueError: another tree does not begin like the first one.

    >>> tree_map(lambda x, y: x * y, {"a": 2, "b": [3]}, {"a": 10, "b": [100]})
    {'a': 20, 'b': [300]}
    """
    spec, rows = _rows(tree, rests, is_leaf)
    return spec.unflatten(map(func, *rows))


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _Asks | None = None) -> PyTree:
    """Calls ``func`` for each leaf as `tree_map` does, drops the results, and returns the tree itself.

    >>> tensors = [torch.ones(2), torch.zeros(2)]
    >>> tree_map_(lambda tensor: tensor.add_(1), tensors)
    [tensor([2., 2.]), tensor([1., 1.])]
    """
    for _ in map(func, *_rows(tree, rests, is_leaf)[1]):
        pass
    return tree


def map_only(
    type_or_types_or_pred: _Types | Callable[[Any], bool], /
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Decorates a function, so that it returns its argument unless that has one of the types, or satisfies the predicate.

    Raises:
        TypeError: the argument is neither types nor a function.

    >>> @map_only(int)
    ... def doubled(number):
    ...     return 2 * number
    >>> doubled(3), doubled("a")
    (6, 'a')
    """
    chosen = type_or_types_or_pred
    asks: Callable[[Any], bool]
    if isinstance(chosen, (type, tuple, UnionType)):
        asks = lambda value: isinstance(value, chosen)
    elif callable(chosen):
        asks = chosen
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")

    def decorate(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: function(value) if asks(value) else value

    return decorate


def tree_map_only(
    type_or_types_or_pred: _Types | Callable[[Any], bool],
    /,
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: _Asks | None = None,
) -> PyTree:
    """`tree_map` for the leaves of some types, or those that satisfy a predicate. The others stay as they are.

    >>> tree_map_only(torch.Tensor, lambda tensor: tensor.shape, [torch.ones(2), "name", 3])
    [torch.Size([2]), 'name', 3]
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: _Types | Callable[[Any], bool],
    /,
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: _Asks | None = None,
) -> PyTree:
    """`tree_map_` for the leaves of some types, or those that satisfy a predicate.

    >>> tree_map_only_(torch.Tensor, torch.Tensor.zero_, [torch.ones(2), "name"])
    [tensor([0., 0.]), 'name']
    """
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _Asks | None = None) -> bool:
    """Whether all leaves satisfy a predicate.

    >>> tree_all(torch.is_tensor, [torch.ones(2), 3])
    False
    """
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _Asks | None = None) -> bool:
    """Whether a leaf satisfies a predicate.

    >>> tree_any(torch.is_tensor, [torch.ones(2), 3])
    True
    """
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: _Types, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: _Asks | None = None
) -> bool:
    """Whether all leaves of some types satisfy a predicate.

    >>> tree_all_only(int, lambda number: number > 0, [1, "a", 2])
    True
    """
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(
    type_or_types: _Types, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: _Asks | None = None
) -> bool:
    """Whether a leaf of some types satisfies a predicate.

    >>> tree_any_only(int, lambda number: number > 1, [1, "a", 2])
    True
    """
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def _with_paths(path: KeyPath, tree: PyTree, is_leaf: _Asks | None) -> Iterator[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    kind = _get_node_type(tree)
    flatten_with_keys = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if flatten_with_keys is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. "
            "Please pass a flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, part in flatten_with_keys(tree)[0]:
        yield from _with_paths((*path, key), part, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: _Asks | None = None) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each with the path that leads to it.

    Raises:
        ValueError: a node's class was registered without ``flatten_with_keys_fn``.

    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path({"a": [1, 2]})]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return list(_with_paths((), tree, is_leaf))


def tree_flatten_with_path(tree: PyTree, is_leaf: _Asks | None = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves of a tree, each with the path that leads to it, and the structure of the tree.

    Raises:
        ValueError: a node's class was registered without ``flatten_with_keys_fn``.

    >>> tree_flatten_with_path([7])
    ([((SequenceKey(idx=0),), 7)], TreeSpec(list, None, [*]))
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _Asks | None = None) -> PyTree:
    """`tree_map` with a function that gets the path to the leaf as its first argument.

    >>> tree_map_with_path(lambda path, leaf: f"{keystr(path)} = {leaf}", {"a": [1, 2]})
    {'a': ["['a'][0] = 1", "['a'][1] = 2"]}
    """
    spec, rows = _rows(tree, rests, is_leaf)
    paths = [path for path, _ in _with_paths((), tree, is_leaf)]
    return spec.unflatten(map(func, paths, *rows))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: _Asks | None = None) -> list[Any] | None:
    """For each leaf of a structure, the leaf of a tree at its position or above it. None if they do not fit.

    >>> _broadcast_to_and_flatten([1, (2, 3)], tree_structure([{"a": 0, "b": 0}, (0, 0)]))
    [1, 1, 2, 3]
    """
    if tree_is_leaf(tree, is_leaf):
        return [tree] * expect_spec(treespec).num_leaves
    kind = _get_node_type(tree)
    if treespec.is_leaf() or kind != treespec.type:
        return None
    parts, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(parts) != treespec.num_children or context != treespec.context:
        return None
    result: list[Any] = []
    for part, child in zip(parts, treespec.children()):
        found = _broadcast_to_and_flatten(part, child, is_leaf)
        if found is None:
            return None
        result += found
    return result


def __dir__() -> list[str]:
    return __all__


# Pickles and messages name this module.
for _thing in list(globals().values()):
    if isinstance(_thing, (type, FunctionType)) and _thing.__module__.startswith(f"{__name__}."):
        set_module(__name__, _thing)

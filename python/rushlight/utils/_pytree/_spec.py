"""The structure of a tree without its leaves: `TreeSpec`."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import FrozenInstanceError
from warnings import warn

from ._registry import STANDARD_DICT_TYPES, SUPPORTED_NODES, Context, PyTree, _get_node_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, NoReturn


class TreeSpec:
    """The structure of a tree: which containers it consists of, and where the leaves are.

    Args:
        type: the type of the outermost container, or None for a leaf.
        context: what the container needs besides its children, as its ``flatten_fn`` returned it.
        children_specs: the structures of the children.

    >>> spec = torch.utils._pytree.tree_structure({"a": [1, 2], "b": 3})
    >>> spec
    TreeSpec(dict, ['a', 'b'], [TreeSpec(list, None, [*,
        *]),
      *])
    >>> spec.num_leaves, spec.num_nodes, spec.num_children, spec.type
    (3, 5, 2, <class 'dict'>)
    >>> spec.unflatten("xyz")
    {'a': ['x', 'y'], 'b': 'z'}
    """

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")
    __match_args__ = ("type", "_context", "_children")

    type: Any
    num_nodes: int
    num_leaves: int
    num_children: int
    _context: Context
    _children: list[TreeSpec]

    def __init__(self, type: Any, context: Context, children_specs: list[TreeSpec]) -> None:
        nodes, leaves = 1, 1 if type is None else 0
        for child in children_specs:
            nodes += child.num_nodes
            leaves += child.num_leaves
        put = object.__setattr__
        put(self, "type", type)
        put(self, "_context", context)
        put(self, "_children", children_specs)
        put(self, "num_nodes", nodes)
        put(self, "num_leaves", leaves)
        put(self, "num_children", len(children_specs))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (treespec_leaf, ()) if self.is_leaf() else (TreeSpec, (self.type, self._context, self._children))

    def __repr__(self) -> str:
        return self._text(0)

    def _text(self, indent: int) -> str:
        if self.is_leaf():
            return "*"
        between = ",\n" + " " * (indent + 2)
        children = between.join(child._text(indent + 2) for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type == other.type
            and self.num_nodes == other.num_nodes
            and self._context == other._context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        # The context is left out, because it need not be hashable.
        return hash((self.type, self.num_leaves, tuple(self._children)))

    @property
    def context(self) -> Context:
        """What the outermost container needs besides its children: the keys of a dictionary, for example."""
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The older name of `children`."""
        warn(
            "`treespec.children_specs` is deprecated. Use `treespec.child(index)` to access a single child, "
            "or `treespec.children()` to get all children.",
            FutureWarning,
            stacklevel=2,
        )
        return self._children

    def is_leaf(self) -> bool:
        """Whether the tree is one leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures of the children, as a new list."""
        return self._children.copy()

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return self._children[index]

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """For each leaf of this structure, the part of a tree at its position, which may be a tree itself.

        Raises:
            ValueError: the tree does not begin like this structure.

        >>> torch.utils._pytree.tree_structure([1, {"a": 2}]).flatten_up_to([[1, 2], {"a": (3, 4)}])
        [[1, 2], (3, 4)]
        """
        found: list[PyTree] = []
        self._collect(tree, found)
        return found

    def _collect(self, tree: PyTree, found: list[PyTree]) -> None:
        if self.is_leaf():
            found.append(tree)
            return
        kind = _get_node_type(tree)
        alike = self.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
        if kind != self.type and not alike:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}.")
        parts, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(parts) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(parts)}.")
        if alike:
            # The context of a defaultdict begins with its function.
            keys = self._context[1] if self.type is defaultdict else self._context
            missing, extra = set(keys) - set(tree), set(tree) - set(keys)
            if missing or extra:
                message = "".join(
                    f" {word} key(s): {names};" for word, names in (("missing", missing), ("extra", extra)) if names
                )
                raise ValueError(f"Node keys mismatch;{message[:-1]}.")
            parts = [tree[key] for key in keys]
        elif kind is not deque and context != self._context:  # the length limits of two deques may differ
            raise ValueError(
                f"Node context mismatch for node type {self.type!r}; expected {self._context!r}, but got {context!r}."
            )
        for child, part in zip(self._children, parts):
            child._collect(part, found)

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree of this structure with the given leaves.

        Raises:
            ValueError: there are more or fewer leaves than the structure has.

        >>> torch.utils._pytree.tree_structure((0, [0])).unflatten([1, 2])
        (1, [2])
        """
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(given))

    def _build(self, leaves: Any) -> PyTree:
        if self.type is None:
            return next(leaves)
        parts = [child._build(leaves) for child in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(parts, self._context)


class LeafSpec(TreeSpec):
    """The structure of one leaf. `treespec_leaf` makes one without a warning."""

    __slots__ = ()

    def __init__(self) -> None:
        warn(
            "`isinstance(treespec, LeafSpec)` is deprecated, "
            "use `isinstance(treespec, TreeSpec) and treespec.is_leaf()` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(None, None, [])


def _make_leaf() -> LeafSpec:
    leaf = LeafSpec.__new__(LeafSpec)
    TreeSpec.__init__(leaf, None, None, [])
    return leaf


#: Structures cannot be changed, so all leaves share one.
LEAF = _make_leaf()

PyTreeSpec = TreeSpec


def treespec_leaf() -> LeafSpec:
    """The structure of one leaf.

    >>> treespec_leaf()
    *
    """
    return LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple with children of the given structures.

    Raises:
        ValueError: one of them is not a structure.

    >>> treespec_tuple([treespec_leaf(), treespec_leaf()]) == torch.utils._pytree.tree_structure((1, 2))
    True
    """
    children = list(iterable)
    if not all(isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec
) -> TreeSpec:
    """The structure of a dictionary with values of the given structures.

    Raises:
        ValueError: one of them is not a structure.

    >>> treespec_dict(a=treespec_leaf())
    TreeSpec(dict, ['a'], [*])
    """
    values = dict(mapping, **kwargs)
    if not all(isinstance(child, TreeSpec) for child in values.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {values}.")
    return TreeSpec(dict, list(values), list(values.values()))

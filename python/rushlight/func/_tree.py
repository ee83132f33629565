"""Nested containers (trees): flattening into a list of leaves, and rebuilding with other leaves.

The containers are those of `torch.utils._pytree`, with the classes that programs registered there.
"""

from __future__ import annotations

from rushlight.utils._pytree import SUPPORTED_NODES, _get_node_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def children(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]] | None:
    """The children of a container, and a function that rebuilds it. None for a leaf."""
    node = SUPPORTED_NODES.get(_get_node_type(tree))
    if node is None:
        return None
    parts, context = node.flatten_fn(tree)
    return list(parts), lambda new: node.unflatten_fn(new, context)


def _never(_: Any) -> bool:
    return False


def flatten(tree: Any, is_leaf: Callable[[Any], bool] = _never) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves from left to right, and a function that builds the same tree with other leaves. Containers for which
    ``is_leaf`` is true are leaves."""
    found = None if is_leaf(tree) else children(tree)
    if found is None:
        return [tree], lambda leaves: leaves[0]
    parts, build = found
    flat = [flatten(part, is_leaf) for part in parts]
    sizes = [len(leaves) for leaves, _ in flat]

    def around(leaves: list[Any]) -> Any:
        built, place = [], 0
        for size, (_, rebuild) in zip(sizes, flat):
            built.append(rebuild(leaves[place : place + size]))
            place += size
        return build(built)

    return [leaf for leaves, _ in flat for leaf in leaves], around


def each(function: Callable[[Any], Any], tree: Any) -> Any:
    """Applies a function to every leaf of a tree."""
    leaves, around = flatten(tree)
    return around([function(leaf) for leaf in leaves])


def spread(prefix: Any, tree: Any, is_leaf: Callable[[Any], bool] = _never) -> list[Any] | None:
    """For each leaf of the tree, the leaf of the prefix tree at its position or above it. None if the structures differ."""
    below = None if is_leaf(tree) else children(tree)
    above = children(prefix)
    if above is None:
        return [prefix] * len(flatten(tree, is_leaf)[0])
    if below is None or (
        type(prefix) is not type(tree) and not (isinstance(prefix, (tuple, list)) and isinstance(tree, (tuple, list)))
    ):
        return None
    if isinstance(tree, dict):
        if list(prefix) != list(tree):
            return None
    elif len(above[0]) != len(below[0]):
        return None
    result: list[Any] = []
    for part, subtree in zip(above[0], below[0]):
        found = spread(part, subtree, is_leaf)
        if found is None:
            return None
        result += found
    return result


def outline(tree: Any) -> Any:
    """The structure as a value that can be compared and printed, with stars in place of leaves."""
    return each(lambda _: "*", tree)

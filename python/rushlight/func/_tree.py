"""Nested containers of values: taken apart into a list, and built anew around other values."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def children(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]] | None:
    """What a container holds, and how it is built anew; None for a leaf."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return list(tree), kind
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        # The results of operators are made of one sequence, other tuples with names of one argument each.
        return list(tree), getattr(kind, "_make", kind)
    if kind is dict or kind is OrderedDict:
        return list(tree.values()), lambda parts: kind(zip(tree, parts))
    if kind is defaultdict:
        return list(tree.values()), lambda parts: defaultdict(tree.default_factory, zip(tree, parts))
    return None


def flatten(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves from left to right, and a function that builds the same tree around as many others."""
    found = children(tree)
    if found is None:
        return [tree], lambda leaves: leaves[0]
    parts, build = found
    flat = [flatten(part) for part in parts]
    sizes = [len(leaves) for leaves, _ in flat]

    def around(leaves: list[Any]) -> Any:
        built, place = [], 0
        for size, (_, rebuild) in zip(sizes, flat):
            built.append(rebuild(leaves[place : place + size]))
            place += size
        return build(built)

    return [leaf for leaves, _ in flat for leaf in leaves], around


def each(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with every leaf replaced by what the function makes of it."""
    leaves, around = flatten(tree)
    return around([function(leaf) for leaf in leaves])


def spread(prefix: Any, tree: Any) -> list[Any] | None:
    """For each leaf of the tree the value that stands at its place, or above it, in the prefix; None if they differ."""
    below = children(tree)
    above = children(prefix)
    if above is None:
        return [prefix] * len(flatten(tree)[0])
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
        found = spread(part, subtree)
        if found is None:
            return None
        result += found
    return result


def outline(tree: Any) -> Any:
    """The structure as a value that can be compared and printed: leaves are stars."""
    return each(lambda _: "*", tree)

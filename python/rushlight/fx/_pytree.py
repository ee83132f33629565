"""The leaves of containers in the order of a given structure: generated code reads the arguments with it."""

from __future__ import annotations

from rushlight.utils._pytree import tree_flatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.utils._pytree import PyTree, TreeSpec

#: How to read the parts of registered classes.
SUPPORTED_NODES: dict[type, Callable[[Any, TreeSpec], list[Any]]] = {}


def register_pytree_flatten_spec(
    cls: type,
    flatten_fn_spec: Callable[[Any, TreeSpec], list[Any]],
    flatten_fn_exact_match_spec: Callable[[Any, TreeSpec], bool] | None = None,
) -> None:
    """Says how to read the parts of a class of containers in the order of a structure.

    >>> from rushlight.fx import _pytree
    >>> _pytree.register_pytree_flatten_spec(range, lambda numbers, spec: list(numbers))
    """
    SUPPORTED_NODES[cls] = flatten_fn_spec


def _deregister_pytree_flatten_spec(cls: type) -> None:
    SUPPORTED_NODES.pop(cls, None)


def tree_flatten_spec(pytree: PyTree, spec: TreeSpec) -> list[Any]:
    """The leaves of a container that has at least the parts of ``spec``. Further parts are left out.

    Raises:
        RuntimeError: the structure has a class that is not registered.

    >>> from rushlight.fx import _pytree
    >>> from rushlight.utils import _pytree as trees
    >>> _pytree.tree_flatten_spec({"b": 2, "a": 1, "c": 3}, trees.tree_flatten({"a": 0, "b": 0})[1])
    [1, 2]
    """
    if spec.is_leaf():
        return [pytree]
    read = SUPPORTED_NODES.get(spec.type)
    if read is not None:
        parts = read(pytree, spec)
    elif issubclass(spec.type, dict):
        parts = [pytree[key] for key in spec.context]
    elif issubclass(spec.type, (tuple, list)):
        parts = [pytree[place] for place in range(spec.num_children)]
    else:
        raise RuntimeError(
            f"{type(pytree)} does not have a flatten_fn_spec associated with it. Please register one with "
            "torch.fx._pytree.register_pytree_flatten_spec.  If you have serialized your model, make sure that any custom "
            "pytrees have been registered before loading it."
        )
    return [leaf for part, inner in zip(parts, spec.children()) for leaf in tree_flatten_spec(part, inner)]


__all__ = ["register_pytree_flatten_spec", "tree_flatten", "tree_flatten_spec"]

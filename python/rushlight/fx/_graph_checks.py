"""The check of a graph."""

from __future__ import annotations

from ._names import type_text
from .node import Node, _legal_ops, map_arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .graph import Graph


def check(graph: Graph) -> None:
    """Raises RuntimeError if the nodes are not in order, or if the owning module lacks what they name."""
    seen: set[Node] = set()
    names: set[str] = set()
    for node in graph.nodes:
        if node.op not in _legal_ops:
            raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
        if node.graph is not graph:
            raise RuntimeError(f"Node '{node}' does not belong to this Graph!")

        def known(used: Node, node: Node = node) -> Node:
            if used.graph is not graph:
                raise RuntimeError(
                    f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used as an argument! If you are "
                    f"copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap values\n{graph}"
                )
            if used not in seen:
                raise RuntimeError(
                    f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that Nodes in the "
                    f"graph are topologically ordered\n{graph}"
                )
            return used

        map_arg((node.args, node.kwargs), known)
        seen.add(node)
        if node.name in names:
            raise RuntimeError(f"Node redefined name {node.name}!")
        names.add(node.name)
        if graph.owning_module is not None:
            _check_target(graph.owning_module, node)


def _check_target(owner: Any, node: Node) -> None:
    if node.op not in ("get_attr", "call_module"):
        return
    path = node.target.split(".")
    for place, name in enumerate(path):
        if not hasattr(owner, name):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {name} of {'.'.join(path[:place])}"
            )
        owner = getattr(owner, name)
    from rushlight.nn import Module

    if node.op == "call_module" and not isinstance(owner, Module):
        raise RuntimeError(
            f"Node {node} target {node.target} {path[-1]} of {'.'.join(path[:-1])} does not reference an nn.Module, "
            f"but {type_text(type(owner))}"
        )

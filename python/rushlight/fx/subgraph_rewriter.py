"""`replace_pattern`: finds the places of a graph that look like a pattern, and puts another graph there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rushlight.nn import Module

from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _copy_attr
from .node import Node, map_aggregate
from .passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A place that was replaced: the last node of the pattern, and the place's node for each node of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A place that was replaced, and the new nodes there."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replaces every part of a graph that does what ``pattern`` does, unless it overlaps an earlier one.

    The inputs of the pattern match any values. A result inside the part that something else uses prevents the match.

    Args:
        gm: the module, which changes.
        pattern: a function or module, which is traced, or a graph module.
        replacement: the same, with as many inputs as ``pattern``.

    Returns:
        the places.

    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(x).neg() + 1)
    >>> matches = torch.fx.replace_pattern(gm, lambda x: torch.relu(x).neg(), lambda x: torch.tanh(x))
    >>> print(gm.code.strip())
    def forward(self, x):
        tanh = torch.tanh(x);  x = None
        add = tanh + 1;  tanh = None
        return add
    """
    replaced = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(anchor=one.anchor, nodes_map=one.nodes_map) for one in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any | None = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """`replace_pattern` with conditions.

    Args:
        gm: the module, which changes.
        pattern: a function or module, which is traced, a graph, or a graph module.
        replacement: the same, with as many inputs as ``pattern``.
        match_filters: functions that take a match, the graph and the pattern's graph. Each must return True.
        ignore_literals: numbers and other constants match any.
        replacement_callback: makes the graph of the replacement for a match.
        node_name_match: only nodes with this text in their name are matched.

    Returns:
        the places, with the new nodes.

    >>> gm = torch.fx.symbolic_trace(lambda x: x + 1)
    >>> replaced = torch.fx.subgraph_rewriter.replace_pattern_with_filters(
    ...     gm, lambda x: x + 5, lambda x: x - 1, ignore_literals=True
    ... )
    >>> gm(torch.ones(1)), replaced[0].replacements
    (tensor([0.]), [sub])
    """
    graph = gm.graph
    pattern_graph = _graph(pattern)
    matcher = SubgraphMatcher(
        pattern_graph,
        match_output=False,
        match_placeholder=False,
        remove_overlapping_matches=True,
        ignore_literals=ignore_literals,
    )
    matches = [
        match
        for match in matcher.match(graph, node_name_match=node_name_match)
        if all(accepts(match, graph, pattern_graph) for accepts in match_filters or ())
    ]
    if replacement_callback is None and replacement is None:
        raise AssertionError("Must provide either replacement GraphModule or replacement_callback")
    common = None if replacement_callback is not None else _graph(replacement)
    changed: dict[Node, Any] = {}
    replaced = []
    for match in matches:
        if replacement_callback is not None:
            part = replacement_callback(match, graph, pattern_graph)
        else:
            assert common is not None
            part = common
        replaced.append(_replace(graph, match, part, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _bring_attributes(gm, replacement)
    return replaced


def _graph(program: Any) -> Graph:
    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def _replace(graph: Graph, match: InternalMatch, part: Graph, changed: dict[Node, Any]) -> ReplacedPatterns:
    """Replaces one match. ``changed`` has what became of nodes that earlier replacements removed."""
    inputs = [node for node in part.nodes if node.op == "placeholder"]
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError(
            f"Mismatch in placeholders: {len(match.placeholder_nodes)} placeholders in the pattern but {len(inputs)} in the replacement"
        )
    values: dict[Node, Any] = {}
    for own, given in zip(inputs, match.placeholder_nodes):
        values[own] = changed.get(given, given) if isinstance(given, Node) else given
        if isinstance(given, Node):
            match.placeholder_nodes[match.placeholder_nodes.index(given)] = values[own]
    users = [user for node in match.returning_nodes for user in node.users]
    if not users:
        raise AssertionError("The returning_nodes should have at least one user node")
    first = min(users)
    with graph.inserting_before(first):
        before = set(graph.nodes)
        results = graph.graph_copy(part, values)
    made = [node for node in graph.nodes if node not in before]
    flat: list[Any] = []
    map_aggregate(results, flat.append)
    if len(match.returning_nodes) != len(flat):
        raise AssertionError(
            f"Mismatch in returning nodes: {len(match.returning_nodes)} in the pattern but {len(flat)} in the replacement"
        )
    for old, new in zip(match.returning_nodes, flat):
        old.replace_all_uses_with(new)
        changed[old] = new
    matched = {node for own, node in match.nodes_map.items() if own.op not in ("placeholder", "output")}
    for node in reversed(list(graph.nodes)):
        if node in matched:
            graph.erase_node(node)
    return ReplacedPatterns(anchor=match.anchors[0], nodes_map=match.nodes_map, replacements=made)


def _bring_attributes(gm: GraphModule, replacement: Module) -> None:
    """Gives the module what the new part of its graph reads and calls, and removes what is no longer used."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op in ("call_module", "get_attr") and not _has(gm, node.target):
            if not _has(replacement, node.target):
                raise RuntimeError(
                    f'Attempted to create a "{node.op}" node during subgraph rewriting with target {node.target}, but the '
                    "referenced attribute does not exist in the replacement GraphModule"
                )
            _copy_attr(replacement, gm, node.target)
    gm.graph.lint()


def _has(module: Any, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(module, name):
            return False
        module = getattr(module, name)
    return True


def __dir__() -> list[str]:
    return __all__

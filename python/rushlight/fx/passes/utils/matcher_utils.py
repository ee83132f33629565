"""Finds the parts of a graph that look like another one."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import rushlight as torch
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node
from rushlight.utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """A part of a graph that looks like a pattern.

    Attributes:
        anchors: the last nodes of the pattern.
        nodes_map: its node for each node of the pattern.
        placeholder_nodes: the values of the pattern's inputs, in order.
        returning_nodes: the nodes whose results the pattern returns.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            anchors=list(self.anchors),
            nodes_map=dict(self.nodes_map),
            placeholder_nodes=list(self.placeholder_nodes),
            returning_nodes=list(self.returning_nodes),
        )


class SubgraphMatcher:
    """Finds the parts of graphs that look like ``pattern``.

    Args:
        pattern: the graph to look for. Its inputs match any values.
        match_output: the outputs must match as well.
        match_placeholder: the inputs match inputs alone.
        remove_overlapping_matches: leaves out a part that shares a node with an earlier one.
        ignore_literals: constants match any.

    >>> from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher
    >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(x).neg().abs()).graph
    >>> matcher = SubgraphMatcher(torch.fx.symbolic_trace(lambda x: x.neg()).graph)
    >>> [match.returning_nodes for match in matcher.match(graph)]
    [[neg]]
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        for node in pattern.nodes:
            if node.op not in ("output", "get_attr") and not node.users:
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.placeholders = [node for node in pattern.nodes if node.op == "placeholder"]
        output = pattern.output_node()
        self.returning = output.all_input_nodes
        # A result that the pattern uses itself is found through its user.
        self.anchors = [output] if match_output else [node for node in self.returning if len(node.users) == 1]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The parts of a graph that look like the pattern, in order."""
        candidates = [
            [node for node in graph.nodes if self._alike(anchor, node) and node_name_match in node.name]
            for anchor in self.anchors
        ]
        found = []
        for choice in product(*candidates):
            match = InternalMatch(anchors=self.anchors)
            if all(self._match_node(own, node, match) for own, node in zip(self.anchors, choice)):
                match.placeholder_nodes = [match.nodes_map.get(own) for own in self.placeholders]
                match.returning_nodes = [match.nodes_map[own] for own in self.returning]
                if self._contained(match):
                    found.append(match)
        return self._without_overlaps(found) if self.remove_overlapping_matches else found

    def _alike(self, own: Node, node: Node) -> bool:
        """Whether two nodes do the same, apart from their arguments."""
        if own.op == "placeholder" and not self.match_placeholder:
            return True
        if own.op != node.op:
            return False
        if own.op in ("placeholder", "output"):
            return True
        if own.op == "get_attr":
            return _same_kind(own, node)
        return own.target == node.target

    def _match_node(self, own: Node, node: Node, match: InternalMatch) -> bool:
        if own in match.nodes_map:
            return match.nodes_map[own] is node
        if node in match.nodes_map.values() and own.op != "placeholder":
            return False
        if not self._alike(own, node):
            return False
        saved = dict(match.nodes_map)
        match.nodes_map[own] = node
        if own.op == "placeholder" or self._match_arguments(own, node, match):
            return True
        match.nodes_map = saved
        return False

    def _match_arguments(self, own: Node, node: Node, match: InternalMatch) -> bool:
        if len(own.args) != len(node.args) or own.kwargs.keys() != node.kwargs.keys():
            own_args, args = _by_name(own), _by_name(node)
            if own_args is None or args is None or own_args.keys() != args.keys():
                return False
        else:
            own_args = {"args": own.args, **own.kwargs}
            args = {"args": node.args, **node.kwargs}
        own_leaves, own_spec = pytree.tree_flatten([_plain(own_args[name]) for name in own_args])
        leaves, spec = pytree.tree_flatten([_plain(args[name]) for name in own_args])
        if own_spec != spec:
            return False
        return all(self._match_argument(mine, other, match) for mine, other in zip(own_leaves, leaves))

    def _match_argument(self, mine: Any, other: Any, match: InternalMatch) -> bool:
        if isinstance(mine, Node):
            if isinstance(other, Node):
                return self._match_node(mine, other, match)
            if mine.op != "placeholder":
                return False
            if mine in match.nodes_map:
                return match.nodes_map[mine] == other
            match.nodes_map[mine] = other
            return True
        if isinstance(other, Node):
            return False
        return self.ignore_literals or (type(mine) is type(other) and mine == other)

    def _contained(self, match: InternalMatch) -> bool:
        """Whether the rest of the graph uses only the results that the pattern returns."""
        nodes = {node for own, node in match.nodes_map.items() if own.op != "placeholder" and isinstance(node, Node)}
        inner = nodes - set(match.returning_nodes)
        return all(user in nodes for node in inner if node.op not in ("placeholder", "get_attr") for user in node.users)

    def _without_overlaps(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        taken: set[Node] = set()
        kept = []
        for match in matches:
            own = {node for pattern, node in match.nodes_map.items() if pattern.op not in ("placeholder", "output")}
            if not own & taken:
                taken |= own
                kept.append(match)
        return kept


def _plain(argument: Any) -> Any:
    """Immutable containers as plain ones, so that their structures compare."""
    if isinstance(argument, tuple):
        return tuple(map(_plain, argument))
    if isinstance(argument, list):
        return list(map(_plain, argument))
    if isinstance(argument, dict):
        return {key: _plain(value) for key, value in argument.items()}
    return argument


def _by_name(node: Node) -> dict[str, Any] | None:
    """All arguments of a call by name, or None where the signature is not known."""
    owner = node.graph.owning_module or torch.nn.Module()
    if node.op == "call_function":
        found = node.normalized_arguments(owner, normalize_to_only_use_kwargs=True)
        return None if found is None or found.args else found.kwargs
    return None


def _same_kind(own: Node, node: Node) -> bool:
    mine, other = (_attribute(one) for one in (own, node))
    return type(mine) is type(other) and isinstance(mine, torch.Tensor)


def _attribute(node: Node) -> Any:
    value = node.graph.owning_module
    for name in node.target.split("."):
        value = getattr(value, name, None)
    return value


def __dir__() -> list[str]:
    return __all__

"""The graph of a package: which module needs which other ones."""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any


class DiGraph:
    """A directed graph whose nodes have attributes. Nodes and edges keep the order in which they were added."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self._after: dict[str, dict[str, None]] = {}
        self._before: dict[str, dict[str, None]] = {}

    def add_node(self, name: str, **attributes: Any) -> None:
        """Adds a node, or attributes to it."""
        if name not in self.nodes:
            self.nodes[name], self._after[name], self._before[name] = {}, {}, {}
        self.nodes[name].update(attributes)

    def add_edge(self, source: str, target: str) -> None:
        self.add_node(source)
        self.add_node(target)
        self._after[source][target] = self._before[target][source] = None

    def __contains__(self, name: str) -> bool:
        return name in self.nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    @property
    def edges(self) -> Iterator[tuple[str, str]]:
        return ((source, target) for source, targets in self._after.items() for target in targets)

    def predecessors(self, name: str) -> list[str]:
        return list(self._before.get(name, ()))

    def first_path(self, name: str) -> list[str]:
        """The nodes from one that nothing needs to a node, along the first edges."""
        path = [name]
        while (before := next((one for one in self._before.get(path[0], ()) if one not in path), None)) is not None:
            path.insert(0, before)
        return path

    def all_paths(self, source: str, target: str) -> str:
        """The drawing of the nodes and edges on all paths between two nodes."""
        for name in (source, target):
            if name not in self.nodes:
                raise ValueError(f"The node {name} is not in the digraph.")
        between = _reached(source, self._after) & _reached(target, self._before)
        return _drawn(edge for edge in self.edges if between.issuperset(edge))

    def to_dot(self) -> str:
        """The drawing of the graph in the language of Graphviz."""
        return _drawn(self.edges)


def _reached(start: str, edges: dict[str, dict[str, None]]) -> set[str]:
    found, waiting = {start}, deque([start])
    while waiting:
        new = edges[waiting.popleft()].keys() - found
        found |= new
        waiting.extend(new)
    return found


def _drawn(edges: Iterable[tuple[str, str]]) -> str:
    lines = "\n".join(f'"{source}" -> "{target}";' for source, target in edges)
    return f"digraph G {{\nrankdir = LR;\nnode [shape=box];\n{lines}\n}}\n"

"""The base class of passes over graph modules."""

from __future__ import annotations

from typing import NamedTuple

from rushlight.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """What a pass made, and whether it changed anything."""

    graph_module: GraphModule
    modified: bool


class PassBase:
    """A pass over a graph module. Subclasses define `call`, and may define the two checks.

    >>> from rushlight.fx.passes.infra.pass_base import PassBase, PassResult
    >>> class Nothing(PassBase):
    ...     def call(self, graph_module):
    ...         return PassResult(graph_module, False)
    >>> Nothing()(torch.fx.symbolic_trace(lambda x: x)).modified
    False
    """

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    def call(self, graph_module: GraphModule) -> PassResult | None:
        """The pass itself."""
        raise NotImplementedError

    def requires(self, graph_module: GraphModule) -> None:
        """Checks the module before the pass."""

    def ensures(self, graph_module: GraphModule) -> None:
        """Checks the module after the pass."""


def __dir__() -> list[str]:
    return __all__

"""`Interpreter` and `Transformer`: classes that run a graph node by node."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager

from rushlight.nn import Module

from . import traceback as fx_traceback
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_aggregate, map_arg
from .proxy import Proxy, Scope, TracerBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph node by node. Subclasses change what a kind of node does.

    Args:
        module: the module that the graph reads and calls.
        garbage_collect_values: forgets each result after its last use.
        graph: the graph. Without it that of the module.

    >>> class Counted(torch.fx.Interpreter):
    ...     calls = 0
    ...     def call_function(self, target, args, kwargs):
    ...         self.calls += 1
    ...         return super().call_function(target, args, kwargs)
    >>> interpreter = Counted(torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1))
    >>> interpreter.run(torch.ones(1)), interpreter.calls
    (tensor([2.]), 2)
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = graph if graph is not None else module.graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            self._find_last_uses()

    def _find_last_uses(self) -> None:
        seen: set[Node] = set()
        for user in reversed(self.graph.nodes):
            for used in user.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    self.user_to_last_uses.setdefault(user, []).append(used)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Runs the graph.

        Args:
            args: the inputs in order.
            initial_env: results of nodes that are not to be run.
            enable_io_processing: arguments and result have the structure of the module's ``forward``.

        Raises:
            RuntimeError: an input without a default is missing.

        >>> torch.fx.Interpreter(torch.fx.symbolic_trace(lambda x: x + 1)).run(1)
        2
        """
        self.env = dict(initial_env or {})
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    self._explain(error, node)
                raise
            if self.garbage_collect_values:
                for used in self.user_to_last_uses.get(node, ()):
                    self.env.pop(used, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def _explain(self, error: Exception, node: Node) -> None:
        """Adds the node to the text of an error."""
        said = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
        text = f"{error.args[0]}\n\n{said}" if error.args else said
        error.args = (text, *error.args[1:])

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Runs the graph with the inputs of a list, which it empties, so that they can be freed.

        >>> args = [1]
        >>> torch.fx.Interpreter(torch.fx.symbolic_trace(lambda x: x + 1)).boxed_run(args), args
        (2, [])
        """
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args, enable_io_processing=False)

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node):
            yield

    def run_node(self, n: Node) -> Any:
        """The result of a node, whose inputs have been computed.

        >>> gm = torch.fx.symbolic_trace(lambda: 1)
        >>> torch.fx.Interpreter(gm).run_node(gm.graph.output_node())
        1
        """
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            if not isinstance(args, tuple):
                raise AssertionError(f"Expected args to be tuple, got {type(args)}")
            if not isinstance(kwargs, dict):
                raise AssertionError(f"Expected kwargs to be dict, got {type(kwargs)}")
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next input, or its default. A target ``*args`` takes all the rest."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The attribute of the module at a path."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a function."""
        if isinstance(target, str):
            raise AssertionError(f"Expected target to be callable, got str: {target}")
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a method of the first argument."""
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        own, *rest = args
        return getattr(own, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the module at a path."""
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The graph's result."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """The attribute of the module at a path.

        Raises:
            RuntimeError: it has none.

        >>> gm = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
        >>> torch.fx.Interpreter(gm).fetch_attr("0")
        ReLU()
        """
        value: Any = self.module
        path = target.split(".")
        for place, name in enumerate(path):
            if not hasattr(value, name):
                raise RuntimeError(
                    f"Node referenced nonexistent target {'.'.join(path[:place])}, full target: {target}"
                )
            value = getattr(value, name)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node, with results in place of nodes.

        >>> gm = torch.fx.symbolic_trace(lambda: 1)
        >>> torch.fx.Interpreter(gm).fetch_args_kwargs_from_env(gm.graph.output_node())
        ((1,), {})
        """
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """The arguments ``args`` of a node ``n``, with results in place of nodes.

        Raises:
            RuntimeError: a node has not been computed.
        """

        def result(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {used}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[used]

        return map_arg(args, result)


class Transformer(Interpreter):
    """Runs a graph with proxies, and so makes another one. Subclasses change what a kind of node becomes.

    Args:
        module: the graph module.

    >>> class Sigmoid(torch.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(torch.sigmoid if target is torch.relu else target, args, kwargs)
    >>> print(Sigmoid(torch.fx.symbolic_trace(lambda x: torch.relu(x))).transform().code.strip())
    def forward(self, x):
        sigmoid = torch.sigmoid(x);  x = None
        return sigmoid
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _Recorder(self.new_graph, module)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """An input of the new graph."""
        default = args[:1]
        return Proxy(self.new_graph.create_node("placeholder", target, default), self.tracer)

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """A read of the attribute in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the module in the new graph."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the function in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Makes the new graph, and a module that runs it.

        >>> torch.fx.Transformer(torch.fx.symbolic_trace(lambda x: x + 1)).transform()(1)
        2
        """
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:

            def node_of(leaf: Any) -> Any:
                return leaf.node if isinstance(leaf, Proxy) else leaf

            self.new_graph.output(map_aggregate(result, node_of))
        return GraphModule(self.module, self.new_graph)


class _Recorder(TracerBase):
    """The tracer of a `Transformer`."""

    def __init__(self, graph: Graph, root: Module) -> None:
        self.graph = graph
        self.root = root
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}

    def is_leaf_module(self, _: Module, __: str) -> bool:
        return True


def __dir__() -> list[str]:
    return __all__

"""`Graph`: the steps of a program in order, and how programs change them."""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from inspect import Parameter

from rushlight._warnings import warn

from ._codegen import CodeGen as CodeGen
from ._codegen import PythonCode as PythonCode
from ._codegen import _PyTreeCodeGen as _PyTreeCodeGen
from ._codegen import _PyTreeInfo as _PyTreeInfo
from ._codegen import inplace_methods as inplace_methods
from ._codegen import magic_methods as magic_methods
from ._codegen import reflectable_magic_methods as reflectable_magic_methods
from ._graph_checks import check
from ._names import _Namespace as _Namespace
from ._names import name_of_target
from .node import Node, map_arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ._symbolic_trace import Tracer
    from .graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]


class _node_list:
    """The nodes of a graph in order. Programs may change the graph while they go through it."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root, direction = self.graph._root, self.direction
        node = getattr(root, direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, direction)

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class _InsertPoint:
    """Where a graph inserts new nodes, until the end of the ``with`` block."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.before, graph._insert = graph._insert, insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self.graph._insert = self.before


class Graph:
    """The steps of a program: inputs, calls, and an output, each a `Node`.

    Args:
        owning_module: the module that the graph belongs to.
        tracer_cls: the class of the tracer that made the graph.
        tracer_extras: what modules keep for the tracer.

    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> node = graph.call_function(torch.relu, (x,))
    >>> result = graph.output(node)
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        return relu
    >>> torch.fx.GraphModule({}, graph)(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Tracer] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._numbered = False
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self) -> Any:
        """The module that the graph belongs to, or None."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: Any) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in order."""
        return _node_list(self)

    def _changed(self) -> None:
        self._numbered = False

    def _number(self) -> None:
        """Numbers the nodes, so that two of them can be compared."""
        if not self._numbered:
            for place, node in enumerate(self.nodes):
                node._place = place
            self._numbered = True

    def output_node(self) -> Node:
        """The output.

        >>> torch.fx.symbolic_trace(lambda x: x).graph.output_node()
        output
        """
        last = self._root._prev
        if last.op != "output":
            raise AssertionError(f"Expected the last node to be an output, got {last.op}")
        return last

    def find_nodes(self, *, op: str, target: Any | None = None, sort: bool = True) -> list[Any]:
        """The nodes of one kind, and with one target where it is given, in order.

        >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(x) + torch.relu(x)).graph
        >>> graph.find_nodes(op="call_function", target=torch.relu)
        [relu, relu_1]
        """
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Appends copies of all nodes of a graph, except its output, to this graph.

        Args:
            g: the other graph.
            val_map: receives the copy of every node. Nodes that it has already are not copied.
            return_output_node: returns the other graph's output node as well.

        Returns:
            what the other graph returns, in terms of the copies, or None.

        >>> source, graph = torch.fx.symbolic_trace(lambda x: torch.relu(x)).graph, torch.fx.Graph()
        >>> graph.graph_copy(source, {})
        relu
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda used: val_map[used])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda used: val_map[used])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        memo = {} if memo is None else memo
        copy = Graph(tracer_cls=self._tracer_cls)
        memo[id(self)] = copy
        copies: dict[Node, Node] = {}
        result = copy.graph_copy(self, copies, return_output_node=True)
        copy._codegen = deepcopy(self._codegen)
        if result is not None:
            value, old = result
            copy.output(value, type_expr=old.type).meta.update(old.meta)
        memo.update((id(node), copied) for node, copied in copies.items())
        return copy

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Makes a node and inserts it, at the end unless ``inserting_before`` or ``inserting_after`` says otherwise.

        Args:
            op: the kind of step, as in `Node`.
            target: what is called or read.
            args, kwargs: the arguments.
            name: the name, which gets a number if another node has it. Without it the target's name.
            type_expr: the annotation of the result.

        >>> graph = torch.fx.Graph()
        >>> graph.create_node("call_function", torch.add, (1, 2), name="total")
        total
        """
        if op not in ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output"):
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        args = () if args is None else args
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        kwargs = {} if kwargs is None else kwargs
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        name = self._graph_namespace.create_name(name if name is not None else self._target_to_str(target), None)
        node = Node(self, name, op, target, args, kwargs, type_expr)
        for hook in getattr(self._owning_module, "_create_node_hooks", ()):
            hook(node)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        return node

    def _target_to_str(self, target: Any) -> str:
        return name_of_target(target)

    def process_inputs(self, *args: Any) -> Any:
        """The values of the inputs, from the arguments of the module's ``forward``.

        >>> torch.fx.Graph().process_inputs(1, 2)
        (1, 2)
        """
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """The result of the module's ``forward``, from that of the output.

        >>> torch.fx.Graph().process_outputs(1)
        1
        """
        return self._codegen.process_outputs(out)

    def erase_node(self, to_erase: Node) -> None:
        """Removes a node.

        Raises:
            RuntimeError: another node uses it.

        >>> graph = torch.fx.Graph()
        >>> x, y = graph.placeholder("x"), graph.placeholder("y")
        >>> graph.erase_node(x)
        >>> list(graph.nodes)
        [y]
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warn(f"erase_node({to_erase}) on an already erased node")
            return
        for hook in getattr(self._owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase.args, to_erase.kwargs = (), {}

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """A context in which new nodes are inserted before ``n``, or at the beginning.

        >>> graph = torch.fx.Graph()
        >>> y = graph.placeholder("y")
        >>> with graph.inserting_before(y):
        ...     x = graph.placeholder("x")
        >>> list(graph.nodes)
        [x, y]
        """
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """A context in which new nodes are inserted after ``n``, or at the end.

        >>> graph = torch.fx.Graph()
        >>> x, z = graph.placeholder("x"), graph.placeholder("z")
        >>> with graph.inserting_after(x):
        ...     y = graph.placeholder("y")
        >>> list(graph.nodes)
        [x, y, z]
        """
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def placeholder(self, name: str, type_expr: Any | None = None, default_value: Any = Parameter.empty) -> Node:
        """Inserts an input.

        >>> torch.fx.Graph().placeholder("x", default_value=1).args
        (1,)
        """
        args = () if default_value is Parameter.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Inserts a step that reads a parameter, buffer or other attribute of the module, by its path.

        >>> torch.fx.Graph().get_attr("layer.weight")
        layer_weight
        """
        owner = self._owning_module
        if owner is not None and not _has_attribute(owner, qualified_name):
            warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! "
                "Call GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the "
                "necessary Parameter, or nn.Module.register_buffer to add the necessary buffer",
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Inserts a call of the module of that path.

        >>> torch.fx.Graph().call_module("layer.0", (1,))
        layer_0
        """
        if self._owning_module is not None and not _has_module(self._owning_module, module_name):
            warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! "
                "Call GraphModule.add_submodule to add the necessary submodule"
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Inserts a call of a method of the first argument.

        >>> graph = torch.fx.Graph()
        >>> graph.call_method("sum", (graph.placeholder("x"),))
        sum_1
        """
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Inserts a call of a function.

        >>> graph = torch.fx.Graph()
        >>> graph.call_function(torch.relu, (graph.placeholder("x"),))
        relu
        """
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda used: used) -> Node:
        """Inserts a copy of another graph's node.

        Args:
            node: the node.
            arg_transform: the node of this graph for each node that the other one uses.

        >>> source = torch.fx.Graph()
        >>> node = source.call_function(torch.relu, (source.placeholder("x"),))
        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("y")
        >>> graph.node_copy(node, lambda used: x).args
        (y,)
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        copy = self.create_node(node.op, node.target, args, dict(kwargs), node.name, node.type)
        copy.meta = dict(node.meta)
        return copy

    def output(self, result: Any, type_expr: Any | None = None) -> Node:
        """Inserts the output, which is the last node. ``result`` may have several nodes in containers.

        >>> graph = torch.fx.Graph()
        >>> graph.output((graph.placeholder("x"), 1)).args
        ((x, 1),)
        """
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """The graph as a Python function.

        Args:
            root_module: the variable that has the module.
            verbose: adds comments with the lines of the program.
            include_stride, include_device, colored, record_func, additional_meta: have no effect.
            expanded_def: writes each parameter into a line of its own.

        >>> code = torch.fx.symbolic_trace(lambda x: torch.relu(x)).graph.python_code("self")
        >>> print(code.src.strip())
        def forward(self, x):
            relu = torch.relu(x);  x = None
            return relu
        """
        namespace = _Namespace()
        return self._codegen._gen_python_code(
            self.nodes, root_module, namespace, verbose=verbose, expanded_def=expanded_def
        )

    def __str__(self) -> str:
        lines = [line for node in self.nodes if (line := node.format_node())]
        return "\n    ".join(["graph():", *lines])

    def print_tabular(self) -> None:
        """Prints the nodes as a table.

        >>> torch.fx.symbolic_trace(lambda x: torch.relu(x)).graph.print_tabular()
        opcode         name    target                    args     kwargs
        -------------  ------  ------------------------  -------  --------
        placeholder    x       x                         ()       {}
        call_function  relu    <built-in function relu>  (x,)     {}
        output         output  output                    (relu,)  {}
        """
        rows = [["opcode", "name", "target", "args", "kwargs"]]
        rows += [
            [str(getattr(node, name)) for name in ("op", "name", "target", "args", "kwargs")] for node in self.nodes
        ]
        # The heads of the columns are two characters narrower than the rule below them.
        widths = [max(len(rows[0][at]) + 2, *(len(row[at]) for row in rows)) for at in range(5)]
        rows.insert(1, ["-" * width for width in widths])
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())

    def lint(self) -> None:
        """Checks that the graph is well formed: names, order, and what the owning module has.

        Raises:
            RuntimeError: it is not.

        >>> torch.fx.symbolic_trace(lambda x: x + 1).graph.lint()
        """
        check(self)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Removes the nodes whose result nothing uses, except inputs and calls with effects.

        Args:
            is_impure_node: says which nodes stay. Without it `Node.is_impure`.

        Returns:
            whether a node was removed.

        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> unused, result = graph.call_function(torch.relu, (x,)), graph.output(x)
        >>> graph.eliminate_dead_code(), list(graph.nodes)
        (True, [x, output])
        """
        self.lint()
        stays = is_impure_node or (lambda node: node.is_impure())
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and not stays(node):
                self.erase_node(node)
        return self._len != before

    def set_codegen(self, codegen: CodeGen) -> None:
        """Lets another object write the graph's code.

        >>> torch.fx.Graph().set_codegen(torch.fx.graph.CodeGen())
        """
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Callable[[Any], Any]) -> Any:
        """Changes the lines of generated code.

        Args:
            make_transformer: takes the former transformer, or None, and returns a function from lines to lines.

        Returns:
            a context that restores the former transformer at its end.

        >>> graph = torch.fx.symbolic_trace(lambda x: x).graph
        >>> with graph.on_generate_code(lambda former: lambda lines: ["# identity\\n", *lines]):
        ...     print(graph.python_code("self").src.strip())
        def forward(self, x):
            # identity
            return x
        """
        former = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(former)

        @contextmanager
        def restored() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = former

        return restored()

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.users.clear()
            self.erase_node(node)


def _has_module(owner: Any, path: str) -> bool:
    try:
        owner.get_submodule(path)
    except AttributeError:
        return False
    return True


def _has_attribute(owner: Any, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(owner, name):
            return False
        owner = getattr(owner, name)
    return True


def __dir__() -> list[str]:
    return __all__

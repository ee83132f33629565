"""The graph of a traced call: its operators in order, with their inputs and outputs (`torch._C.Graph`)."""

from __future__ import annotations

import rushlight as torch

from ._types import ListType, TensorType, TupleType, Type, type_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

__all__ = ["Graph", "Node", "TracingState", "Use", "Value"]


class Use:
    """A place where a value is used: a node, and the position among its inputs.

    >>> graph, _ = torch.jit._get_trace_graph(torch.nn.ReLU(), torch.ones(1))
    >>> [(use.user.kind(), use.offset) for use in next(graph.inputs()).uses()]
    [('aten::relu', 0)]
    """

    def __init__(self, user: Node, offset: int) -> None:
        self.user, self.offset = user, offset


class Value:
    """What a node of a graph takes or returns.

    >>> graph, _ = torch.jit._get_trace_graph(torch.nn.ReLU(), torch.ones(1))
    >>> next(graph.outputs()).node().kind()
    'aten::relu'
    """

    def __init__(self, node: Node, type: Type, name: str) -> None:
        self._node, self._type, self._name = node, type, name

    def node(self) -> Node:
        """The node that returns this value."""
        return self._node

    def type(self) -> Type:
        """The type, with sizes for tensors."""
        return self._type

    def debugName(self) -> str:
        """The name in the text of the graph."""
        return self._name

    def setDebugName(self, name: str) -> Value:
        """Sets the name and returns the value."""
        self._name = name
        return self

    def offset(self) -> int:
        """The position among the node's outputs."""
        return self._node._outputs.index(self)

    def isCompleteTensor(self) -> bool:
        """Whether this is a tensor of known sizes."""
        return isinstance(self._type, TensorType) and self._type.sizes() is not None

    def toIValue(self) -> Any:
        """The value of a constant, else None."""
        return self._node._constant

    def uses(self) -> list[Use]:
        """Where the value is used."""
        nodes = self._node._graph._all_nodes()
        return [Use(node, at) for node in nodes for at, value in enumerate(node._inputs) if value is self]

    def __repr__(self) -> str:
        return f"{self._name} defined in ({str(self._node).rstrip()})\n"


class Node:
    """An operator of a graph, with its inputs and outputs."""

    def __init__(self, graph: Graph, kind: str, inputs: Iterable[Value], scope: str, constant: Any = None) -> None:
        self._graph, self._kind, self._scope = graph, kind, scope
        self._inputs, self._outputs = list(inputs), list[Value]()
        self._constant = constant

    def kind(self) -> str:
        """The operator: ``aten::linear``, or ``prim::Constant``, ``prim::ListConstruct``, ``prim::TupleConstruct``."""
        return self._kind

    def scopeName(self) -> str:
        """The scopes in which it was called, with slashes."""
        return self._scope

    def inputs(self) -> Iterator[Value]:
        """The arguments, in the order of the operator's parameters."""
        return iter(self._inputs)

    def outputs(self) -> Iterator[Value]:
        """The results."""
        return iter(self._outputs)

    def inputsSize(self) -> int:
        """The number of arguments."""
        return len(self._inputs)

    def outputsSize(self) -> int:
        """The number of results."""
        return len(self._outputs)

    def inputsAt(self, place: int) -> Value:
        """The argument at a position."""
        return self._inputs[place]

    def outputsAt(self, place: int) -> Value:
        """The result at a position."""
        return self._outputs[place]

    def input(self) -> Value:
        """The only argument."""
        (value,) = self._inputs
        return value

    def output(self) -> Value:
        """The only result."""
        (value,) = self._outputs
        return value

    def attributeNames(self) -> list[str]:
        """The names of the attributes: a constant has ``value``."""
        return ["value"] if self._kind == "prim::Constant" and self._constant is not None else []

    def hasAttribute(self, name: str) -> bool:
        """Whether the node has an attribute of this name."""
        return name in self.attributeNames()

    def __repr__(self) -> str:
        outputs = ", ".join(f"%{value._name} : {_told(value._type)}" for value in self._outputs)
        value = f"[value={self._constant!r}]" if self.attributeNames() else ""
        scope = f", scope: {self._scope}" if self._scope else ""
        return f"{outputs} = {self._kind}{value}({_names(self._inputs)}){scope}\n"


class Graph:
    """The operators of a call, in order.

    >>> graph, _ = torch.jit._get_trace_graph(torch.nn.ReLU(), torch.ones(1))
    >>> graph
    graph(%1 : Float(1, strides=[1], device=cpu)):
      %2 : Float(1, strides=[1], device=cpu) = aten::relu(%1)
      return (%2)
    <BLANKLINE>
    """

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._start = Node(self, "prim::Param", (), "")
        self._end = Node(self, "prim::Return", (), "")
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return str(self._count)

    def _all_nodes(self) -> list[Node]:
        return [*self._nodes, self._end]

    def _add(
        self, kind: str, inputs: Iterable[Value], scope: str, results: Iterable[Any], constant: Any = None
    ) -> Node:
        node = Node(self, kind, inputs, scope, constant)
        node._outputs = [Value(node, type_of(result), self._name()) for result in results]
        self._nodes.append(node)
        return node

    def _input(self, value: Any) -> Value:
        made = Value(self._start, type_of(value), self._name())
        self._start._outputs.append(made)
        return made

    def _constant(self, value: Any, scope: str) -> Value:
        return self._add("prim::Constant", (), scope, [value], value).output()

    def _construct(self, parts: list[Value], kind: type, scope: str) -> Value:
        """The list or tuple of values."""
        node = Node(self, "prim::TupleConstruct" if kind is tuple else "prim::ListConstruct", parts, scope)
        kinds = [part.type() for part in parts]
        simple = kinds[0] if kinds and not isinstance(kinds[0], TensorType) else TensorType.get()
        node._outputs = [Value(node, TupleType(kinds) if kind is tuple else ListType(simple), self._name())]
        self._nodes.append(node)
        return node.output()

    def nodes(self) -> Iterator[Node]:
        """The operators in the order of their calls."""
        return iter(self._nodes)

    def inputs(self) -> Iterator[Value]:
        """The arguments of the call, and then the parameters and buffers of the module."""
        return self._start.outputs()

    def outputs(self) -> Iterator[Value]:
        """The result of the call."""
        return self._end.inputs()

    def param_node(self) -> Node:
        """The node whose outputs are the inputs of the graph."""
        return self._start

    def return_node(self) -> Node:
        """The node whose inputs are the outputs of the graph."""
        return self._end

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """The nodes of a kind."""
        return [node for node in self._nodes if node.kind() == kind]

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind, or None."""
        return next(iter(self.findAllNodes(kind)), None)

    def str(self, print_source_ranges: bool = True) -> _Str:
        """The text of the graph."""
        return repr(self)

    def __repr__(self) -> _Str:
        inputs = ",\n      ".join(f"%{value._name} : {_told(value._type)}" for value in self.inputs())
        lines = "".join(f"  {node}" for node in self._nodes)
        return f"graph({inputs}):\n{lines}  return ({_names(self._end._inputs)})\n"


if TYPE_CHECKING:
    #: `str` is a method of `Graph`.
    from typing import TypeAlias

    _Str: TypeAlias = str


def _names(values: list[Value]) -> str:
    return ", ".join(f"%{value._name}" for value in values)


def _told(type: Type) -> str:
    """A type in the text of a graph."""
    if not isinstance(type, TensorType) or type.sizes() is None:
        return type.str()
    sizes, strides = ", ".join(map(str, type.sizes() or ())), ", ".join(map(str, type.strides() or ()))
    return f"{type.scalarType()}({sizes}{', ' if sizes else ''}strides=[{strides}], device={type.device()})"


class TracingState:
    """The trace that is being recorded, with the scopes into which its next operators go.

    >>> def function(x):
    ...     torch._C._get_tracing_state().push_scope("head")
    ...     return x.relu()
    >>> graph, _ = torch.jit._get_trace_graph(function, torch.ones(1))
    >>> next(graph.nodes()).scopeName()
    'head'
    """

    def __init__(self) -> None:
        self.graph = Graph()
        self._scopes: list[str] = []
        #: The values of tensors, by their identity, and the tensors, so that they stay alive.
        self._values: dict[int, tuple[torch.Tensor, Value]] = {}

    def push_scope(self, name: str) -> None:
        """Names a scope, which the calls until `pop_scope` get."""
        self._scopes.append(name)

    def pop_scope(self) -> None:
        """Leaves the innermost scope.

        Raises:
            RuntimeError: there is none.
        """
        if not self._scopes:
            raise RuntimeError("pop_scope: there is no scope")
        self._scopes.pop()

    def _scope(self) -> str:
        return "/".join(self._scopes)

    def _set(self, tensor: torch.Tensor, value: Value) -> None:
        self._values[id(tensor)] = (tensor, value)

    def _value(self, argument: Any) -> Value:
        """The value of an argument of an operator: that of a tensor, a list or tuple of such, or a constant."""
        if isinstance(argument, torch.Tensor):
            known = self._values.get(id(argument))
            if known is not None:
                return known[1]
            value = self.graph._constant(argument, self._scope())
            self._set(argument, value)
            return value
        if isinstance(argument, (list, tuple)):
            parts = [self._value(part) for part in argument]
            return self.graph._construct(parts, list, self._scope())
        return self.graph._constant(argument, self._scope())

    def _result(self, result: Any) -> Value:
        if isinstance(result, (list, tuple)):
            parts = [self._result(part) for part in result]
            return self.graph._construct(parts, tuple if isinstance(result, tuple) else list, self._scope())
        return self._value(result)

    def _record(self, kind: str, arguments: Iterable[Any], result: Any) -> None:
        """Adds a call and its result."""
        inputs = [self._value(argument) for argument in arguments]
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        node = self.graph._add(kind, inputs, self._scope(), results)
        for value, output in zip(results, node._outputs, strict=True):
            if isinstance(value, torch.Tensor):
                self._set(value, output)


for _name in __all__:
    globals()[_name].__module__ = "rushlight"


def __dir__() -> list[str]:
    return __all__

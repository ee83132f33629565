"""`Proxy`: a value that records what a program does with it."""

from __future__ import annotations

import dis
import inspect
import operator
import os
import sys
import traceback
from collections import OrderedDict
from dataclasses import dataclass, fields, is_dataclass
from types import EllipsisType
from typing import Any

import rushlight as torch
from rushlight.ops import OpOverload
from rushlight.overrides import is_tensor_method_or_property

from . import traceback as fx_traceback
from .graph import Graph, magic_methods, reflectable_magic_methods
from .node import Node, base_types, map_aggregate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]


@dataclass
class Scope:
    """The module whose ``forward`` is being traced: its path and its class."""

    module_path: str
    module_type: Any


class ScopeContextManager:
    """A context in which a scope has other values."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope = scope
        self._before = (scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exception: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before


class TraceError(ValueError):
    """What a program did with a proxy cannot be recorded."""


class TracerBase:
    """What all tracers share: they turn calls with proxies into nodes of ``graph``.

    Attributes:
        graph: the graph that is being made.
        record_stack_traces: keeps the lines of the program that made each node.
        proxy_buffer_attributes: reads of buffers become nodes, as reads of parameters do.
    """

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, type]]

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Inserts a node. Subclasses change here what is recorded.

        >>> tracer = torch.fx.proxy.GraphAppendingTracer(torch.fx.Graph())
        >>> tracer.create_node("call_function", torch.add, (1, 2), {})
        add
        """
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope: Scope | None = getattr(self, "scope", None)
        if scope is not None:
            self.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)
            if self.module_stack:
                node.meta["nn_module_stack"] = OrderedDict(self.module_stack)
        fx_traceback._apply(node)
        if self.record_stack_traces and not node.stack_trace:
            trace = _stack_trace()
            if trace:
                node.stack_trace = trace
        return node

    def proxy(self, node: Node) -> Proxy:
        """The proxy for a node. Subclasses may return one of their own class.

        >>> graph = torch.fx.Graph()
        >>> torch.fx.proxy.GraphAppendingTracer(graph).proxy(graph.placeholder("x"))
        Proxy(x)
        """
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Inserts a node whose arguments may have proxies, and returns the proxy for it.

        >>> graph = torch.fx.Graph()
        >>> tracer = torch.fx.proxy.GraphAppendingTracer(graph)
        >>> x = tracer.create_proxy("placeholder", "x", (), {})
        >>> tracer.create_proxy("call_function", torch.relu, (x,), {})
        Proxy(relu)
        """
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(args, tuple):
            raise AssertionError(f"Expected tuple for args_, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"Expected dict for kwargs_, got {type(kwargs)}")
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """The argument of a node for an argument of a call: proxies become their nodes.

        Raises:
            NotImplementedError: graphs cannot have an argument of that class.

        >>> graph = torch.fx.Graph()
        >>> tracer = torch.fx.proxy.GraphAppendingTracer(graph)
        >>> tracer.create_arg([tracer.proxy(graph.placeholder("x")), 1])
        [x, 1]
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts = [self.create_arg(part) for part in a]
            return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
        if isinstance(a, list):
            return [self.create_arg(part) for part in a]
        if isinstance(a, dict):
            return {_plain_key(self.create_arg(key)): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if a is None or isinstance(a, (*base_types, OpOverload, Node, EllipsisType)):
            return a
        if is_dataclass(a) and not isinstance(a, type):
            given = {field.name: self.create_arg(getattr(a, field.name)) for field in fields(a)}
            return self.create_node("call_function", type(a), (), given)
        import enum

        if isinstance(a, enum.Enum):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """Called when a program takes the truth of a proxy, as in ``if``. Raises `TraceError`."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Proxy]:
        """Called when a program iterates over a proxy. It can only be unpacked into a given number of names."""
        frame = inspect.currentframe()
        caller = frame and frame.f_back and frame.f_back.f_back
        count = None if caller is None else _unpacked(caller)
        if count is None:
            raise TraceError(
                "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
                "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
                "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
                "iteration errors"
            )
        return (operator.getitem(obj, place) for place in range(count))

    def keys(self, obj: Proxy) -> Any:
        """Called for ``obj.keys()``, as ``**obj`` does. Records the call.

        >>> x = torch.fx.Proxy(torch.fx.Graph().placeholder("x"))
        >>> x.tracer.keys(x).node
        keys
        """
        return Attribute(obj, "keys")()


def _plain_key(key: Any) -> Any:
    def refuse(leaf: Any) -> Any:
        if isinstance(leaf, Node):
            raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}")
        return leaf

    map_aggregate(key, refuse)
    return key


def _unpacked(frame: Any) -> int | None:
    """The number of names into which the frame is unpacking a value, or None if it does something else."""
    for step in dis.get_instructions(frame.f_code):
        if step.offset == frame.f_lasti:
            return step.arg if step.opname == "UNPACK_SEQUENCE" else None
    return None


_FOLDER = os.path.dirname(__file__)
_OWN_FILES = (_FOLDER, os.path.join(os.path.dirname(_FOLDER), "overrides.py"))


def _stack_trace() -> str:
    """The lines of the traced program that led here."""
    lines = traceback.extract_stack(sys._getframe(1))
    inside = [place for place, line in enumerate(lines) if line.name == "_trace" and line.filename.startswith(_FOLDER)]
    program = lines[inside[-1] + 1 if inside else 0 :]
    shown = [line for line in program if not line.filename.startswith(_OWN_FILES)]
    return "".join(traceback.format_list(shown)).strip()


class GraphAppendingTracer(TracerBase):
    """A tracer that appends to a graph: that of proxies which programs make themselves."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


class Proxy:
    """A value in a traced program. Operators, methods, functions and attributes of it become nodes of the graph.

    Python itself cannot be recorded: a program cannot branch on a proxy, nor loop over it. Unpacking into a fixed number of
    names works.

    Args:
        node: the node whose result the proxy stands for.
        tracer: makes the new nodes. Without it they are appended to the node's graph.

    >>> graph = torch.fx.Graph()
    >>> x = torch.fx.Proxy(graph.placeholder("x"))
    >>> torch.relu(x) + 1
    Proxy(add)
    >>> [node.name for node in graph.nodes]
    ['x', 'relu', 'add']
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = tracer if tracer is not None else GraphAppendingTracer(node.graph)
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k in ("tracer", "node"):  # of a proxy that is being copied
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, d: dict[str, Any]) -> None:
        self.__dict__ = d

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        from copy import deepcopy

        copy = Proxy.__new__(Proxy)
        copy.__dict__.update({name: deepcopy(value, memo) for name, value in self.__dict__.items()})
        return copy

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Proxy]:
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def keys(self) -> Any:
        """Records the call, as ``**proxy`` does.

        >>> torch.fx.Proxy(torch.fx.Graph().placeholder("x")).keys()
        Proxy(keys)
        """
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(
        cls, orig_method: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        tracers: dict[Any, None] = {}

        def find(leaf: Any) -> None:
            if isinstance(leaf, cls):
                tracers[leaf.tracer] = None

        map_aggregate((args, kwargs), find)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}"
            )
        (tracer,) = tracers
        if is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


class Attribute(Proxy):
    """An attribute of a proxy. It becomes a node when it is used, and a call of it becomes a call of a method."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter whose shape is known while the program is traced."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: torch.nn.Parameter) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, torch.nn.Parameter):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> torch.Size:
        """The parameter's shape."""
        return self.param.shape

    def size(self) -> torch.Size:
        """The parameter's shape."""
        return self.param.size()

    def dim(self) -> int:
        """The number of the parameter's dimensions."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The number of the parameter's dimensions."""
        return self.param.ndim

    def numel(self) -> int:
        """The number of the parameter's elements."""
        return self.param.numel()

    def nelement(self) -> int:
        """The number of the parameter's elements."""
        return self.param.nelement()


def _record(target: Callable[..., Any]) -> Callable[..., Any]:
    def method(*args: Any, **kwargs: Any) -> Any:
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)

    return method


def _record_reflected(target: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Proxy, rhs: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (rhs, self), {})

    return method


for _name in magic_methods:
    _method = _record(getattr(operator, _name))
    _method.__name__ = _method.__qualname__ = f"__{_name.strip('_')}__"
    setattr(Proxy, _method.__name__, _method)
for _name in reflectable_magic_methods:
    _method = _record_reflected(getattr(operator, _name))
    _method.__name__ = _method.__qualname__ = f"__r{_name.strip('_')}__"
    setattr(Proxy, _method.__name__, _method)


def __dir__() -> list[str]:
    return __all__

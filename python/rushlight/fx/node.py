"""`Node`: one step of a graph, and functions over the arguments of nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce, total_ordering
from typing import Any, TypeAlias, Union

import rushlight as torch

from ._names import is_from_torch as _is_from_torch
from ._names import qualified_name as _get_qualified_name
from ._names import type_text as _type_repr
from .immutable_collections import immutable_dict, immutable_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

#: The types of constants in the arguments of nodes.
base_types = (
    str,
    int,
    float,
    bool,
    complex,
    torch.dtype,
    torch.Tensor,
    torch.device,
    torch.memory_format,
    torch.layout,
)

#: What a node calls: a function, or the name of a method, module, attribute or argument.
Target: TypeAlias = Callable[..., Any] | str
BaseArgumentTypes: TypeAlias = reduce(operator.or_, base_types)  # type: ignore[valid-type]
#: What stands in the arguments of nodes: nodes, constants, and containers of them.
Argument: TypeAlias = Union[
    tuple["Argument", ...],
    Sequence["Argument"],
    Mapping[str, "Argument"],
    slice,
    range,
    "Node",
    BaseArgumentTypes,
    None,
]

_legal_ops = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")

# Functions whose calls stay in a graph, although nothing uses their result.
_side_effectful_functions: set[Any] = {torch._assert}


def has_side_effect(fn: Any) -> Any:
    """Says that calls of a function do more than return a result, so that they stay in graphs if nothing uses it. Returns
    the function, so that it is also a decorator.

    >>> @torch.fx.has_side_effect
    ... def note(x):
    ...     print(x)
    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> graph.call_function(note, (x,)).is_impure()
    True
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Applies a function to every leaf of nested tuples, lists, dictionaries and slices. Containers become immutable.

    >>> torch.fx.node.map_aggregate((1, [2, {"a": 3}]), lambda leaf: leaf + 1)
    (2, [3, {'a': 4}])
    """
    if isinstance(a, tuple):
        parts = [map_aggregate(part, fn) for part in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list([map_aggregate(part, fn) for part in a])
    if isinstance(a, dict):
        return immutable_dict([(key, map_aggregate(part, fn)) for key, part in a.items()])
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Applies a function to every node in nested tuples, lists, dictionaries and slices.

    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> torch.fx.map_arg([x, 1], lambda node: node.name)
    ['x', 1]
    """
    if not callable(fn):
        raise AssertionError(f"fn must be callable, got {type(fn)}")
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    """An argument in the text of a graph: nodes with a percent sign, strings without quotes."""
    if hasattr(type(arg), "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, (list, tuple)):
        shown = [_format_arg(item) for place, item in enumerate(arg) if place < max_list_len]
        if len(arg) > len(shown):
            shown.append(f"...[total_len={len(arg)}]")
        inside = ", ".join(shown)
        if isinstance(arg, list):
            return f"[{inside}]"
        return f"({inside},)" if len(shown) == 1 else f"({inside})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(item)}" for key, item in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


@total_ordering
class Node:
    """A step of a graph. Graphs make nodes; programs read and change them.

    Attributes:
        op: the kind of step: ``placeholder`` (an input), ``get_attr`` (a parameter or buffer), ``call_function``,
            ``call_method``, ``call_module``, or ``output``.
        target: what is called or read: a function, or the name of a method, module, attribute or input.
        args, kwargs: the arguments. Other nodes among them stand for their results.
        name: the node's unique name in its graph.
        users: the nodes that use the result, as keys.
        type: the annotation of the result, or None.
        meta: a dictionary for programs. Copies of the node keep it.

    >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
    >>> [(node.op, node.name, node.args) for node in graph.nodes][1:3]
    [('call_function', 'relu', (x,)), ('call_function', 'add', (relu, 1))]
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any | None = None,
    ) -> None:
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type {torch.typename(target)} "
                    "but a Callable is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {torch.typename(target)} "
                "but a str is expected"
            )
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = immutable_dict()
        self._repr_fn: Callable[[Node], str] | None = None
        self._prev = self._next = self
        self._erased = False
        self._place = 0
        self._set_arguments(args, kwargs)

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def __lt__(self, other: Node) -> bool:
        self.graph._number()
        return self._place < other._place

    # `total_ordering` would compare places, but a node equals itself alone.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Moves ``x``, a node of the same graph, before this node.

        >>> graph = torch.fx.Graph()
        >>> x, y = graph.placeholder("x"), graph.placeholder("y")
        >>> x.prepend(y)
        >>> list(graph.nodes)
        [y, x]
        """
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is not x:
            x._remove_from_list()
            x._prev, x._next = self._prev, self
            x._prev._next = x._next._prev = x
            self.graph._changed()

    def append(self, x: Node) -> None:
        """Moves ``x``, a node of the same graph, after this node.

        >>> graph = torch.fx.Graph()
        >>> x, y, z = (graph.placeholder(name) for name in "xyz")
        >>> x.append(z)
        >>> list(graph.nodes)
        [x, z, y]
        """
        self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments. Assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, value: tuple[Any, ...]) -> None:
        self._set_arguments(value, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name. Assign a new dictionary to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: Mapping[str, Any]) -> None:
        self._set_arguments(self._args, value)

    def _set_arguments(self, args: Any, kwargs: Mapping[str, Any]) -> None:
        """Sets the arguments, and brings the users of the nodes among them up to date."""
        for used in self._input_nodes:
            used.users.pop(self, None)
        self._input_nodes = {}

        def use(leaf: Any) -> Any:
            if isinstance(leaf, Node):
                self._input_nodes[leaf] = leaf.users[self] = None
            return leaf

        self._args = map_aggregate(args, use)
        self._kwargs = map_aggregate(kwargs, use)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, once each.

        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> graph.call_function(torch.add, (x, x)).all_input_nodes
        [x]
        """
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replaces the positional argument at ``idx``.

        >>> graph = torch.fx.Graph()
        >>> node = graph.call_function(torch.add, (graph.placeholder("x"), 1))
        >>> node.update_arg(1, 2)
        >>> node.args
        (x, 2)
        """
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Inserts a positional argument before that at ``idx``.

        >>> graph = torch.fx.Graph()
        >>> node = graph.call_function(torch.add, (1,))
        >>> node.insert_arg(0, graph.placeholder("x"))
        >>> node.args
        (x, 1)
        """
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Sets the argument of that name.

        >>> graph = torch.fx.Graph()
        >>> node = graph.call_function(torch.sum, (graph.placeholder("x"),))
        >>> node.update_kwarg("dim", 0)
        >>> node.kwargs
        {'dim': 0}
        """
        self.kwargs = {**self.kwargs, key: arg}

    @property
    def stack_trace(self) -> str | None:
        """The lines of the program that made the node, or None. Tracers with ``record_stack_traces`` set it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _pretty_print_target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        if getattr(target, "__module__", None) == "builtins":
            return f"builtins.{target.__name__}"
        if getattr(target, "__module__", None) == "_operator":
            return f"operator.{target.__name__}"
        return _get_qualified_name(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node as one line of its graph's text.

        >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
        >>> print(graph.find_nodes(op="call_function")[0].format_node())
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        """
        typed = f"{_type_repr(self.type)} " if self.type else ""
        head = f"%{self.name} : {typed}[num_users={len(self.users)}] = {self.op}[target="
        if self.op == "placeholder":
            if placeholder_names:
                shown = f"{self.target}" + (f" : {_type_repr(self.type)}" if self.type else "")
                placeholder_names.append(shown)
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{head}{self.target}]{default}"
        if self.op == "get_attr":
            return f"{head}{self._pretty_print_target(self.target)}]"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        arguments = f"args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)}"
        return f"{head}{self._pretty_print_target(self.target)}]({arguments})"

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Lets every user of this node use another one instead.

        Args:
            replace_with: the other node.
            delete_user_cb: asked of each user whether it should change.
            propagate_meta: copies ``meta`` to the other node, which must have none.

        Returns:
            the nodes that have changed.

        >>> graph = torch.fx.Graph()
        >>> x, y = graph.placeholder("x"), graph.placeholder("y")
        >>> node = graph.call_function(torch.relu, (x,))
        >>> x.replace_all_uses_with(y), node.args
        ([relu], (y,))
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = []
        for user in list(self.users):
            if delete_user_cb is None or delete_user_cb(user):
                user.replace_input_with(self, replace_with)
                changed.append(user)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Puts ``new_input`` in place of ``old_input`` in the arguments.

        >>> graph = torch.fx.Graph()
        >>> x, y = graph.placeholder("x"), graph.placeholder("y")
        >>> node = graph.call_function(torch.add, (x, x))
        >>> node.replace_input_with(x, y)
        >>> node.args
        (y, y)
        """
        owner = self.graph.owning_module
        for hook in getattr(owner, "_replace_hooks", None) or ():
            hook(old=old_input, new=new_input.name, user=self)

        def swap(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set_arguments(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node must stay although nothing uses its result: inputs, outputs, and calls with effects.

        >>> graph = torch.fx.Graph()
        >>> graph.placeholder("x").is_impure(), graph.call_function(torch.relu, (1,)).is_impure()
        (True, False)
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            if self.target in _side_effectful_functions or self.target in (operator.setitem, operator.delitem):
                return True
            name = getattr(self.target, "__name__", "")
            return bool(impure_random and _is_from_torch(self.target) and name in _RANDOM)
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            module = owner.get_submodule(self.target)
            return bool(getattr(module, "_is_impure", False))
        return False

    def normalized_arguments(
        self,
        root: torch.nn.Module,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """The arguments of a call with the defaults of the parameters, or None if the signature is not known.

        Args:
            root: the module that has the modules which the graph calls.
            normalize_to_only_use_kwargs: gives all arguments by name.

        Returns:
            an object with the attributes ``args`` and ``kwargs``.

        >>> graph = torch.fx.Graph()
        >>> node = graph.call_function(torch.nn.functional.relu, (graph.placeholder("x"),))
        >>> node.normalized_arguments(torch.nn.Module(), normalize_to_only_use_kwargs=True).kwargs
        {'input': x, 'inplace': False}
        """
        from .operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs
            )
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs)
        return None

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, self.name)


# Functions that draw random numbers, so that leaving one out changes the numbers of the others.
_RANDOM = frozenset(
    "rand randn randint randperm rand_like randn_like randint_like normal poisson bernoulli multinomial dropout".split()
)


def __dir__() -> list[str]:
    return __all__

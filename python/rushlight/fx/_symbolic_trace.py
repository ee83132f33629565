"""`Tracer`: runs a program with proxies in place of tensors, and records a graph."""

from __future__ import annotations

import functools
import inspect
import math
from collections import OrderedDict, defaultdict
from itertools import chain
from types import CodeType, FunctionType, ModuleType

import rushlight as torch
from rushlight._set_module import set_module
from rushlight._warnings import warn
from rushlight.nn import Module, Parameter
from rushlight.utils import _pytree as pytree

from ._compatibility import compatibility as compatibility
from ._patches import _autowrap_check, _patch_wrapped_functions, _Patcher
from ._patches import wrap as wrap
from .graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from .graph_module import GraphModule
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Libraries with tracers of their own build them from the names of this module.
ScriptObject = torch.ScriptObject
_orig_module_call = Module.__call__
_orig_module_getattr = Module.__getattr__

_is_tracing = False


def is_fx_tracing() -> bool:
    """Whether a program is being traced.

    >>> from rushlight.fx._symbolic_trace import is_fx_tracing
    >>> is_fx_tracing()
    False
    """
    return _is_tracing


is_fx_symbolic_tracing = is_fx_tracing


class PHBase:
    """An argument in ``concrete_args`` that stays an input of the graph."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class ProxyableClassMeta(type):
    """A metaclass: instances that are made with proxies become nodes that make the instance.

    >>> from rushlight.fx._symbolic_trace import ProxyableClassMeta
    >>> class Pair(metaclass=ProxyableClassMeta):
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> torch.fx.Tracer().trace(lambda x: Pair(x, x + 1)).find_nodes(op="call_function")
    [add, pair]
    """

    def __init__(cls, name: str, bases: Any, attrs: Any) -> None:
        _proxyable[cls] = None
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        instance: Any = cls.__new__(cls)  # type: ignore[call-overload]
        if not is_fx_tracing():
            instance.__init__(*args, **kwargs)
            return instance
        proxies: list[Proxy] = []
        pytree.tree_map_only(Proxy, proxies.append, (args, kwargs))
        if proxies:
            return proxies[0].tracer.create_proxy("call_function", cls, args, kwargs)
        instance.__init__(*args, **kwargs)
        return instance


_proxyable: dict[type, None] = {}


def _assert_is_none(value: Any, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


class Tracer(TracerBase):
    """Records the graph of a module or function by calling it with proxies.

    Subclasses change `is_leaf_module`, which decides where recording stops, and the other methods.

    Args:
        autowrap_modules: modules whose functions are recorded when they get proxies.
        autowrap_functions: further such functions.
        param_shapes_constant: shapes of parameters are numbers instead of nodes.

    >>> graph = torch.fx.Tracer().trace(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()))
    >>> [(node.op, node.target) for node in graph.nodes]
    [('placeholder', 'input'), ('call_module', '0'), ('call_module', '1'), ('output', 'output')]
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        functions = chain(autowrap_functions, *(vars(module).values() for module in autowrap_modules))
        self._autowrap_function_ids = {
            id(function)
            for function in functions
            if callable(function) and not getattr(function, "__name__", "_").startswith("_")
        }
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self._fresh: defaultdict[str, int] = defaultdict(int)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        copy = type(self).__new__(type(self))
        # The modules that are searched for functions are not copied.
        copy.__dict__.update(self.__dict__)
        return copy

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that the root has no attribute of: ``prefix`` and a number.

        >>> tracer = torch.fx.Tracer()
        >>> tracer.root = torch.nn.Module()
        >>> tracer.get_fresh_qualname("_constant")
        '_constant0'
        """
        while True:
            name = f"{prefix}{self._fresh[prefix]}"
            self._fresh[prefix] += 1
            if not hasattr(self.root, name):
                return name

    def create_arg(self, a: Any) -> Any:
        """As in torch's base class. Parameters, buffers and other tensors become nodes that read them from the root."""
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, torch.Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(a, Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            given = tuple(self.create_arg(part) for part in a)
            return self.create_node("call_function", type(a), given, {})
        if isinstance(a, torch.Tensor):
            if a not in self.tensor_attrs:
                self.tensor_attrs[a] = self.get_fresh_qualname("_tensor_constant")
                setattr(self.root, self.tensor_attrs[a], a)
            return self.create_node("get_attr", self.tensor_attrs[a], (), {})
        if type(a) in _proxyable:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether calls of a module are recorded as one node. By default those of the library's own modules are.

        >>> tracer = torch.fx.Tracer()
        >>> tracer.is_leaf_module(torch.nn.Linear(1, 1), "layer"), tracer.is_leaf_module(torch.nn.Sequential(), "layers")
        (True, False)
        """
        own = type(m).__module__.startswith(("torch.nn", "torch.ao.nn", "rushlight.nn", "rushlight.ao.nn"))
        return own and not isinstance(m, torch.nn.Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a module below the root.

        Raises:
            NameError: the root does not have it.
        """
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, module in self.root.named_modules():
            if mod is module:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Called when the program calls a module.

        Args:
            m: the module.
            forward: calls it.
            args, kwargs: the arguments.

        Returns:
            a proxy for a leaf module, and otherwise what the module returns.
        """
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            calls = self.num_calls.get(path, 0)
            key = f"{self.scope.module_path}@{calls}" if calls else self.scope.module_path
            self.module_stack[key] = (path, type(m))
            self.num_calls[path] = calls + 1
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.popitem(last=True)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Called when the program reads a parameter, buffer or module of a module.

        Args:
            attr: the attribute's name.
            attr_val: its value.
            parameter_proxy_cache: the proxies that were made before, by path.

        Returns:
            a proxy for parameters, and otherwise the value.
        """
        if isinstance(attr_val, Parameter):
            factory = None
            if self.param_shapes_constant:
                factory = lambda node: ParameterProxy(self, node, attr, attr_val)  # fmt: skip
            found = self._attribute_proxy(attr_val, self.root.named_parameters(), parameter_proxy_cache, factory)
        elif self.proxy_buffer_attributes and isinstance(attr_val, torch.Tensor):
            found = self._attribute_proxy(attr_val, self.root.named_buffers(), parameter_proxy_cache, None)
        else:
            found = None
        return attr_val if found is None else found

    def _attribute_proxy(self, value: Any, named: Any, cache: dict[str, Proxy], factory: Any) -> Proxy | None:
        for path, other in named:
            if value is other:
                if path not in cache:
                    cache[path] = self.create_proxy("get_attr", path, (), {}, proxy_factory_fn=factory)
                return cache[path]
        return None

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """Makes the inputs of the graph.

        Args:
            root_fn: the function that is traced.
            is_module: its first parameter is the root.
            concrete_args: arguments that are not inputs, by name, or all of them in a tuple.

        Returns:
            the function to call, and its arguments.
        """
        signature = inspect.signature(inspect.unwrap(root_fn))
        analysed = inspect.unwrap(root_fn)
        code = analysed.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args: list[Any] = []
        first = 0
        if is_module:
            if not total:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            first = 1
            args.append(self.root)
        if isinstance(concrete_args, tuple):
            if len(names[first:total]) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(names[first:total])} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(names[first:total], concrete_args))
        args += [self._proxy_placeholder(name, concrete_args, signature, analysed) for name in names[first:total]]
        if code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            count = total
            for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
                if code.co_flags & flag:
                    args.append(self._proxy_placeholder(stars + names[count], {}, signature, analysed))
                    count += 1
            root_fn = _without_stars(analysed, len(args))
        flat, spec = pytree.tree_flatten(tuple(args))
        if concrete_args is None or all(child.is_leaf() for child in spec.children()):
            return root_fn, args
        self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names[:total], spec, None))

        def flattened(*leaves: Any) -> Any:
            result = root_fn(*pytree.tree_unflatten(list(leaves), spec))
            out, out_spec = pytree.tree_flatten(result)
            codegen = self.graph._codegen
            assert isinstance(codegen, _PyTreeCodeGen)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return out

        return flattened, flat

    def _proxy_placeholder(
        self, name: str, concrete_args: dict[str, Any] | None, sig: inspect.Signature, fn_for_analysis: Any
    ) -> Any:
        if concrete_args is not None and name in concrete_args:
            count = 0

            def replace(leaf: Any) -> Any:
                nonlocal count
                count += 1
                default = (
                    () if sig.parameters[name].default is inspect.Parameter.empty else (sig.parameters[name].default,)
                )
                proxy = self.create_proxy("placeholder", f"{name}_{count}", default, {})
                if isinstance(leaf, PHBase):
                    return proxy
                said = f"{name} has been specialized to have value {leaf} but got another value"
                if isinstance(leaf, (bool, int, float, str)):
                    torch._assert(proxy == leaf, said)
                elif leaf is None:
                    self.create_proxy("call_function", _assert_is_none, (proxy, said), {})
                else:
                    warn(
                        f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up "
                        "to the user to make sure that your inputs match the inputs you specialized the function with."
                    )
                return leaf

            return pytree.tree_map(replace, concrete_args[name])
        parameter = sig.parameters.get(name)
        default = () if parameter is None or parameter.default is inspect.Parameter.empty else (parameter.default,)
        annotation = _annotation(fn_for_analysis, name)
        return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """Records the graph of a module or function.

        Args:
            root: the module or function.
            concrete_args: arguments that keep these values, by name, and are not inputs of the graph. A container may have
                `PH` where an input stays.

        Raises:
            TraceError: the program branches on a proxy, or loops over one.

        >>> graph = torch.fx.Tracer().trace(lambda x, twice: x * 2 if twice else x, {"twice": True})
        >>> [node.name for node in graph.nodes]
        ['x', 'twice_1', 'eq', '_assert', 'mul', 'output']
        """
        global _is_tracing
        before, _is_tracing = _is_tracing, True
        try:
            return self._trace(root, concrete_args)
        finally:
            _is_tracing = before
            self.submodule_paths = None

    def _trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None) -> Graph:
        if isinstance(root, Module):
            # Modules of a graph that was traced before are entered as if they were traced for the first time.
            function = getattr(type(root), self.traced_func_name)
            self.root: Module = root
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root = Module()
            function = root
        self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
        if hasattr(function, "__code__"):
            code = function.__code__
            self.graph._co_fields = {  # type: ignore[attr-defined]
                "co_name": code.co_name,
                "co_filename": code.co_filename,
                "co_firstlineno": code.co_firstlineno,
            }
        self.tensor_attrs: dict[Any, str] = {}
        self._collect_tensors(self.root, [])
        if not isinstance(function, FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(function)}")
        fn_globals = function.__globals__
        called, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        proxies: dict[str, Proxy] = {}
        with _Patcher() as patcher:
            self._patch_modules(patcher, proxies)
            _patch_wrapped_functions(patcher)
            _autowrap_check(patcher, fn_globals, self._autowrap_function_ids)
            for module in self._autowrap_search:
                _autowrap_check(patcher, vars(module), self._autowrap_function_ids)
            result = self.create_arg(called(*args))
        annotation = _annotation(function, "return") if called is function else None
        self.create_node("output", "output", (result,), {}, type_expr=annotation)
        return self.graph

    def _collect_tensors(self, module: Module, path: list[str]) -> None:
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                self.tensor_attrs[value] = ".".join([*path, name])
        for name, child in module.named_children():
            self._collect_tensors(child, [*path, name])

    def _patch_modules(self, patcher: _Patcher, proxies: dict[str, Proxy]) -> None:
        """Lets reads of parameters and calls of modules come to this tracer."""
        read, call = Module.__getattr__, Module.__call__

        @functools.wraps(read)
        def read_attribute(module: Any, attr: str) -> Any:
            return self.getattr(attr, read(module, attr), proxies)

        @functools.wraps(call)
        def call_module(module: Any, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return call(module, *args, **kwargs)

            _autowrap_check(patcher, getattr(type(module).forward, "__globals__", {}), self._autowrap_function_ids)
            return self.call_module(module, forward, args, kwargs)

        patcher.patch_method(Module, "__getattr__", read_attribute)
        patcher.patch_method(Module, "__call__", call_module)


def _annotation(function: Any, name: str) -> Any:
    """The annotation of a parameter, or of the result. Those of the library are texts, of which only tensors are kept."""
    annotation = function.__annotations__.get(name, None)
    # The code of a `GraphModule` that is read from a pickle has no module.
    if isinstance(annotation, str) and (function.__module__ or "").startswith("rushlight."):
        return torch.Tensor if annotation in ("Tensor", "torch.Tensor") else None
    return annotation


def _without_stars(function: Any, count: int) -> Callable[..., Any]:
    """The function with all its parameters positional, so that a proxy can be the tuple of ``*args``."""
    code: CodeType = function.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    code = code.replace(co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags)
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Records the graph of a module or function, and returns a module that runs it.

    Args:
        root: the module or function.
        concrete_args: arguments that keep these values, by name, as for `Tracer.trace`.

    Raises:
        TraceError: the program branches on a proxy, or loops over one.

    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> print(gm.code.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        add = relu + 1;  relu = None
        return add
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


for _public in (Tracer, symbolic_trace, wrap):
    set_module("rushlight.fx", _public)

"""`GraphModule`: a module whose ``forward`` is the code of a graph."""

from __future__ import annotations

import itertools
import linecache
import sys
import traceback
from copy import copy, deepcopy
from pathlib import Path
from pickle import PicklingError

import rushlight as torch
from rushlight.nn import Module

from ._codegen import _PyTreeCodeGen
from ._names import builtin_names
from .graph import Graph, PythonCode

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import Any

    from .node import Node

__all__ = ["GraphModule", "reduce_graph_module"]

_count = itertools.count()


def _exec_with_source(src: str, variables: dict[str, Any]) -> None:
    """Runs generated code, and lets tracebacks and `inspect` find its lines."""
    name = f"<eval_with_key>.{next(_count)}"
    linecache.cache[name] = (len(src), None, src.splitlines(keepends=True), name)
    exec(compile(src, name, "exec"), variables)


def _forward_from_src(src: str, variables: dict[str, Any]) -> Callable[..., Any]:
    variables = dict(variables)
    _exec_with_source(src, variables)
    return variables["forward"]


def _import_line(name: str, value: Any) -> str:
    """The statement that makes ``value`` a variable ``name``, or an empty text if every function has this variable."""
    if name in builtin_names():
        return ""
    module, own = value.__module__, value.__name__
    if getattr(sys.modules.get(module), own, None) is not value:
        raise PicklingError(f"Can't pickle {value!r}: it's not found as {module}.{own}")
    if module == "builtins" and name == own:
        return ""
    return f"from {module} import {own}" if own == name else f"from {module} import {own} as {name}"


def _import_block(variables: dict[str, Any]) -> str:
    return "\n".join(sorted({line for name, value in variables.items() if (line := _import_line(name, value))}))


_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


class _CodeOnlyModule(Module):
    """The attributes of a graph module without its graph."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def reduce_graph_module(body: dict[Any, Any], import_block: str) -> Module:
    """The graph module of a pickle: runs its code with proxies, which makes the graph again."""
    from ._symbolic_trace import Tracer

    body = dict(body)
    source = body.pop("_code")
    variables: dict[str, Any] = {}
    exec(import_block, variables)
    variables.update((key, value.obj) for key, value in builtin_names().items())
    _CodeOnlyModule.forward = _forward_from_src(source, variables)
    module = _CodeOnlyModule(body)
    tracer_class = body.get("_tracer_cls") or Tracer

    class KeepModules(tracer_class):  # type: ignore[misc, valid-type]
        def is_leaf_module(self, _: Module, __: str) -> bool:
            return True

    graph = KeepModules().trace(module, **(body.get("_tracer_extras") or {}))
    graph._tracer_cls = tracer_class
    result = GraphModule(module, graph)
    _keep(body, result)
    for attribute, value in body.items():
        if not hasattr(result, attribute):
            setattr(result, attribute, value)
    return result


def _keep(source: dict[str, Any], target: Module) -> None:
    """Copies what programs have attached to a graph module."""
    target.__dict__.update((name, source[name]) for name in _KEPT if name in source)


_KEPT = (
    "meta",
    "_replace_hooks",
    "_create_node_hooks",
    "_erase_node_hooks",
    "_deepcopy_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
    "_state_dict_pre_hooks",
)


def _copy_attr(source: Any, target: Module, path: str) -> None:
    """Gives a module the attribute of another one at a path. Modules on the way are made."""
    *prefix, name = path.split(".")
    for part in prefix:
        inner = getattr(target, part, None)
        source = getattr(source, part)
        if inner is source:
            return
        if inner is None:
            inner = Module()
            setattr(target, part, inner)
        target = inner
    _set(target, name, getattr(source, name))


def _assign_attr(value: Any, target: Module, path: str) -> None:
    *prefix, name = path.split(".")
    for part in prefix:
        inner = getattr(target, part, None)
        if inner is None:
            inner = Module()
            setattr(target, part, inner)
        target = inner
    _set(target, name, value)


def _set(target: Module, name: str, value: Any) -> None:
    # Tensors that are not parameters become buffers, so that they move with the module.
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        target.register_buffer(name, value)
    else:
        setattr(target, name, value)


class GraphModule(Module):
    """A module that runs a graph. Its ``forward`` is Python code, which it writes from the graph.

    Args:
        root: the module that has the parameters and modules of the graph, or a dictionary from their paths to them.
        graph: the graph.
        class_name: the name of the module's class, for printing.

    After a change of the graph call `recompile`.

    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(x))
    >>> for node in gm.graph.find_nodes(op="call_function", target=torch.relu):
    ...     node.target = torch.neg
    >>> code = gm.recompile()
    >>> gm(torch.ones(2))
    tensor([-1., -1.])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Every instance has a class of its own, so that `forward` is a method. A copy has another one.
        for base in cls.__mro__:
            if base.__qualname__.endswith("GraphModule.__new__.<locals>.GraphModuleImpl"):
                continue
            cls = base
            break

        class GraphModuleImpl(cls):  # type: ignore[misc, valid-type]
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        self.__class__.__name__ = class_name
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copy_attr(root, self, node.target)
        elif isinstance(root, dict):
            paths = []
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    if node.target not in root:
                        raise RuntimeError(
                            f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                        )
                    paths.append(node.target)
            for path in sorted(paths, key=lambda path: path.count(".")):
                _assign_attr(root[path], self, path)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self._tracer_cls = None
        tracer = graph._tracer_cls
        if tracer is not None and "<locals>" not in tracer.__qualname__:
            self._tracer_cls = tracer
        self._tracer_extras: dict[str, Any] = graph._tracer_extras or {} if self._tracer_cls else {}
        self.meta: dict[str, Any] = {}
        self._replace_hooks: list[Callable[..., Any]] = []
        self._create_node_hooks: list[Callable[..., Any]] = []
        self._erase_node_hooks: list[Callable[..., Any]] = []
        self._deepcopy_hooks: list[Callable[..., Any]] = []

    @property
    def graph(self) -> Graph:
        """The graph. Assigning another one writes the code again."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The Python code of ``forward``."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    def recompile(self) -> PythonCode:
        """Writes ``forward`` from the graph. Call it after a change of the graph.

        >>> torch.fx.symbolic_trace(lambda x: x).recompile().src.strip().splitlines()[0]
        'def forward(self, x):'
        """
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        code = self._graph.python_code(root_module="self")
        self._code, self._lineno_map, self._prologue_start = code.src, code._lineno_map, code._prologue_start
        cls: Any = type(self)
        cls.forward = _forward_from_src(code.src, code.globals)
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, vars(cls).get("__call__"))

            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                return self._wrapped_call(self, *args, **kwargs)

            cls.__call__ = call
        return code

    def _recompile_submodules(self) -> list[tuple[str, PythonCode]]:
        return [(name, module.recompile()) for name, module in self.named_modules() if isinstance(module, GraphModule)]

    def add_submodule(self, target: str, m: Module) -> bool:
        """Adds a module at a path. Modules on the way are made.

        Returns:
            whether it was added: it is not if the path leads through something that is not a module.

        >>> gm = torch.fx.symbolic_trace(lambda x: x)
        >>> gm.add_submodule("inner.layer", torch.nn.ReLU()), gm.inner.layer
        (True, ReLU())
        """
        *prefix, name = target.split(".")
        module: Module = self
        for part in prefix:
            inner = getattr(module, part, None)
            if inner is None:
                inner = Module()
                setattr(module, part, inner)
            if not isinstance(inner, Module):
                return False
            module = inner
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Removes the module at a path.

        Returns:
            whether there was one.

        >>> gm = torch.fx.symbolic_trace(lambda x: x)
        >>> gm.delete_submodule("inner")
        False
        """
        *prefix, name = target.split(".")
        module: Any = self
        for part in prefix:
            module = getattr(module, part, None)
            if not isinstance(module, Module):
                return False
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Removes the modules that the graph neither calls nor reads.

        >>> gm = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
        >>> added = gm.add_submodule("unused", torch.nn.ReLU())
        >>> gm.delete_all_unused_submodules()
        >>> [name for name, _ in gm.named_children()]
        ['0']
        """
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("get_attr", "call_module"):
                continue
            path = node.target.split(".")
            used.update(".".join(path[:end]) for end in range(1, len(path) + 1))
            if node.op == "call_module":
                try:
                    module = self.get_submodule(node.target)
                except AttributeError:
                    continue
                used.update(f"{node.target}.{inner}" for inner, _ in module.named_modules() if inner)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def __reduce__(self) -> tuple[Any, ...]:
        body = self.__dict__.copy()
        del body["_graph"]
        return reduce_graph_module, (body, _import_block(self.recompile().globals))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        result = type(self).__new__(type(self))
        memo[id(self)] = result
        body = deepcopy({name: value for name, value in self.__dict__.items() if name != "_graph"}, memo)
        GraphModule.__init__(result, _CodeOnlyModule(body), deepcopy(self._graph, memo))
        _keep(body, result)
        for hook in self._deepcopy_hooks:
            hook(result)
        return result

    def __copy__(self) -> GraphModule:
        result = GraphModule(self, self.graph)
        result.meta = copy(self.meta)
        return result

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """The code as a class, with that of the graph modules inside it.

        Args:
            print_output: prints the text.
            expanded_def: writes each parameter into a line of its own.

        >>> print(torch.fx.symbolic_trace(lambda x: x).print_readable(print_output=False).strip())
        class <lambda>(torch.nn.Module):
            def forward(self, x):
                return x
        """
        return self._print_readable(self._get_name(), print_output, expanded_def)

    def _print_readable(self, name: str, print_output: bool, expanded_def: bool) -> str:
        source = self._graph.python_code(root_module="self", verbose=True, expanded_def=expanded_def).src
        text = f"class {name}(torch.nn.Module):\n{_indented(source.strip())}\n"
        for inner, module in self.named_children():
            if isinstance(module, GraphModule):
                text += "\n" + _indented(module._print_readable(inner, False, expanded_def))
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        text = super().__str__()
        hint = "\n# To see more debug info, please use `graph_module.print_readable()`"
        return f"{text}\n{self._code}{hint}"

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Writes the module into a folder as a Python package with its weights.

        Args:
            folder: the folder, which is made.
            module_name: the name of the class.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.fx.symbolic_trace(lambda x: x).to_folder(folder)
        """
        from ._folder import write

        write(self, Path(folder), module_name)

    def _register_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._erase_node_hooks.remove(f)

    def _register_deepcopy_hook(self, f: Callable[[GraphModule], Any]) -> None:
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f: Callable[[GraphModule], Any]) -> None:
        self._deepcopy_hooks.remove(f)


def _indented(text: str) -> str:
    """The text with every line indented, and without blanks in empty ones."""
    return "\n".join(f"    {line}" if line.strip() else "" for line in text.split("\n"))


class _WrappedCall:
    """Calls a graph module. If its code fails, prints the lines around the failing one."""

    def __init__(self, cls: Any, call: Any) -> None:
        self.cls = cls
        self.call = call

    def __call__(self, module: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if self.call is not None:
                return self.call(module, *args, **kwargs)
            return super(self.cls, module).__call__(*args, **kwargs)  # type: ignore[misc]
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            if frames and frames[-1].filename.startswith("<eval_with_key>"):
                print(_where(frames[-1]), file=sys.stderr)
                raise error.with_traceback(None) from None
            raise


def _where(frame: traceback.FrameSummary) -> str:
    """The lines of generated code around the one that failed."""
    line = frame.lineno or 1
    lines = linecache.getlines(frame.filename)
    before, after = "".join(lines[max(0, line - 3) : line]), "".join(lines[line : line + 2])
    marker = "~" * len(frame.line or "") + "~~~ <--- HERE"
    said = f"Call using an FX-traced Module, line {line} of the traced Module's generated forward function:"
    return f"{traceback.format_exc()}\n{said}\n{before}\n{marker}\n{after}\n"


def __dir__() -> list[str]:
    return __all__

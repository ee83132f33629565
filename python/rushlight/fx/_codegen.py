"""The Python code of a graph."""

from __future__ import annotations

import enum
import re
import types
import typing
from dataclasses import dataclass

import rushlight as torch
from rushlight._set_module import set_module
from rushlight.ops import OpOverload
from rushlight.utils import _pytree as pytree

from ._names import _Namespace, builtin_names, is_from_torch, qualified_name, type_text
from .node import Node, map_arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

#: Functions of `operator` that code writes with their sign. Tracing uses the same list.
magic_methods = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}

reflectable_magic_methods = {
    name: magic_methods[name]
    for name in "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor getitem matmul".split()
}

#: Functions of `operator` that code writes as statements.
inplace_methods = {
    "iadd": "{} += {}",
    "iand": "{} &= {}",
    "ifloordiv": "{} //= {}",
    "ilshift": "{} <<= {}",
    "imatmul": "{} @= {}",
    "imod": "{} %= {}",
    "imul": "{} *= {}",
    "ior": "{} |= {}",
    "ipow": "{} **= {}",
    "irshift": "{} >>= {}",
    "isub": "{} -= {}",
    "itruediv": "{} /= {}",
    "ixor": "{} ^= {}",
    "setitem": "{}[{}] = {}",
}

_TYPING = {list: typing.List, dict: typing.Dict, set: typing.Set, frozenset: typing.FrozenSet, tuple: typing.Tuple}  # noqa: UP006
_FRAME = re.compile(r'File "(.+)", line (\d+), in (.+)\n\s*(.*)')


@dataclass
class PythonCode:
    """The code of a graph: its text, the objects that it names, and the index of the node of each line."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0


def format_target(base: str, target: str) -> str:
    """The expression for the attribute ``target``, a path, of the variable ``base``."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


class CodeGen:
    """Writes the code of a graph. Subclasses change the head of the function and what it returns."""

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """The head of the function.

        Args:
            free_vars: its parameters.
            maybe_return_annotation: the text between the parameters and the colon.
            expanded_def: writes each parameter into a line of its own.

        >>> torch.fx.graph.CodeGen().gen_fn_def(["x"], "")
        'def forward(self, x):'
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if expanded_def:
            inside = "".join(f"\n    {name}," for name in free_vars) + "\n"
        else:
            inside = ", ".join(free_vars)
        return f"def {self._func_name}({inside}){maybe_return_annotation}:"

    def generate_output(
        self, output_args: Any, *, descs: Any | None = None, repr_fn: Callable[[Any], str] | None = None
    ) -> str:
        """The statement that returns the graph's result.

        >>> torch.fx.graph.CodeGen().generate_output((1, 2))
        'return (1, 2)'
        """
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """The values of the graph's inputs, from the arguments of the function.

        >>> torch.fx.graph.CodeGen().process_inputs(1, 2)
        (1, 2)
        """
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """The function's result, from that of the graph.

        >>> torch.fx.graph.CodeGen().process_outputs(1)
        1
        """
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names, with their values, that the code uses besides those of the graph.

        >>> torch.fx.graph.CodeGen().additional_globals()
        []
        """
        return []

    def _gen_python_code(
        self,
        nodes: Iterable[Node],
        root_module: str,
        namespace: _Namespace,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        writer = _Writer(root_module, namespace, verbose)
        for name, builtin in builtin_names().items():
            writer.name_global(name, builtin.obj)
        for name, value in self.additional_globals():
            writer.name_global(name, value)
        nodes = list(nodes)
        writer.find_last_uses(nodes)
        for index, node in enumerate(nodes):
            writer.body.append(index)
            writer.write(node, self)
        lines: list[str | int] = writer.body
        if self._body_transformer is not None:
            lines = list(self._body_transformer([line for line in lines if isinstance(line, str)]))
        if not any(isinstance(line, str) for line in lines):
            lines.append("pass\n")

        wrapped = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped)
        head = self.gen_fn_def(writer.free_vars, writer.returns, expanded_def=expanded_def)
        prologue = f"\n{wrapped}\n\n{head}"
        line_of_node: dict[int, int | None] = {}
        count, current, text = 1, None, []
        for line in lines:
            if isinstance(line, int):
                current = line
                continue
            count += line.count("\n")
            line_of_node[count] = current
            text.append(line)
        body = "\n".join("    " + line for line in "".join(text).lstrip("\n").split("\n"))
        return PythonCode(f"{prologue}\n{body}", writer.globals, line_of_node, prologue.count("\n") + 1)


class _Writer:
    """Writes the statements of nodes, and collects what they name."""

    def __init__(self, root_module: str, namespace: _Namespace, verbose: bool) -> None:
        self.root_module = root_module
        self.namespace = namespace
        self.verbose = verbose
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}
        self.free_vars: list[str] = []
        self.body: list[str | int] = []  # statements, and the index of a node before its own
        self.returns = ""
        self.last_uses: dict[Node, list[Node]] = {}
        self.trace = ""

    def add_global(self, hint: str, value: Any) -> str:
        """An expression for an object, which the code reaches by a global name."""
        if is_from_torch(value) and value is not torch.device:
            # Every object of the library can be reached through its module.
            return qualified_name(value) if callable(value) and hasattr(value, "__name__") else type_text(value)
        return self.name_global(hint, value)

    def name_global(self, hint: str, value: Any) -> str:
        """A global name for an object."""
        name = self.namespace.create_name(hint, value)
        self.globals.setdefault(name, value)
        return name

    def type_text(self, value: Any) -> str:
        """The text of an annotation."""
        if value == ():
            return "()"
        if isinstance(value, types.UnionType):
            return "|".join(map(self.type_text, value.__args__))
        origin = getattr(value, "__origin__", None)
        if origin is None:
            return self.add_global(type_text(value), value)
        if not isinstance(value, types.GenericAlias):
            origin = _TYPING.get(origin, origin)
        name = self.add_global(type_text(origin), origin)
        inside = getattr(value, "__args__", ())
        return f"{name}[{','.join(map(self.type_text, inside))}]" if inside else name

    def text(self, value: Any) -> str:
        """The expression for an argument."""
        if isinstance(value, tuple):
            if hasattr(value, "_fields"):
                name = self.add_global(type_text(type(value)), type(value))
                return f"{name}({', '.join(map(self.text, value))})"
            return "(" + ", ".join(map(self.text, value)) + ("," if len(value) == 1 else "") + ")"
        if isinstance(value, list):
            return "[" + ", ".join(map(self.text, value)) + "]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self.text(item)}" for key, item in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        if isinstance(value, OpOverload):
            return self.add_global(qualified_name(value), value)
        if isinstance(value, enum.Enum):
            return f"{self.add_global(type(value).__name__, type(value))}.{value.name}"
        if isinstance(value, Node):
            return self.namespace.create_name(value.name, value)
        if isinstance(value, torch.Tensor):
            dtype = str(value.dtype).removeprefix("torch.")
            return f"torch.Tensor(size={list(value.size())}, dtype={dtype})"
        return repr(value)

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        given = [*map(self.text, args), *(f"{name} = {self.text(value)}" for name, value in kwargs.items())]
        return ", ".join(given)

    def find_last_uses(self, nodes: list[Node]) -> None:
        """Notes after which node each result is no longer needed, so that the code can release it."""
        known: set[Node] = set()
        for user in reversed(nodes):

            def note(used: Node, user: Node = user) -> Node:
                if used not in known:
                    known.add(used)
                    self.last_uses.setdefault(user, []).append(used)
                return used

            map_arg((user.args, user.kwargs), note)

    def end(self, node: Node) -> str:
        """The end of a node's statement: sets the variables to None that no later one uses."""
        if node.op == "placeholder":
            return "\n"
        unused = self.last_uses.get(node, []) + ([] if node.users else [node])
        return f";  {' = '.join([*map(self.text, unused), 'None'])}\n" if unused else "\n"

    def comment(self, node: Node) -> None:
        """Writes where the program made the node."""
        if node.op in ("placeholder", "output"):
            return
        trace = node.stack_trace or "none"
        if trace == self.trace:
            return
        self.trace = trace
        if trace == "none":
            self.body.append("\n# No stacktrace found for following nodes\n")
            return
        frames = _FRAME.findall(trace)
        if frames:
            file, line, function, code = frames[-1]
            self.body.append(f"\n# File: {file}:{line} in {function}, code: {code}\n")

    def write(self, node: Node, codegen: CodeGen) -> None:
        if self.verbose:
            self.comment(node)
        write = getattr(self, node.op, None)
        if write is None:
            raise NotImplementedError(f"node: {node.op} {node.target}")
        write(node, codegen)

    def placeholder(self, node: Node, codegen: CodeGen) -> None:
        typed = f" : {self.type_text(node.type)}" if node.type is not None else ""
        default = f" = {self.text(node.args[0])}" if node.args else ""
        self.free_vars.append(f"{node.target}{typed}{default}")
        target, name = node.target.replace("*", ""), self.text(node)
        if target != name:
            self.body.append(f"{name} = {target}\n")

    def output(self, node: Node, codegen: CodeGen) -> None:
        if node.type is not None:
            self.returns = f" -> {self.type_text(node.type)}"
        self.body.append(codegen.generate_output(node.args[0], repr_fn=self.text) + "\n")

    def get_attr(self, node: Node, codegen: CodeGen) -> None:
        self.assign(node, format_target(self.root_module, node.target))

    def call_method(self, node: Node, codegen: CodeGen) -> None:
        method = format_target(self.text(node.args[0]), node.target)
        self.assign(node, f"{method}({self.arguments(node.args[1:], node.kwargs)})")

    def call_module(self, node: Node, codegen: CodeGen) -> None:
        self.assign(node, f"{format_target(self.root_module, node.target)}({self.arguments(node.args, node.kwargs)})")

    def call_function(self, node: Node, codegen: CodeGen) -> None:
        name = getattr(node.target, "__name__", "")
        if getattr(node.target, "__module__", None) == "_operator":
            if name in magic_methods:
                self.assign(node, magic_methods[name].format(*map(self.text, node.args)))
                return
            if name in inplace_methods:
                shown = list(map(self.text, node.args))
                changed = inplace_methods[name].format(*shown)
                self.body.append(f"{changed};  {self.variable(node)} = {shown[0]}{self.end(node)}")
                return
        qualified = qualified_name(node.target)
        function = self.add_global(qualified, node.target)
        args = node.args
        if function == "getattr" and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier():
            self.assign(node, format_target(self.text(args[0]), args[1]))
            return
        self.assign(node, f"{function}({self.arguments(args, node.kwargs)})")
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(function)

    def variable(self, node: Node) -> str:
        return self.text(node) + (f" : {self.type_text(node.type)}" if node.type is not None else "")

    def assign(self, node: Node, expression: str) -> None:
        self.body.append(f"{self.variable(node)} = {expression}{self.end(node)}")


class _PyTreeInfo(typing.NamedTuple):
    """The containers in the arguments and the result of a function: the names of its parameters, and both structures."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class _PyTreeCodeGen(CodeGen):
    """Writes a function whose arguments and result are containers, of which the graph has the leaves."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        return pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, out: Any) -> Any:
        spec = self.pytree_info.out_spec
        return out if spec is None else pytree.tree_unflatten(out, spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        names = list(self.pytree_info.orig_args)
        has_self = bool(names) and names[0] == "self"
        if has_self:
            free_vars.insert(0, "self")
        head = super().gen_fn_def(names, maybe_return_annotation, expanded_def=expanded_def)
        if not free_vars:
            return head
        leaves = "".join(f"{name.partition(' ')[0]}, " for name in free_vars)
        given = ", ".join(names if has_self else names[1:])
        return f"{head}\n    {leaves}= fx_pytree.tree_flatten_spec([{given}], self._in_spec)"

    def generate_output(
        self, output_args: Any, *, descs: Any | None = None, repr_fn: Callable[[Any], str] | None = None
    ) -> str:
        text = (repr_fn or repr)(output_args)
        return (
            f"return pytree.tree_unflatten({text}, self._out_spec)" if self.pytree_info.out_spec else f"return {text}"
        )

    def __deepcopy__(self, memo: Any) -> _PyTreeCodeGen:
        return type(self)(self.pytree_info)


set_module("rushlight.fx.graph", CodeGen)
set_module("rushlight.fx.graph", PythonCode)

"""Schemas of operators: ``scale(Tensor x, float factor=2.0) -> Tensor``. They are read, checked in calls, and inferred."""

from __future__ import annotations

import ast
import collections.abc
import enum
import functools
import inspect
import math
import re
import types
import typing
from dataclasses import dataclass
from typing import Any

import rushlight as torch
from rushlight._library.argument import Argument, argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Parameter", "Schema", "infer_schema", "parse"]

_SCHEMA = re.compile(r"\s*([\w:]+)(?:\.(\w+))?\s*\((.*)\)\s*->\s*(.+?)\s*", re.DOTALL)
_PARAMETER = re.compile(
    r"(Dict\([^()]*\)|[\w?\[\]]+?)(\([a-z]\d*(!)?[^)]*\))?((?:\[\d*\])?\??)\s+(\w+)(?:\s*=\s*(.+))?", re.DOTALL
)
#: Words that defaults of schemas use for values.
_WORDS: dict[str, Any] = {"None": None, "True": True, "False": False, "Mean": 1, "Sum": 2}


#: The marks of aliases behind a type: ``Tensor(a!)``.
_RESULT = re.compile(r"(?<!Dict)\((?:[a-z]\d*!?|\*)[^)]*\)")
_RESULT_NAME = re.compile(r"(.*?)(?: (\w+))?", re.DOTALL)
_RESULT_TYPE = re.compile(r"Dict\([^()]*\)\S*|\S*")
_BASE_TYPES = frozenset(
    """Tensor int SymInt float bool SymBool str Scalar ScalarType Device DeviceIndex Layout MemoryFormat Generator Stream Storage
    QScheme Quantizer complex None NoneType Capsule Any AnyClassType AnyEnumType""".split()
)


@dataclass(frozen=True)
class Parameter:
    """A parameter: its type in torch's words, whether it has a default, and whether the operator changes it."""

    name: str
    type: str
    default: Any
    has_default: bool
    keyword_only: bool
    mutated: bool
    #: The type with marks of aliases.
    marked: str


@dataclass(frozen=True)
class Schema:
    """The name, the parameters and the results of an operator. Its text is the schema as torch prints it."""

    name: str
    overload_name: str
    parameters: tuple[Parameter, ...]
    #: The types of the results.
    result_types: tuple[str, ...]
    #: The results as in the text, with marks of aliases and names.
    results: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    @property
    def is_mutable(self) -> bool:
        return any(parameter.mutated for parameter in self.parameters)

    @property
    def arguments(self) -> list[Argument]:
        """The parameters, as torch's objects."""
        return [
            argument(one.marked, one.name, one.default, one.has_default, one.keyword_only) for one in self.parameters
        ]

    @property
    def returns(self) -> list[Argument]:
        """The results, as torch's objects."""
        found = [_RESULT_NAME.fullmatch(one) for one in self.results]
        return [argument(one[1], one[2] or "") for one in found if one is not None]

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, with defaults: those of positional parameters, and the others by name.

        Raises:
            RuntimeError: they do not fit the schema.
        """
        positional = [parameter for parameter in self.parameters if not parameter.keyword_only]
        if len(args) + len(kwargs) > len(self.parameters):
            raise RuntimeError(
                f"{self.name}() expected at most {len(self.parameters)} argument(s) but received {len(args) + len(kwargs)} "
                f"argument(s). Declaration: {self}"
            )
        if len(args) > len(positional):
            raise RuntimeError(
                f"{self.name}() takes {len(positional)} positional argument(s) but {len(args)} was/were given.  "
                f"Declaration: {self}"
            )
        rest = dict(kwargs)
        values: dict[str, Any] = {}
        for place, parameter in enumerate(self.parameters):
            if place < len(args):
                value = args[place]
            elif parameter.name in rest:
                value = rest.pop(parameter.name)
            elif parameter.has_default:
                values[parameter.name] = parameter.default
                continue
            else:
                raise RuntimeError(
                    f"{self.name}() is missing value for argument '{parameter.name}'. Declaration: {self}"
                )
            values[parameter.name] = self._checked(parameter, value)
        if rest:
            raise RuntimeError(
                f"Unknown keyword argument '{next(iter(rest))}' for operator '{self.name}'. Schema: {self}"
            )
        count = len(positional)
        return tuple(values.values())[:count], dict(list(values.items())[count:])

    def shortened(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The bound arguments of a call as functions in Python get them: without values by name that are the default, and without
        the last positional ones if they are."""
        count = len(args)
        while count and _is_default(self.parameters[count - 1], args[count - 1]):
            count -= 1
        named = self._keyword_only
        return args[:count], {name: value for name, value in kwargs.items() if not _is_default(named[name], value)}

    @functools.cached_property
    def _keyword_only(self) -> dict[str, Parameter]:
        return {one.name: one for one in self.parameters if one.keyword_only}

    def _checked(self, parameter: Parameter, value: Any) -> Any:
        value = _converted(parameter.type, value)
        if not _accepts(parameter.type, value):
            shown = parameter.type.replace("SymInt", "int")
            shown = re.sub(r"^Scalar(?!Type)", "number", shown)
            found = re.fullmatch(r"(.+?)(\?)?\[\d*\](\?)?", shown)
            if found:
                shown = f"List[Optional[{found[1]}]]" if found[2] else f"List[{found[1]}]"
            shown = re.sub(r"Dict\((.+)\)", r"Dict[\1]", re.sub(r"(.+)\?$", r"Optional[\1]", shown))
            raise RuntimeError(
                f"{self.name}() Expected a value of type '{shown}' for argument '{parameter.name}' but instead found type "
                f"'{type(value).__name__}'.\n  Declaration: {self}"
            )
        return value


def _is_default(parameter: Parameter, value: Any) -> bool:
    return parameter.has_default and _is_same(value, parameter.default)


def _is_same(value: Any, other: Any) -> bool:
    """Whether two values are equal and of one type. A tuple may stand for a list."""
    if isinstance(value, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(value) == len(other) and all(map(_is_same, value, other))
    return type(value) is type(other) and value == other


def _converted(kind: str, value: Any) -> Any:
    """A value as torch converts it for a type: a tensor of one element to a number, a number to a bool or a float, and a number for
    a list of fixed length to as many."""
    kind = kind.removesuffix("?")
    if kind.endswith("]"):
        element, _, size = kind[:-1].rpartition("[")
        if isinstance(value, (list, tuple)):
            return type(value)(_converted(element, item) for item in value) if type(value) in (list, tuple) else value
        one = _converted(element, value)
        return [one] * int(size) if size and value is not None and _accepts(element, one) else value
    if kind in ("int", "SymInt", "float", "bool") and _is_one(value):
        value = value.item()
        value = int(value) if kind in ("int", "SymInt") and isinstance(value, float) and math.isfinite(value) else value
    if kind == "bool" and isinstance(value, (int, float)):
        return bool(value)
    if kind in ("int", "SymInt") and isinstance(value, bool):
        return int(value)
    return float(value) if kind == "float" and isinstance(value, int) else value


def _is_one(value: Any) -> bool:
    """Whether a value is a tensor of one real element, or a number of NumPy."""
    if isinstance(value, torch.Tensor):
        return value.numel() == 1 and not value.is_complex()
    return hasattr(value, "item") and getattr(value, "shape", None) == ()


def _accepts(kind: str, value: Any) -> bool:
    """Whether a value has a type of a schema. Types of the engine's own objects are compared by class."""
    if kind.endswith("?"):
        return value is None or _accepts(kind[:-1], value)
    if kind.endswith("]"):
        element = kind[:-1].rpartition("[")[0]
        return isinstance(value, (list, tuple)) and all(_accepts(element, item) for item in value)
    if kind.startswith("Dict("):
        of_keys, of_values = split(kind[len("Dict(") : -1])
        pairs = value.items() if isinstance(value, dict) else ()
        return isinstance(value, dict) and all(_accepts(of_keys, k) and _accepts(of_values, v) for k, v in pairs)
    if kind in ("int", "SymInt") and isinstance(value, int) and not -(2**63) <= value < 2**63:
        return False
    if kind == "t":
        return False  # torch takes none from Python
    known = _CLASSES.get(kind)
    return known is None or isinstance(value, known)


_CLASSES: dict[str, Any] = {
    "Tensor": torch.Tensor,
    "int": int,
    "SymInt": int,
    "float": (float, int),
    "bool": bool,
    "str": str,
    "Scalar": (int, float, complex),
    "complex": (int, float, complex),
    "AnyEnumType": enum.Enum,
    "ScalarType": torch.dtype,
    "Device": (torch.device, str),
    "Generator": torch.Generator,
}


def parse(text: str) -> Schema:
    """Reads a schema.

    Raises:
        RuntimeError: it is none.
    """
    unquoted = re.sub('"[^"]*"', "", text)
    if unquoted.count("(") > unquoted.count(")"):
        raise RuntimeError(f"expected ) but found 'eof' here:\n{text}\n{' ' * len(text)}~ <--- HERE")
    found = _SCHEMA.fullmatch(text)
    if found is None:
        here = f"but found 'eof' here:\n{text}\n{' ' * len(text)}~ <--- HERE"
        if text.endswith("::"):
            raise RuntimeError(f"expected ident {here}")
        if unquoted.rstrip().endswith("->"):
            raise RuntimeError(f"expected ident {here}")
        if unquoted.endswith(")") and "->" not in unquoted:
            raise RuntimeError(f"expected arrow {here}\n  A schema tells the results too: 'name(Tensor x) -> Tensor'.")
        if "(" not in text:
            raise RuntimeError("Tried to parse a function schema but only the operator name was given")
        raise RuntimeError(f"expected a schema such as 'name(Tensor x) -> Tensor' but got {text!r}")
    name, overload, arguments, returns = found.groups()
    short = name.rpartition("::")[2]
    if not short.isidentifier():
        met = "number" if short else "("
        raise RuntimeError(f"expected ident but found '{met}' here:\n{text}\n{' ' * text.rfind('::')}  ~ <--- HERE")
    if "->" in returns:
        raise RuntimeError(f"expected eof but found 'arrow' here:\n{text}\n{' ' * text.rfind('->')}~~ <--- HERE")
    parameters, shown, keyword_only = [], [], False
    for part in split(arguments):
        if part == "*":
            keyword_only = True
            shown.append(part)
            continue
        matched = _PARAMETER.fullmatch(part)
        if matched is None:
            raise RuntimeError(f"expected a parameter such as 'Tensor x' but got {part!r} in {text!r}")
        kind, marks, mutated, suffix, own, default = matched.groups()
        _check_type(kind + suffix, text)
        marked = kind + (marks or "") + suffix
        plain = None if default is None else _default(default.strip())
        value = _converted(kind + suffix, plain)
        changed = mutated is not None
        parameters.append(Parameter(own, kind + suffix, value, default is not None, keyword_only, changed, marked))
        shown.append(f"{marked} {own}" + ("" if default is None else f"={_default_text(default.strip(), plain)}"))
    full = f"{name}.{overload}" if overload else name
    results = split(returns[1:-1]) if returns.startswith("(") and returns.endswith(")") else [returns]
    kinds = tuple(_RESULT_TYPE.match(_RESULT.sub("", one))[0] for one in results)  # type: ignore[index] # it always matches
    for kind in kinds:
        _check_type(kind, text)
    return Schema(
        name, overload or "", tuple(parameters), kinds, tuple(results), f"{full}({', '.join(shown)}) -> {returns}"
    )


def _check_type(kind: str, text: str) -> None:
    base = re.sub(r"(\[\d*\]|\?)+$", "", kind)
    if base == "t" and text.startswith("aten::"):
        return  # any type: some operators of torch take lists of anything
    if base not in _BASE_TYPES and not base.startswith(("Dict(", "Union(", "(")):
        place = max(text.find(base), 0)
        raise RuntimeError(
            "\nunknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, Scalar; "
            "for a full list, please see "
            "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md#func :\n"
            f"{text}\n{' ' * place}{'~' * len(base)} <--- HERE\n"
        )


def split(text: str) -> list[str]:
    """The parts between commas that are outside of brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def _default(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        # A dtype, a layout or a memory format.
        return getattr(torch, text, text)


def _default_text(text: str, value: Any) -> str:
    """A default as torch prints it: numbers as in C++, texts in double quotes."""
    if isinstance(value, list):
        return f"[{', '.join(_default_text(str(one), one) for one in value)}]"
    if isinstance(value, float):
        digits = f"{value:.17g}"
        return digits if set("e.in").intersection(digits) else f"{digits}."
    if isinstance(value, complex):
        parts = [_default_text("", part) for part in (value.real, value.imag)]
        return f"{parts[0]}{'' if parts[1].startswith('-') else '+'}{parts[1]}j"
    if isinstance(value, str) and text[:1] in "'\"":
        return f'"{value}"'
    return str(value) if type(value) is int else text


_TYPES: dict[Any, str] = {
    torch.Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    torch.dtype: "ScalarType",
    torch.device: "Device",
    types.NoneType: "None",
}
_IN_LISTS = {"Tensor", "Tensor?", "SymInt", "float", "bool"}


def _type_of(annotation: Any) -> str | None:
    """A type in torch's words, or None if there is none."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        others = [arg for arg in inner if arg is not types.NoneType]
        kind = _type_of(others[0]) if len(others) == 1 else "Scalar" if set(others) == {int, float, bool} else None
        return kind if kind is None or len(others) == len(inner) else f"{kind}?"
    if origin in (list, collections.abc.Sequence):
        kind = _type_of(inner[0])
        return f"{kind}[]" if kind in _IN_LISTS else None
    return _TYPES.get(annotation) if isinstance(annotation, collections.abc.Hashable) else None


def _shown_default(kind: str, value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.device):
        return f'"{value}"'
    return str(value)


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Any = (),
) -> str:
    """The schema of a function with annotations.

    Args:
        prototype_function: the function.
        mutates_args: the names of the arguments that it changes, or ``"unknown"``.
        op_name: a name, which the schema begins with.
        tags: has no effect.

    Raises:
        ValueError: an annotation is missing or has no type in a schema.

    >>> def scale(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor: ...
    >>> torch.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float factor=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)

    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated or the string "
            "'unknown'. "
        )

    def refuse(reason: str) -> typing.NoReturn:
        raise ValueError(f"infer_schema(func): {reason} Got func with signature {signature})")

    try:
        hints = typing.get_type_hints(prototype_function)
    except Exception:
        hints = {name: one.annotation for name, one in signature.parameters.items()}
        hints["return"] = signature.return_annotation
    parts, seen, changed = [], set(), 0
    keyword_only = False
    for name, parameter in signature.parameters.items():
        seen.add(name)
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        if parameter.annotation is parameter.empty:
            refuse(f"Parameter {name} must have a type annotation.")
        annotation = hints.get(name, parameter.annotation)
        if parameter.default is None and typing.get_origin(parameter.annotation) is None:
            annotation = parameter.annotation if not isinstance(parameter.annotation, str) else annotation
        kind = _type_of(annotation)
        if kind is None or kind == "None":
            refuse(f"Parameter {name} has unsupported type {annotation}.")
        if mutates_args != "unknown" and name in mutates_args and not kind.startswith("Tensor"):
            refuse(f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated")
        if (mutates_args == "unknown" or name in mutates_args) and kind.startswith("Tensor"):
            kind = re.sub("^Tensor", f"Tensor(a{changed}!)", kind)
            changed += 1
        default = "" if parameter.default is parameter.empty else f"={_shown_default(kind, parameter.default)}"
        parts.append(f"{kind} {name}{default}")
    if mutates_args != "unknown" and (unseen := set(mutates_args) - seen):
        refuse(
            f"{unseen} in mutates_args were not found in the custom op's signature. mutates_args should contain the names "
            "of all args that the custom op mutates, or just the string 'unknown' if you don't know."
        )
    if signature.return_annotation is signature.empty:
        refuse("No return type annotation was provided. Please add one.")
    result = hints.get("return", signature.return_annotation)
    several = typing.get_args(result) if typing.get_origin(result) is tuple else (result,)
    kinds = [] if result in (None, types.NoneType) else [_type_of(one) for one in several]
    if any(kind not in ("Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar") for kind in kinds):
        refuse(f"Return has unsupported type {result}.")
    returns = (
        kinds[0] if len(kinds) == 1 and typing.get_origin(result) is not tuple else f"({', '.join(map(str, kinds))})"
    )
    return f"{op_name or ''}({', '.join(parts)}) -> {returns}"


infer_schema.__module__ = "rushlight.library"

"""The public names of `torch` that are not operators: functions made of operators, and the other methods of `Tensor`.

A `Name` has the attributes of an operator that `operators.py` uses. Kinds of parameters follow from annotations; parameters
without annotation get arguments of any kind.
"""

import inspect
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from public_names import modules
from table_cases import ALL

import rushlight as torch
from rushlight import _C

#: The modules with functions of tensors.
PLACES = (
    "rushlight",
    "rushlight.functional",
    "rushlight.fft",
    "rushlight.linalg",
    "rushlight.special",
    "rushlight.masked",
    "rushlight.signal.windows",
    "rushlight.nn.functional",
    "rushlight.nn.init",
    "rushlight.nn.utils",
    "rushlight.nn.utils.rnn",
    "rushlight.array_api",
    "rushlight.array_api.fft",
    "rushlight.array_api.linalg",
    "rushlight.utils.dlpack",
)
#: Names that change the process for all later cases, or affect other processes.
BEYOND = ("set_", "use_", "load", "save", "seed", "compile")
#: Methods of every Python object.
OBJECTS = {*dir(object), "__new__", "__init__", "__del__", "__torch_function__", "__class_getitem__"}
#: The beginning of an annotation, and the corresponding kind of argument in the table.
KINDS = (
    (("Sequence[Tensor", "list[Tensor", "tuple[Tensor", "Iterable[Tensor"), "Tensors"),
    (("Tensor", "array"), "Tensor"),
    (("Sequence[int", "tuple[int", "list[int", "Size", "shape"), "Ints"),
    (("Sequence[float", "list[float"), "Floats"),
    (("int", "SupportsIndex"), "Int"),
    (("float", "complex", "Number"), "Scalar"),
    (("bool",), "Bool"),
    (("str", "Literal"), "Str"),
    (("dtype", "torch.dtype"), "DType"),
)


class Name:
    """One public callable, with the interface of an operator."""

    promote = reference = ""
    samples, dtypes = (), ALL

    def __init__(self, name, target, is_method):
        self.namespace, _, self.python_name = name.rpartition(".")
        self.name, self.target = name, target
        self.variants = ["method"] if is_method else ["function"]
        self.params = list(self.parameters(is_method))

    def function(self):
        return self.target

    method = function

    def parameters(self, is_method):
        """The parameters in the table's syntax. Empty if Python has no signature."""
        try:
            found = list(inspect.signature(self.target).parameters.values())
        except (TypeError, ValueError):
            found = []
        if not found:
            own = [parameter("self", "Tensor", None)] if is_method else []
            key = {"__getitem__": "Key", "__setitem__": "Key", "__delitem__": "Key"}.get(self.python_name, "Any")
            yield from [*own, parameter("a", key, None), *(parameter(name, "Any", "") for name in "bc")]
            return
        for at, one in enumerate(found):
            default = None if one.default is one.empty else ""
            kind = "Tensor" if at == 0 and default is None and one.annotation is one.empty else kind_of(one)
            if one.kind is one.VAR_POSITIONAL:
                yield from (parameter(f"{one.name}{n}", kind, "") for n in range(3))
            elif one.kind is not one.VAR_KEYWORD:
                yield parameter(one.name, kind, default, one.kind is one.KEYWORD_ONLY)


def parameter(name, kind, default, keyword_only=False):
    return {"name": name, "kind": kind, "default": default, "keyword_only": keyword_only}


def kind_of(one):
    if one.name in ("dim", "axis"):
        return "Int"
    annotation = str(one.annotation)
    return next((kind for starts, kind in KINDS if annotation.startswith(starts)), "Any")


def names():
    """All such callables, sorted by name."""
    operators = {id(function) for space in _C._functions.values() for function in space.values()}
    found, places = {}, modules()
    for place in PLACES:
        for part in dir(places[place]):
            value = getattr(places[place], part)
            if (
                part.startswith(("_", *BEYOND))
                or not callable(value)
                or isinstance(value, type)
                or id(value) in operators
            ):
                continue
            found.setdefault(id(value), Name(f"{place}.{part}", value, is_method=False))
    covered = {op["python_name"] + end for op in _C._table() if "method" in op["variants"] for end in ("", "_")}
    for part in dir(torch.Tensor):
        value = getattr(torch.Tensor, part)
        if callable(value) and part not in OBJECTS | covered:
            found.setdefault(id(value), Name(f"Tensor.{part}", value, is_method=True))
    return sorted(found.values(), key=lambda name: name.name)

"""The names of nodes, of functions in generated code, and of the variables there."""

from __future__ import annotations

import builtins
import keyword
import re
from collections import defaultdict
from math import inf, nan
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType

import rushlight as torch
from rushlight.ops import OpOverload, OpOverloadPacket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_NUMBERED = re.compile(r"(.*)_(0|[1-9]\d*)")
_FOREIGN = re.compile(r"\W+", re.ASCII)


class BuiltinName:
    """A name that generated code may use without a definition, and the statement that imports it."""

    def __init__(self, import_str: str, obj: Any) -> None:
        self.import_str = import_str
        self.obj = obj


def builtin_names() -> dict[str, BuiltinName]:
    """The names that every generated function can use."""
    from rushlight.fx import _pytree as fx_pytree
    from rushlight.utils import _pytree as pytree

    return {
        "inf": BuiltinName("from math import inf", inf),
        "nan": BuiltinName("from math import nan", nan),
        "NoneType": BuiltinName("NoneType = type(None)", type(None)),
        "torch": BuiltinName("import torch", torch),
        "device": BuiltinName("from torch import device", torch.device),
        "fx_pytree": BuiltinName("import torch.fx._pytree as fx_pytree", fx_pytree),
        "pytree": BuiltinName("import torch.utils._pytree as pytree", pytree),
    }


_OURS = frozenset("inf nan NoneType torch device fx_pytree pytree".split())


def _reserved(name: str, obj: object | None) -> bool:
    """Whether a name means something else in generated code than ``obj``."""
    if keyword.iskeyword(name):
        return True
    if hasattr(builtins, name) and name != "_":  # the last result of an interactive session
        return obj is not getattr(builtins, name)
    return name in _OURS and obj is not builtin_names()[name].obj


class _Namespace:
    """Gives out names that are valid variables and that differ from each other."""

    def __init__(self) -> None:
        self._named: dict[Any, str] = {}
        self._used: set[str] = set()
        self._count: defaultdict[str, int] = defaultdict(int)

    def create_name(self, candidate: str, obj: object | None) -> str:
        """A name like ``candidate`` that is not in use. An object keeps the name that it got first."""
        if obj is not None and obj in self._named:
            return self._named[obj]
        name = _FOREIGN.sub("_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        numbered = _NUMBERED.fullmatch(name)
        base = numbered[1] if numbered else name
        if name in self._used or _reserved(name, obj):
            while name in self._used or _reserved(name, obj):
                self._count[base] += 1
                name = f"{base}_{self._count[base]}"
        elif numbered:
            self._count[base] = int(numbered[2])
        self._used.add(name)
        if obj is not None:
            self.associate_name_with_obj(name, obj)
        return name

    def associate_name_with_obj(self, name: str, obj: object) -> None:
        """Makes ``name`` the name of an object that has none."""
        self._named.setdefault(obj, name)

    def _rename_object(self, obj: object, name: str) -> None:
        self._named[obj] = name
        self._used.add(name)


def snake_case(name: str) -> str:
    """``name`` in lower case, with underscores between words.

    >>> from rushlight.fx._names import snake_case
    >>> snake_case("MaxPool2d")
    'max_pool2d'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


# Functions of `torch.nn.functional` that are built into torch's engine, and those that are also in `torch`.
_IN_ENGINE = frozenset(
    "avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear logsigmoid one_hot scaled_dot_product_attention softplus "
    "softshrink".split()
)
_IN_TORCH = frozenset(
    "adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d "
    "conv_transpose2d conv_transpose3d cosine_similarity hardshrink native_channel_shuffle pairwise_distance pdist "
    "pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ selu_ threshold_".split()
)
_IN_FUNCTIONAL = frozenset(
    "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist istft meshgrid norm "
    "split stft".split()
)
_PREFIXED = {"rushlight.fft": "fft", "rushlight.linalg": "linalg", "rushlight.special": "special"}


def _place(function: Any) -> tuple[str, str]:
    """torch's module of a function, and the function's name there."""
    name = function.__name__
    if isinstance(function, BuiltinFunctionType):
        part = _PREFIXED.get(function.__module__)
        if part is not None:
            return f"torch._C._{part}", f"{part}_{name}"
        if function.__module__ == "rushlight.nn.functional":
            if name in _IN_ENGINE:
                return "torch._C._nn", "log_sigmoid" if name == "logsigmoid" else name
            if name in _IN_TORCH:
                return "torch", name
        if name in _IN_FUNCTIONAL and getattr(torch, name, None) is function:
            return "torch.functional", name
    return public_module(function), name


def name_of_target(target: Any) -> str:
    """The name from which a node with this target gets its own."""
    name = target if isinstance(target, str) else _place(target)[1]
    if name.startswith("__") and name.endswith("__") and len(name) > 4:
        name = name[2:-2]
    return snake_case(name)


def qualified_name(function: Callable[..., Any]) -> str:
    """The name of a function with its module: the expression for it in generated code."""
    if isinstance(function, (OpOverload, OpOverloadPacket)):
        return f"torch.ops.{function}"
    name = function.__name__
    if getattr(builtins, name, None) is function:
        return name
    if isinstance(function, (MethodDescriptorType, WrapperDescriptorType)):
        return f"{public_module(function.__objclass__)}.{function.__objclass__.__name__}.{name}"
    if getattr(torch.Tensor, name, None) is function:
        return f"torch.Tensor.{name}"
    if name == "<lambda>" and isinstance(function, FunctionType):
        import inspect

        try:
            name = inspect.getsource(function).split("=")[0].strip()
        except OSError as error:
            raise RuntimeError("Unable to represent lambda") from error
        return f"{public_module(function)}.{name}"
    module, name = _place(function)
    return f"{module}.{name}"


def public_module(value: Any) -> str:
    """The name of the module of a function or class, with torch's name for this library."""
    module = value.__module__
    if module is None and isinstance(value, BuiltinFunctionType):
        module = "torch"
    return re.sub(r"^(rushlight|torch)(\._C)?(?=\.|$)", "torch", module)


def is_from_torch(value: Any) -> bool:
    """Whether generated code can reach an object through the name ``torch``."""
    name = getattr(value, "__module__", None)
    if name is None:
        return isinstance(value, BuiltinFunctionType) and hasattr(torch, value.__name__)
    return name.partition(".")[0] in ("rushlight", "torch")


def type_text(value: Any) -> str:
    """A type as annotations write it."""
    if isinstance(value, type) and not hasattr(value, "__origin__"):
        if value.__module__ == "builtins":
            return value.__qualname__
        return f"{public_module(value)}.{value.__qualname__}"
    if value is ...:
        return "..."
    if isinstance(value, (FunctionType, BuiltinFunctionType)):
        return value.__name__
    return repr(value).replace("rushlight.", "torch.")

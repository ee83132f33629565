"""`torch.ops`: operators by the names of torch's registry, and those of programs.

A member of ``torch.ops.aten``, such as ``torch.ops.aten.add.Tensor``, calls rushlight's function. A member of another
namespace calls the functions that a program has registered (`torch.library`).
"""

from __future__ import annotations

from types import ModuleType

import rushlight as torch
from rushlight._C import _handles_operators, _overridden
from rushlight._loading import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["load_library", "loaded_libraries"]

loaded_libraries: set[str] = set()
#: The libraries that `load_library` has refused. Their operators do not exist.
_refused_libraries: set[str] = set()


def load_library(path: str) -> None:
    """Loads a compiled library and registers its operators in `torch.ops`.

    The library must use the stable ABI of LibTorch (``torch/csrc/stable``): C functions that rushlight defines too. Functions
    for CUDA count only where CUDA's runtime is installed. Linux on x86-64 only.

    Args:
        path: the file.

    Raises:
        OSError: there is no such library, or it uses functions of torch that are not in the stable ABI.
        RuntimeError: an operator cannot be registered. The others are.

    >>> try:
    ...     torch.ops.load_library("ops.so")
    ... except OSError as error:
    ...     print(str(error).splitlines()[0])
    Could not load this library: ops.so
    """
    try:
        load("rushlight._library.stable").load(path)
    except OSError as error:
        _refused_libraries.add(path)
        raise OSError(
            f"Could not load this library: {path}\n  {error}\n  rushlight loads libraries that use the stable ABI of LibTorch."
        ) from error


class OpOverload:
    """One form of an operator, such as `torch.ops.aten.add.Tensor`. It calls the function, which accepts every form."""

    def __init__(self, overloadpacket: OpOverloadPacket, name: str) -> None:
        self.overloadpacket = overloadpacket
        self._overloadname = name
        self.__name__ = f"{overloadpacket.__name__}.{name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        operator = self._operator
        if operator is not None:
            # Its handlers of `__torch_dispatch__` run below mixed precision, `vmap` and recording.
            return _answered(self, operator, args, kwargs)
        if _overridden((*args, *kwargs.values()) if kwargs else args):
            handled = load("rushlight._torch_dispatch").handle(self, args, kwargs)
            if handled is not None:
                return handled[0]
        try:
            return self.overloadpacket._function(*args, **kwargs)
        except TypeError:
            load("rushlight._library.unfit").fitting([self], args, kwargs)
            raise

    @property
    def _overloadpacket(self) -> OpOverloadPacket:
        return self.overloadpacket

    @property
    def _opname(self) -> str:
        return self.overloadpacket.__name__

    @property
    def _operator(self) -> Any:
        """The operator of a program, or None for one of the engine."""
        return self.overloadpacket._operators.get("" if self._overloadname == "default" else self._overloadname)

    @property
    def _schema(self) -> Any:
        operator = self._operator
        if operator is not None:
            return operator.schema
        try:
            return load("rushlight._library.stable").schema_of(self.name())
        except RuntimeError as error:
            raise AttributeError(f"'{self}' has no attribute '_schema': {error}") from None

    def name(self) -> str:
        qualified = self.overloadpacket._qualified_op_name
        return qualified if self._overloadname == "default" else f"{qualified}.{self._overloadname}"

    def __str__(self) -> str:
        return f"{self.overloadpacket}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.overloadpacket}', overload='{self._overloadname}')>"

    def __deepcopy__(self, memo: Any) -> OpOverload:
        return self

    def __reduce__(self) -> Any:
        return getattr, (self.overloadpacket, self._overloadname)


class _NumberOverload(OpOverload):
    """A form for numbers, texts or lists of them, such as `torch.ops.aten.add.int`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, rest = self._schema.bind(args, kwargs)
        return load("rushlight._library.number_overloads").FUNCTIONS[self._opname](*args, **rest)


class OpOverloadPacket:
    """An operator with all of its forms, such as `torch.ops.aten.add`."""

    def __init__(self, namespace: str, name: str, function: Callable[..., Any] | None) -> None:
        self._qualified_op_name = f"{namespace}::{name}"
        self.__name__ = name
        #: What calls an operator of the engine; None for the operators of a program.
        self._function: Any = function
        #: Operators of a program, by the names of overloads.
        self._operators: dict[str, Any] = {}

    def add(self, operator: Any) -> None:
        """Adds an operator of a program as an overload."""
        self._operators[operator.schema.overload_name] = operator

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        if self._function is None:
            return [name or "default" for name in self._operators]
        return [*load("rushlight._library.stable").overloads_of(self._qualified_op_name)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _overridden(args) and self._function is not None:
            name = load("rushlight._aten_names").own_name(self.__name__, args, kwargs)
            return getattr(self, name.partition(".")[2])(*args, **kwargs)
        if self._function is None:
            return _answered(self, self._run_operator, args, kwargs)
        try:
            return self._function(*args, **kwargs)
        except TypeError:
            overloads = [getattr(self, name) for name in self.overloads()]
            fitting = load("rushlight._library.unfit").fitting(overloads, args, kwargs)
            if isinstance(fitting, _NumberOverload):
                return fitting(*args, **kwargs)
            raise

    def _run_operator(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the program's operator that takes the arguments, or the last one, which says why it does not."""
        several = list(self._operators.values())
        for operator in several[:-1]:
            try:
                operator.schema.bind(args, kwargs)
            except RuntimeError:
                continue
            return operator(*args, **kwargs)
        return several[-1](*args, **kwargs)

    def __getattr__(self, name: str) -> OpOverload:
        private = name.startswith("_") and name not in getattr(self._function, "overloads", ())
        known = () if private else tuple(self.overloads())
        if self._function is not None:
            # Handlers see calls whose overload is not told as those of the default one. An operator that is no public function
            # may have no listed schema.
            tells = load("rushlight._aten_names").tells_overload(self.__name__)
            known = (known if tells else (*known, "default")) if known else (name,)
        if private or name not in known:
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
        value = self.__dict__[name] = self._overload(name)
        return value

    def _overload(self, name: str) -> OpOverload:
        if self._function is not None and name != "out":
            qualified = self._qualified_op_name + ("" if name == "default" else f".{name}")
            if load("rushlight._library.stable").takes_numbers_alone(qualified):
                return _NumberOverload(self, name)
        return OpOverload(self, name)

    def __str__(self) -> str:
        return self._qualified_op_name.replace("::", ".")

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __deepcopy__(self, memo: Any) -> OpOverloadPacket:
        return self

    def __reduce__(self) -> Any:
        return _packet_of, tuple(self._qualified_op_name.split("::"))


class _OpNamespace(ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(f"torch.ops.{name}")
        self._name = name

    def __getattr__(self, name: str) -> OpOverloadPacket:
        function = None if name.startswith("__") else _function_of(self._name, name)
        if function is None and not name.startswith("__") and load("rushlight._library.stable").register_others():
            return getattr(self, name)
        if function is None:
            raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")
        value = self.__dict__[name] = OpOverloadPacket(self._name, name, function)
        return value


#: The namespace of torch's own operators, which `__getattr__` makes.
aten: _OpNamespace


def _answered(member: Any, run: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The call of a program's operator: by ``__torch_function__`` of a mode or of an argument's class, or else ``run``."""
    given = (*args, *kwargs.values()) if kwargs else args
    if _overridden(given):
        overrides = load("rushlight.overrides")
        leaves = load("rushlight._override_order").leaves(given)
        given = [one for one in leaves if not _has_only_a_handler(type(one))]
        if overrides.has_torch_function(given):
            return overrides.handle_torch_function(member, given, *args, **kwargs)
    return run(*args, **kwargs)


def _has_only_a_handler(kind: type) -> bool:
    """Whether a class of tensors handles operators by `__torch_dispatch__` and has no ``__torch_function__`` of its own."""
    function = getattr(kind, "__torch_function__", None)
    inherited = getattr(function, "__func__", None) is getattr(torch.Tensor.__torch_function__, "__func__", None)
    return inherited and _handles_operators(kind)


def _packet_of(namespace: str, name: str) -> OpOverloadPacket:
    """A member of a namespace, for pickles."""
    return getattr(getattr(torch.ops, namespace), name)


def _function_of(namespace: str, name: str) -> Callable[..., Any] | None:
    """The function that a member of a namespace calls, or None."""
    if namespace == "quantized":
        found = getattr(load("rushlight._quantized_ops"), name, None)
        return found if callable(found) and not name.startswith("_") else None
    if namespace == "profiler":
        ranges = load("rushlight.profiler._record_ops")
        return getattr(ranges, name) if name in ranges.__all__ else None
    if "c10d" in namespace:
        return load("rushlight.distributed._registered_ops").OF.get(namespace, {}).get(name)
    return _aten_function(name) if namespace == "aten" else None


def _aten_function(name: str) -> Callable[..., Any] | None:
    """The function or method of rushlight that does the work of an operator of torch's registry, or None."""
    own = load("rushlight._aten_functions").FUNCTIONS.get(name)
    if own is not None:
        return own
    space, _, rest = name.partition("_")
    if space in ("fft", "linalg", "special") and rest:
        return load("rushlight._C")._functions[space].get(rest) or _named(getattr(torch, space), rest)
    for place in (torch, load("rushlight.nn.functional"), load("rushlight._C")._functions[""], torch.Tensor):
        found = _named(place, name)
        if found is not None:
            return found
    return None


def _named(place: Any, name: str) -> Callable[..., Any] | None:
    found = place.get(name) if isinstance(place, dict) else getattr(place, name, None)
    return found if callable(found) and not isinstance(found, (type, ModuleType)) else None


def __getattr__(name: str) -> _OpNamespace:
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.ops' has no attribute '{name}'")
    value = globals()[name] = _OpNamespace(name)
    return value


def __dir__() -> list[str]:
    return __all__

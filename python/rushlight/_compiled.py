"""Functions that torch compiles and rushlight writes in Python: they refuse arguments with the sentences of operators."""

from __future__ import annotations

from functools import wraps
from itertools import takewhile

from rushlight._C import Tensor, _overrides, _Signatures
from rushlight._C import _overridden as overridden
from rushlight._overridable import call_override, mark_overridable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FunctionType
    from typing import Any, TypeVar

    _Function = TypeVar("_Function", bound=Callable[..., Any])

#: The kinds of `rust/dispatch/src/signature.rs` for annotations.
_KINDS = {
    "Tensor": "Tensor",
    "complex": "Scalar",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "Sequence[int]": "int[]",
    "int | Sequence[int]": "int[1]",
    "Sequence[float]": "float[]",
    "Sequence[Tensor]": "Tensor[]",
    "dtype": "ScalarType",
    "torch.dtype": "ScalarType",
    "Generator": "Generator",
    "torch.Generator": "Generator",
}


def compiled(
    *signatures: str, name: str | None = None, is_method: bool = False, overridable: bool = True
) -> Callable[[_Function], _Function]:
    """Checks the arguments of a function before each call, as torch does for compiled functions.

    Args:
        signatures: torch's signatures in the syntax of operators, ``"Tensor input, int dim=0, *, bool keepdim=False"``;
            those of a method without its object. By default there is one, which follows from the function's annotations.
        name: the name in torch's errors, if it is not the function's.
        is_method: whether the first argument is the object of a method.
        overridable: whether classes and modes may handle the calls (``__torch_function__``).
    """

    def decorate(function: _Function) -> _Function:
        texts = signatures or (_from_annotations(function, is_method),)  # type: ignore[arg-type] # no other callables
        check = _Signatures(name or function.__name__, texts, is_method).check
        code: CodeType = function.__code__
        own = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        others = [names for names in map(_positional, texts) if not own.issuperset(names)]

        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if overridable and (overridden(args) or (kwargs and overridden((*kwargs.values(),)))):
                _check_overridden(check, args, kwargs)
                return call_override(wrapper, args, kwargs)
            check(args, kwargs)
            if others and not own.issuperset(kwargs):
                args, kwargs = _by_place(others, own, args, kwargs)
            return function(*args, **kwargs)

        wrapper.__name__ = name or function.__name__
        return mark_overridable(wrapper) if overridable else wrapper  # type: ignore[return-value] # called like it

    return decorate


def _check_overridden(check: Callable[..., None], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuses a call before any class or mode handles it. Objects that handle calls count as tensors."""
    try:
        check(args, kwargs)
    except TypeError:
        each = (*args, *kwargs.values())
        if not any(_overrides(one) and not isinstance(one, Tensor) for one in each):
            raise


def _positional(text: str) -> list[str]:
    """The names of a signature's arguments that may be given by their places."""
    return [part.split()[1].partition("=")[0] for part in text.partition(", *")[0].split(", ")]


def _by_place(
    signatures: list[list[str]], own: frozenset[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call that has torch's names of another signature than that of the function's names, by places."""
    names: list[str] = next((names for names in signatures if kwargs.keys() <= own.union(names)), [])
    moved = list(takewhile(kwargs.__contains__, names[len(args) :]))
    rest = {name: value for name, value in kwargs.items() if name not in moved}
    return (*args, *(kwargs[name] for name in moved)), rest


def _from_annotations(function: FunctionType, is_method: bool) -> str:
    """The signature of a function with annotations of the kinds that operators have."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = function.__defaults__ or ()
    by_name = dict(zip(names[code.co_argcount - len(defaults) : code.co_argcount], defaults))
    by_name.update(function.__kwdefaults__ or {})
    parts = []
    for place, name in enumerate(names):
        if place == code.co_argcount:
            parts.append("*")
        annotation = function.__annotations__[name] if place or not is_method else "Tensor"
        kind = _KINDS[annotation.removesuffix(" | None")] + "?" * annotation.endswith(" | None")
        default = str(list(by_name[name]) if by_name[name] == () else by_name[name]) if name in by_name else None
        parts.append(f"{kind} {name}" + (f"={default}" if default is not None else ""))
    return ", ".join(parts[is_method:])

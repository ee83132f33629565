"""The results of operators that functions and handlers in Python return: they are checked and converted to the schema's types."""

from __future__ import annotations

from functools import cache
from typing import Any

import rushlight as torch
from rushlight import _C
from rushlight._library.schema import split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

__all__ = ["checked", "checked_by_name"]


def checked(name: str, kinds: tuple[str, ...], result: Any) -> Any:
    """The results of an operator in the types of its schema. None stands for any tensor, as in torch.

    Raises:
        RuntimeError: a result has another type, or the operator has no results or another number of them.
        TypeError: the operator has several results and this is a single one, or the result should be a dictionary.
    """
    if not kinds:
        if result is not None:
            raise RuntimeError(
                f"Expected PythonKernelHolder for {name} to return None but it returned something else instead."
            )
        return None
    if len(kinds) == 1:
        return _converted(kinds[0], result)
    if not isinstance(result, (tuple, list)):
        raise TypeError(f"Object of type '{type(result).__name__}' is not an instance of 'sequence'")
    if len(result) != len(kinds):
        raise RuntimeError(f"{name} has {len(kinds)} results by its schema, but its function returned {len(result)}")
    return tuple(map(_converted, kinds, result))


def _converted(kind: str, value: Any) -> Any:
    if kind in ("Tensor", "Tensor?"):
        if value is not None and not isinstance(value, torch.Tensor):
            raise RuntimeError(f"Unable to cast {value} to Tensor")
        return value
    if kind.endswith("?"):
        return None if value is None else _converted(kind[:-1], value)
    if kind.startswith("Dict(") and kind.endswith(")"):
        of_keys, of_values = split(kind[len("Dict(") : -1])
        return {_converted(of_keys, key): _converted(of_values, one) for key, one in dict(value).items()}
    if kind.endswith("]"):
        element = kind[: kind.rindex("[")]
        if not isinstance(value, (list, tuple)):
            _refuse(value)
        if element in ("Tensor", "Tensor?"):
            allowed = (torch.Tensor, type(None)) if element == "Tensor?" else torch.Tensor
            if not all(isinstance(one, allowed) for one in value):
                _refuse(value)
            return list(value)
        if element == "str":
            return [_converted(element, one) for one in value]
        try:
            return [_converted(element, one) for one in value]
        except RuntimeError:
            _refuse(value)
    if kind == "Scalar":
        if not isinstance(value, (int, float, complex)):
            raise RuntimeError(f"Cannot cast {value if isinstance(value, str) else repr(value)} to number")
        return value
    if kind == "Device":
        if not isinstance(value, (str, torch.device)):
            _refuse(value)
        return torch.device(value)
    if kind == "ScalarType":
        if not isinstance(value, torch.dtype):
            _refuse(value)
        return value
    if kind == "str" and isinstance(value, bytes):
        return value.decode()
    convert = _PLAIN.get(kind)
    if convert is None:
        return value
    if isinstance(value, str) != (convert is str) or value is None or (convert is bool and not _is_number(value)):
        _refuse(value)
    try:
        return convert(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        _refuse(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex)) or (isinstance(value, torch.Tensor) and value.numel() == 1)


def _int(value: Any) -> int:
    """A whole number of 64 bits."""
    if isinstance(value, float):
        raise TypeError
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise OverflowError
    return number


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "int": _int,
    "SymInt": _int,
    "float": float,
    "complex": complex,
    "bool": bool,
    "str": str,
}


def _refuse(value: Any) -> NoReturn:
    raise RuntimeError(
        f"Unable to cast Python instance of type {type(value)} to C++ type '?' (#define PYBIND11_DETAILED_ERROR_MESSAGES or "
        "compile in debug mode for details)"
    )


@cache
def _engine_results() -> dict[str, set[Any]]:
    """What the engine's operators of a name return: the kind of the result, or the names of several ones."""
    found: dict[str, set[Any]] = {"_local_scalar_dense": {"Scalar"}}
    for entry in _C._table():
        space, returns = entry["namespace"], entry["returns"]
        prefix = f"{space}_" if space in ("linalg", "fft", "special") else ""
        for name in (entry["python_name"], *entry["aliases"]):
            kind = returns if isinstance(returns, str) else tuple(returns)
            found.setdefault(prefix + name.rpartition(".")[2], set()).add(kind)
    return found


def checked_by_name(name: str, result: Any, several: bool | None = None) -> Any:
    """The same for an operator of the engine, which has no schema here. It fits one of the operators of the name, of those with
    several results or of the others if ``several`` is known.

    Raises:
        RuntimeError: the operators return something of another kind.
    """
    found = _engine_results()
    in_place = name.endswith("_") and name not in found and name.removesuffix("_") in found
    kinds = {"Tensor"} if in_place else found.get(name, set())
    kinds = {kind for kind in kinds if several in (None, not isinstance(kind, str))} or kinds
    refused = None
    for kind in sorted(kinds, key=lambda kind: kind != "Tensor"):
        try:
            return _fitted(kind, result)
        except RuntimeError as error:
            refused = refused or error
    if refused is not None:
        raise refused
    return result


def _fitted(kind: Any, result: Any) -> Any:
    if isinstance(kind, str):
        return _converted(kind, False if kind == "bool" and result is None else result)
    if not isinstance(result, (tuple, list, str)):
        raise RuntimeError(f"Object of type '{type(result).__name__}' is not an instance of 'sequence'")
    found = tuple(_converted("Tensor", one) for one in result)
    if len(found) < len(kind):
        raise RuntimeError("Expected Tensor but got None")
    return found[: len(kind)]

"""The results of operators that functions and handlers in Python return: they are checked and converted to the schema's types."""

from __future__ import annotations

from functools import cache
from typing import Any

import rushlight as torch
from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["checked", "handled"]


def checked(name: str, kinds: tuple[str, ...], result: Any) -> Any:
    """The results of an operator in the types of its schema. None stands for any tensor, as in torch.

    Raises:
        RuntimeError: a result has another type, or the operator has no results or another number of them.
        TypeError: the operator has several results, and this is a single one.
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
    if kind.endswith("]"):
        element = kind[: kind.rindex("[")]
        if not isinstance(value, (list, tuple)):
            _refuse(value)
        if element in ("Tensor", "Tensor?") and not all(isinstance(one, (torch.Tensor, type(None))) for one in value):
            _refuse(value)
        return value
    if kind == "Scalar":
        if not isinstance(value, (int, float, complex)):
            raise RuntimeError(f"Cannot cast {value} to number")
        return value
    convert = {"int": int, "SymInt": int, "float": float, "bool": bool, "str": str}.get(kind)
    if convert is None:
        return value
    if isinstance(value, str) != (convert is str) or value is None:
        _refuse(value)
    try:
        return convert(value)
    except (TypeError, ValueError, RuntimeError):
        _refuse(value)


def _refuse(value: Any) -> NoReturn:
    raise RuntimeError(f"Unable to cast Python instance of type {type(value)} to C++ type '?'")


@cache
def _engine_results() -> dict[str, set[str]]:
    """What the engine's operators of a name return: ``"Tensor"``, ``"Tensor[]"`` or the names of several results."""
    found: dict[str, set[str]] = {}
    for entry in _C._table():
        space = entry["namespace"]
        prefix = f"{space}_" if space in ("linalg", "fft", "special") else ""
        found.setdefault(prefix + entry["python_name"], set()).add(str(entry["returns"]))
    return found


def handled(name: str, result: Any) -> Any:
    """The result of a handler of an operator of the engine. It is checked where all operators of the name return the same.

    Raises:
        RuntimeError: the operator returns a tensor or a list of them, and this is something else.
    """
    several = _engine_results().get(name) or _engine_results().get(name.removesuffix("_"), set())
    if several == {"Tensor"} or (several and name.endswith("_")):
        return _converted("Tensor", result)
    return _converted("Tensor[]", result) if several == {"Tensor[]"} else result

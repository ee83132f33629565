"""Operators of compiled libraries that use the stable ABI of LibTorch (the crate `stable`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import rushlight as torch
from rushlight import _C
from rushlight._library.keys import runs
from rushlight._library.operator import registry
from rushlight._library.register import define_operator, found
from rushlight._library.schema import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight._library.schema import Schema

__all__ = ["load", "operator_of"]

#: The keys of functions that see a call before it is recorded. The operators that other functions call are not recorded.
_ABOVE_AUTOGRAD = ("Autograd", "CompositeImplicitAutograd")


def load(path: str) -> None:
    """Loads a library and registers its operators.

    Raises:
        OSError: the loader refuses the library, or it uses functions of torch that are not in the stable ABI.
    """
    registered = _C._load_stable_library(path)
    for namespace, schema, function in registered:
        if function is None:
            define_operator(f"{namespace}::{schema}")
    for namespace, key, function in registered:
        if function is not None and runs(key):
            name, compiled = function
            operator = found(name if "::" in name else f"{namespace}::{name}")
            operator.kernels[key] = _function(operator.schema, key, compiled)


def _function(schema: Schema, key: str, compiled: _C._StableFunction) -> Callable[..., Any]:
    """The function of a library as one of Python."""
    parameters = schema.parameters
    names = [parameter.name for parameter in parameters if parameter.keyword_only]
    mutated = [parameter.mutated for parameter in parameters]
    call = compiled.with_types([parameter.type for parameter in parameters], mutated, list(schema.returns))
    below = not key.startswith(_ABOVE_AUTOGRAD)

    def function(*args: Any, **kwargs: Any) -> Any:
        recorded = torch.is_grad_enabled() and not below
        with torch.set_grad_enabled(recorded):
            results = call(*args, *[kwargs[name] for name in names])
        return results[0] if len(results) == 1 else tuple(results) or None

    return function


@cache
def _schemas() -> dict[str, str]:
    """The schemas of operators of the engine, by their names with overloads."""
    lines = Path(__file__).with_name("aten_schemas.txt").read_text().splitlines()
    return {f"aten::{line.partition('(')[0]}": f"aten::{line}" for line in lines}


def operator_of(name: str, overload: str) -> tuple[Callable[..., Any], list[str], list[str]]:
    """An operator that a library calls: a function of all arguments in their order, whose results are a list, and the
    types of arguments and results.

    Raises:
        RuntimeError: there is no such operator, or its schema is not known.
    """
    qualified = f"{name}.{overload}" if overload else name
    operator = registry.get(qualified)
    return _of_engine(qualified) if operator is None else _in_order(operator, operator.schema)


@cache
def _of_engine(qualified: str) -> tuple[Callable[..., Any], list[str], list[str]]:
    if qualified not in _schemas():
        raise RuntimeError(
            f"Could not find schema for {qualified}\n  A library can call the operators of programs, and those listed in "
            "rushlight/_library/aten_schemas.txt."
        )
    schema = parse(_schemas()[qualified])
    packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"))
    return _in_order(getattr(packet, schema.overload_name or "default"), schema)


def _in_order(operator: Callable[..., Any], schema: Schema) -> tuple[Callable[..., Any], list[str], list[str]]:
    names = [parameter.name for parameter in schema.parameters if parameter.keyword_only]
    count = len(schema.parameters) - len(names)

    def function(*args: Any) -> list[Any]:
        given = dict(zip(names, args[count:]))
        result = operator(*args[:count], **{name: value for name, value in given.items() if value is not None})
        return list(result) if isinstance(result, tuple) else [] if result is None else [result]

    return function, [parameter.type for parameter in schema.parameters], list(schema.returns)

"""Operators of compiled libraries that use the stable ABI of LibTorch (the crate `stable`)."""

from __future__ import annotations

import os
import threading
from functools import cache, partial
from pathlib import Path

import rushlight as torch
from rushlight import _C
from rushlight._library.keys import check_key, runs
from rushlight._library.operator import find, registry
from rushlight._library.register import define_operator
from rushlight._library.schema import parse
from rushlight._loading import load as load_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight._library.operator import Operator
    from rushlight._library.schema import Schema

__all__ = ["load", "operator_of", "register_others"]

#: The keys of functions that see a call before it is recorded. The operators that other functions call are not recorded.
_ABOVE_AUTOGRAD = ("Autograd", "CompositeImplicitAutograd")


#: Held while a library is loaded and registered, so that another thread that loads it too finds its operators.
_lock = threading.RLock()
#: The errors of libraries that were loaded and whose operators could not all be registered, by their paths.
_errors: dict[str, Exception] = {}

_NOT_RECORDED = (
    "{}: an autograd kernel was not registered to the Autograd key(s) but we are trying to backprop through it. This may lead to "
    "silently incorrect behavior. Register a derivative with torch.library.register_autograd, or call the operator in torch.no_grad()."
)


def _renew_lock() -> None:
    """In a forked child no other thread loads anything."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def load(path: str) -> None:
    """Loads a library and registers its operators.

    Raises:
        OSError: the loader refuses the library, or it uses functions of torch that are not in the stable ABI.
        RuntimeError: an operator cannot be registered. The others are.
    """
    with _lock:
        if path in torch.ops.loaded_libraries:
            return
        if path not in _errors:
            error = _register(_C._load_stable_library(path))
            if error is not None:
                _errors[path] = error
        if path in _errors:
            raise _errors[path].with_traceback(None)
        torch.ops.loaded_libraries.add(path)


def register_others() -> bool:
    """Registers the operators of libraries that were loaded otherwise, such as by `ctypes`; whether there were any."""
    with _lock:
        registered = _C._stable_registrations()
        error = _register(registered)
        if error is not None:
            raise error
        return bool(registered)


def _register(registered: list[Any]) -> Exception | None:
    """Registers what libraries told; returns the first error."""
    first: Exception | None = None
    # Functions may be told before the operators.
    for wanted in (False, True):
        for namespace, text, function in registered:
            if (function is not None) is wanted:
                try:
                    _define(namespace, text) if function is None else _implement(namespace, text, *function)
                except Exception as error:
                    first = first or error
    return first


def _define(namespace: str, schema: str) -> None:
    define_operator(f"{namespace}::{schema}")


def _implement(namespace: str, key: str, name: str, compiled: _C._StableFunction) -> None:
    check_key(key)
    qualified = name if "::" in name else f"{namespace}::{name}"
    if runs(key):
        operator = find(qualified)
        operator.kernels[key] = _function(operator, key, compiled)
        if not key.startswith(_ABOVE_AUTOGRAD):
            operator.unrecorded = _NOT_RECORDED
            operator.vmap = operator.vmap or partial(_one_by_one, operator)


def _function(operator: Operator, key: str, compiled: _C._StableFunction) -> Callable[..., Any]:
    """The function of a library as one of Python."""
    schema = operator.schema
    parameters = schema.parameters
    named = {parameter.name: parameter.default for parameter in parameters if parameter.keyword_only}
    positional = [parameter.default for parameter in parameters if not parameter.keyword_only]
    mutated = [parameter.mutated for parameter in parameters]
    call = compiled.with_types([parameter.type for parameter in parameters], mutated, list(schema.result_types))
    below = not key.startswith(_ABOVE_AUTOGRAD)

    def function(*args: Any, **kwargs: Any) -> Any:
        # In contrast to a function in Python, it gets the values that are defaults too.
        given = [*args, *positional[len(args) :], *(named | kwargs).values()]
        given = [value if changed else _stored(value) for value, changed in zip(given, mutated)]
        with torch.set_grad_enabled(torch.is_grad_enabled() and not below):
            results = call(*given)
        return results[0] if len(results) == 1 else tuple(results) or None

    return function


def _stored(value: Any) -> Any:
    """A value whose tensors have elements that are stored as they are."""
    if isinstance(value, torch.Tensor):
        lazy = value.layout is torch.strided and (value.is_conj() or value.is_neg())
        return value.resolve_conj().resolve_neg() if lazy else value
    return [_stored(one) for one in value] if isinstance(value, (list, tuple)) else value


def _one_by_one(operator: Operator, info: Any, in_dims: Any, *args: Any, **kwargs: Any) -> Any:
    """The rule for `vmap` of a function that knows nothing of it: a call for each sample."""

    def sample(value: Any, dim: Any, place: int) -> Any:
        if isinstance(value, (list, tuple)):
            return [sample(one, own, place) for one, own in zip(value, dim)]
        return value if dim is None else value.select(dim, place)

    results = [
        operator(*[sample(value, dim, place) for value, dim in zip(args, in_dims)], **kwargs)
        for place in range(info.batch_size)
    ]
    if isinstance(results[0], tuple):
        return tuple(torch.stack(each) for each in zip(*results)), (0,) * len(results[0])
    return torch.stack(results), 0


@cache
def _schemas() -> dict[str, str]:
    """The schemas of operators of the engine, by their names with overloads."""
    lines = Path(__file__).with_name("aten_schemas.txt").read_text().splitlines()
    return {f"aten::{line.partition('(')[0]}": f"aten::{line}" for line in lines}


def overloads_of(qualified: str) -> tuple[str, ...]:
    """The names of the overloads of an operator of the engine whose schemas are known."""
    return tuple(_overloads().get(qualified, ()))


def takes_numbers_alone(qualified: str) -> bool:
    """Whether an overload is one of those for numbers and lists of them, which the engine does not run."""
    text = _schemas().get(qualified)
    if text is None or "Tensor" in text:
        return False
    name = qualified.partition("::")[2].partition(".")[0]
    return name in load_module("rushlight._library.number_overloads").FUNCTIONS


@cache
def _overloads() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in _schemas():
        own, _, overload = name.partition(".")
        found.setdefault(own, []).append(overload or "default")
    return found


@cache
def schema_of(qualified: str) -> Schema:
    """The schema of an operator of the engine, by its name with overload.

    Raises:
        RuntimeError: it is not known.
    """
    if qualified not in _schemas():
        raise RuntimeError(
            f"Could not find schema for {qualified}\n  A library can call the operators of programs, and those listed in "
            "rushlight/_library/aten_schemas.txt."
        )
    return parse(_schemas()[qualified])


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
    schema = schema_of(qualified)
    packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"))
    return _in_order(getattr(packet, schema.overload_name or "default"), schema)


def _in_order(operator: Callable[..., Any], schema: Schema) -> tuple[Callable[..., Any], list[str], list[str]]:
    names = [parameter.name for parameter in schema.parameters if parameter.keyword_only]
    count = len(schema.parameters) - len(names)

    def function(*args: Any) -> list[Any]:
        given = dict(zip(names, args[count:]))
        result = operator(*args[:count], **{name: value for name, value in given.items() if value is not None})
        return list(result) if isinstance(result, tuple) else [] if result is None else [result]

    return function, [parameter.type for parameter in schema.parameters], list(schema.result_types)

"""The signatures of functions in graphs, and arguments in one form."""

from __future__ import annotations

import inspect
from typing import NamedTuple

import rushlight as torch
from rushlight.ops import OpOverload, OpOverloadPacket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["ArgsKwargsPair", "normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    """The positional arguments of a call, and those by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call with the defaults of the parameters.

    Args:
        target: the function.
        args, kwargs: the arguments.
        arg_types, kwarg_types: have no effect, because a function has one signature.
        normalize_to_only_use_kwargs: gives all arguments by name.

    Returns:
        the arguments, or None if the signature is not known or does not fit.

    >>> torch.fx.operator_schemas.normalize_function(torch.nn.functional.relu, (1,), normalize_to_only_use_kwargs=True)
    ArgsKwargsPair(args=(), kwargs={'input': 1, 'inplace': False})
    """
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        packet = target.overloadpacket if isinstance(target, OpOverload) else target
        if packet._function is None:  # an operator of a program, which has a schema in place of a signature
            return None
        target = packet._function
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return None
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: torch.nn.Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of the module at a path, with the defaults of its ``forward``.

    Args:
        root: the module that has it.
        target: the path.
        args, kwargs: the arguments.
        normalize_to_only_use_kwargs: gives all arguments by name.

    >>> root = torch.nn.Sequential(torch.nn.Linear(1, 1))
    >>> torch.fx.operator_schemas.normalize_module(root, "0", (1,), normalize_to_only_use_kwargs=True)
    ArgsKwargsPair(args=(), kwargs={'input': 1})
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize a module with target {target} but root did not have that target!"
        ) from error
    return _normalized(inspect.signature(module.forward), args, kwargs or {}, normalize_to_only_use_kwargs)


def _normalized(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], only_names: bool
) -> ArgsKwargsPair | None:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    starred = kinds & {
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
        inspect.Parameter.POSITIONAL_ONLY,
    }
    if only_names and not starred:
        return ArgsKwargsPair((), dict(bound.arguments))
    if starred:
        return ArgsKwargsPair(bound.args, bound.kwargs)
    given = dict(bound.arguments)
    return ArgsKwargsPair(tuple(given.pop(name) for name in list(given)[: len(args)]), given)


def __dir__() -> list[str]:
    return __all__

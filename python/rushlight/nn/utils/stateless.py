"""Calls a module with parameters and buffers that replace its own."""

from __future__ import annotations

from contextlib import contextmanager

from rushlight import Tensor
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight.nn import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Deprecated name of `torch.func.functional_call`. It gives a warning.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     weight = {"weight": torch.ones(1, 2)}
    ...     torch.nn.utils.stateless.functional_call(torch.nn.Linear(2, 1, bias=False), weight, torch.ones(2))
    tensor([2.])
    """
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future version "
        "of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def _functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    from ..parallel import DataParallel

    if isinstance(module, DataParallel):
        raise RuntimeError("The stateless API can't be used with nn.DataParallel module")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict):
        return module(*args, **({} if kwargs is None else kwargs))


@contextmanager
def _reparametrize_module(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    *,
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """Replaces tensors of the module by the given ones inside the block. Changed buffers are stored in the dictionary.

    The module has its own tensors again after the block, whatever the order (``stack_weights``).
    """
    given = parameters_and_buffers
    values: dict[str, Any] = given
    if tie_weights or strict:
        own: dict[str, Any] = {
            **dict(module.named_parameters(remove_duplicate=False)),
            **dict(module.named_buffers(remove_duplicate=False)),
        }
        values = _with_tied(own, given) if tie_weights else given
        if strict:
            _check_names(module, own, values)
    before: dict[str, tuple[Module, str, Any]] = {}
    try:
        for name, value in values.items():
            path, _, last = name.rpartition(".")
            owner = _submodule(module, path)
            if not last:
                raise KeyError('tensor name can\'t be empty string ""')
            before[name] = owner, last, _exchanged(owner, last, value)
        yield
    finally:
        for name, (owner, last, old) in before.items():
            new = _exchanged(owner, last, old)
            if name in given:
                # For example, a running mean may have been replaced by another tensor.
                given[name] = new


def _submodule(module: Module, path: str) -> Module:
    from ..modules.module import Module

    owner: Any = module
    names = path.split(".") if path else []
    for at, name in enumerate(names):
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        owner = getattr(owner, name)
        if not isinstance(owner, Module):
            raise TypeError(f"submodule `{'.'.join(names[: at + 1])}`: {owner} is not an instance of torch.nn.Module")
    return owner


class _Absent:
    """Stands for an attribute that a module does not have."""


def _exchanged(owner: Module, name: str, value: Any) -> Any:
    """Sets a member of a module without registering it again. Returns the old value."""
    if value is not None and not isinstance(value, (Tensor, _Absent)):
        raise TypeError(f"{value} is not an instance of torch.Tensor")
    registries: tuple[dict[str, Any], ...] = (owner._parameters, owner._buffers)
    for registry in registries:
        if name in registry and not isinstance(value, _Absent):
            old, registry[name] = registry[name], value
            return old
    old = getattr(owner, name, _Absent())
    if isinstance(value, _Absent):
        delattr(owner, name)
        return old
    if old is not None and not isinstance(old, (Tensor, _Absent)):
        raise TypeError(f"attribute `{name}`: {old} is not an instance of torch.Tensor")
    if name in vars(owner):
        # A computed (parametrized) parameter.
        vars(owner)[name] = value
    else:
        setattr(owner, name, value)
    return old


def _with_tied(own: dict[str, Any], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The given tensors, also under the other names of tied parameters."""
    groups: dict[int, list[str]] = {}
    for name, tensor in own.items():
        groups.setdefault(id(tensor), []).append(name)
    replaced = given.keys()
    values = dict(given)
    for names in groups.values():
        present = [name for name in names if name in replaced]
        if len(names) < 2 or not present:
            continue
        if len({id(given[name]) for name in present}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. Consider using "
                "tie_weights=False"
            )
        values.update(dict.fromkeys(names, given[present[0]]))
    return values


def _check_names(module: Module, own: dict[str, Any], values: dict[str, Tensor]) -> None:
    kinds = {
        "Unexpected": [name for name in values if name not in own],
        "Missing": [name for name in own if name not in values],
    }
    lines = [f"{kind} key(s): {', '.join(map(repr, names))}." for kind, names in kinds.items() if names]
    if lines:
        raise RuntimeError("Error(s) in reparametrizing for {}:\n\t{}".format(module._get_name(), "\n\t".join(lines)))


def __dir__() -> list[str]:
    return __all__

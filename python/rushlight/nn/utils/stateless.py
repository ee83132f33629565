"""Calling a module with other parameters and buffers than its own."""

from __future__ import annotations

from contextlib import contextmanager

from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Tensor
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
    """The older name of `torch.func.functional_call`; warns.

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
    with _replaced(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))


@contextmanager
def _replaced(module: Module, given: dict[str, Tensor], tie_weights: bool, strict: bool) -> Iterator[None]:
    """The module has the given tensors in the place of its own; what it puts there meanwhile is found in ``given``."""
    own: dict[str, Any] = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    values = _with_tied(own, given) if tie_weights else given
    if strict:
        _check_names(module, own, values)
    places = {name: place for name in values if (place := _place(module, name)) is not None}
    before = {}
    try:
        for name, (registry, last) in places.items():
            before[name] = registry[last]
            registry[last] = values[name]
        yield
    finally:
        for name, tensor in before.items():
            registry, last = places[name]
            if name in given:
                # A running mean, for one, may have been replaced by another tensor.
                given[name] = registry[last]
            registry[last] = tensor


def _place(module: Module, name: str) -> tuple[dict[str, Any], str] | None:
    """The dictionary that holds a member, and its key there."""
    path, _, last = name.rpartition(".")
    try:
        owner = module.get_submodule(path)
    except AttributeError:
        return None
    registries: tuple[dict[str, Any], ...] = (owner._parameters, owner._buffers)
    for registry in registries:
        if last in registry:
            return registry, last
    # A parameter that is computed, as a parametrized one, is a plain attribute while the call lasts.
    return (vars(owner), last) if last in vars(owner) else None


def _with_tied(own: dict[str, Any], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The given tensors, also under all other names of what they replace."""
    groups: dict[int, list[str]] = {}
    for name, tensor in own.items():
        groups.setdefault(id(tensor), []).append(name)
    values = dict(given)
    for names in groups.values():
        present = [name for name in names if name in given]
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

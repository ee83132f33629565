"""Helpers for arguments that are one number or one per dimension, and for removing prefixes of names."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    def spread(value: Any) -> tuple[Any, ...]:
        if hasattr(value, "__iter__"):
            return tuple(value)
        return (value,) * n

    spread.__name__ = spread.__qualname__ = name
    return spread


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Removes a prefix from the names of a state, in place, such as ``"module."`` of a wrapped model.

    Args:
        state_dict: the state, from `Module.state_dict` or `load`.
        prefix: the prefix, including its dot.

    >>> state = torch.nn.DataParallel(torch.nn.Linear(2, 1)).state_dict()
    >>> torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    >>> list(state)
    ['weight', 'bias']
    """
    _without_prefix(state_dict, prefix)
    versions = getattr(state_dict, "_metadata", {})
    # The entry of the wrapper is "", and that of the wrapped module has no dot: "module".
    wrapped = versions.pop(prefix.replace(".", ""), None)
    _without_prefix(versions, prefix)
    if wrapped is not None:
        versions[""] = wrapped


def _without_prefix(names: dict[str, Any], prefix: str) -> None:
    for name in [name for name in names if name.startswith(prefix)]:
        names[name.removeprefix(prefix)] = names.pop(name)


def _reverse_repeat_tuple(values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Repeats each value ``count`` times, last value first, as `functional.pad` expects."""
    return tuple(value for value in reversed(values) for _ in range(count))

"""Kullback-Leibler divergences: a registry of formulas for pairs of classes.

(The formulas are in `_kl_same_family` and `_kl_cross_family`.)
"""

from __future__ import annotations

import rushlight as torch
from rushlight._warnings import warn

from .distribution import Distribution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[..., Any]] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Registers the decorated function for `kl_divergence` of two classes and their subclasses.

    If several functions match, the nearest classes decide. A tie gives a RuntimeWarning.

    Raises:
        TypeError: an argument is not a class.

    >>> class Odd(torch.distributions.Normal):
    ...     pass
    >>> @torch.distributions.register_kl(Odd, Odd)
    ... def _between(p, q):
    ...     return torch.tensor(1.5)
    >>> torch.distributions.kl_divergence(Odd(0.0, 1.0), Odd(0.0, 1.0))
    tensor(1.5000)
    """
    # torch accepts every class. Libraries register classes that only behave like distributions.
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError("issubclass() arg 1 must be a class")

    def decorator(function: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return decorator


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The formula registered for the nearest base classes of a pair."""
    matches = [
        (super_p, super_q)
        for super_p, super_q in _KL_REGISTRY
        if issubclass(type_p, super_p) and issubclass(type_q, super_q)
    ]
    if not matches:
        return NotImplemented

    def distance(pair: tuple[type, type]) -> tuple[int, int]:
        return type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])

    left = min(matches, key=distance)
    right = min(matches, key=lambda pair: distance(pair)[::-1])
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> torch.Tensor:
    """The Kullback-Leibler divergence: the mean of ``p.log_prob(x) - q.log_prob(x)`` over samples x of p.

    Raises:
        NotImplementedError: no formula is registered for the classes.

    >>> torch.distributions.kl_divergence(torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    function = _KL_MEMOIZE[pair]
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type {q.__class__.__name__}"
        )
    return function(p, q)


def __dir__() -> list[str]:
    return __all__

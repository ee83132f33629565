"""Warnings about broadcasts and reductions that may be unintended.

`broadcast_warning` and `keepdim_warning` are torch's switches for programs older than broadcasting. In rushlight they
have an effect. `strict_broadcast` and `ambiguous_reduction` warn about broadcasts and reductions that are often
mistakes. `volatile` restores the old meaning of the argument of `Variable`. All switches are off by default and have no
cost then. They apply to all threads of the process.

>>> torch.utils.backcompat.broadcast_warning.enabled
False
"""

from __future__ import annotations

from rushlight import _C

__all__ = ["ambiguous_reduction", "broadcast_warning", "keepdim_warning", "strict_broadcast", "volatile"]

_level = 0


def _apply() -> None:
    _C._set_backcompat_warnings(broadcast_warning.enabled, keepdim_warning.enabled, ambiguous_reduction.enabled, _level)


def _truth(switch: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise RuntimeError(f"{switch} expects a bool, but got {type(value).__name__}")
    return value


class _Setting:
    """A switch that is off until its ``enabled`` is set."""

    def __init__(self, switch: str) -> None:
        self._switch = switch
        self._enabled = False

    @property
    def enabled(self) -> bool:
        return self._enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._enabled = _truth(self._switch, value)
        _apply()


# Tensors with different shapes and equal numbers of elements broadcast. Old versions combined them element by element.
broadcast_warning = _Setting("set_backcompat_broadcast_warn")
# A reduction without `keepdim` removes the dimension. Old versions kept it.
keepdim_warning = _Setting("set_backcompat_keepdim_warn")
# A call without `dim` (`x.sum()`, `x.squeeze()`) reduces several dimensions. Warns with `torch.AmbiguousReduction`.
ambiguous_reduction = _Setting("ambiguous_reduction.enabled")
# Operations with `Variable(data, volatile=True)` are not recorded, as before 0.4. Otherwise the argument has no effect.
volatile = _Setting("volatile.enabled")


class _Switch(type):
    """The metaclass that lets `strict_broadcast` be switched on and off like the other warnings."""

    @property
    def enabled(cls) -> bool:
        return _level > 0

    @enabled.setter
    def enabled(cls, value: bool) -> None:
        cls(int(_truth("strict_broadcast.enabled", value)))


class strict_broadcast(metaclass=_Switch):
    """Warns at the line of a suspicious broadcast, immediately and until the end of a ``with`` block.

    Level 1 warns about two shapes of different rank with equal numbers of elements that are both expanded, such as
    ``(n, 1)`` and ``(n,)``, where two columns were meant and the result is a matrix. Level 2 warns about every pair of
    which both are expanded, level 3 about every pair of which one is expanded, except single numbers. Level 0 disables
    the warning for a block. ``warnings.filterwarnings("error", message="strict_broadcast")`` turns the warnings into
    exceptions. ``strict_broadcast.enabled = True`` is level 1, and False is level 0.

    >>> import warnings
    >>> prediction, target = torch.ones(3, 1), torch.ones(3)
    >>> with torch.utils.backcompat.strict_broadcast(1), warnings.catch_warnings(record=True) as told:
    ...     loss = ((prediction - target) ** 2).mean()
    >>> print(told[0].message)
    strict_broadcast: [3, 1] and [3] make [3, 3]
      in sub with shapes, aligned to the right:
        (3, 1)
        (   3)
            ^ axis 1
      For an elementwise result give both the same shape first (squeeze, unsqueeze, reshape, or keepdim in a reduction).
    """

    def __init__(self, level: int = 1) -> None:
        global _level
        if level not in (0, 1, 2, 3):
            raise ValueError(f"strict_broadcast: the level must be 0, 1, 2 or 3, got {level!r}")
        self._before, _level = _level, int(level)
        _apply()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        global _level
        _level = self._before
        _apply()


def __dir__() -> list[str]:
    return __all__

"""Warnings where shapes meet otherwise than the author of a program may think.

`broadcast_warning` and `keepdim_warning` are torch's switches for programs older than broadcasting; here they work.
`strict_broadcast` and `ambiguous_reduction` are for programs of today: they name broadcasts and reductions that are often
slips. `volatile` gives the argument of `Variable` its old meaning. All are off until asked for, and cost nothing then; they
hold for all threads of the process.

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
    """Something that is off until its ``enabled`` is set."""

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


# Tensors of different shapes and as many elements meet by broadcasting; once, they met element by element.
broadcast_warning = _Setting("set_backcompat_broadcast_warn")
# A dimension is reduced and `keepdim` is not given; once, the dimension was kept.
keepdim_warning = _Setting("set_backcompat_keepdim_warn")
# All of several dimensions are taken because no `dim` is given (`x.sum()`, `x.squeeze()`): a `torch.AmbiguousReduction`.
ambiguous_reduction = _Setting("ambiguous_reduction.enabled")
# What is computed with `Variable(data, volatile=True)` is not recorded, as before 0.4; else the argument has no effect.
volatile = _Setting("volatile.enabled")


class _Switch(type):
    """Lets `strict_broadcast` be turned on and off as the warnings beside it are."""

    @property
    def enabled(cls) -> bool:
        return _level > 0

    @enabled.setter
    def enabled(cls, value: bool) -> None:
        cls(int(_truth("strict_broadcast.enabled", value)))


class strict_broadcast(metaclass=_Switch):
    """Warns, at the line of the call, of broadcasts that may be slips; at once, and until the end of a ``with`` block.

    Level 1 names the classic one: shapes of as many elements and different rank, both stretched, as ``(n, 1)`` with ``(n,)``,
    where a column was meant to meet a column and a table comes out. Level 2 names every pair of which both are stretched,
    level 3 every pair of which one is, but for single numbers. Level 0 is silence, for a block that means what it says.
    ``warnings.filterwarnings("error", message="strict_broadcast")`` makes exceptions of the warnings.
    ``strict_broadcast.enabled = True`` is level 1, and false is level 0.

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
      Element by element? Give both the same shape first (squeeze, unsqueeze, reshape, or keepdim in a reduction).
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

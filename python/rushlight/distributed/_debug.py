"""How much is checked in distributed programs."""

import enum
import os

from rushlight._set_module import set_module


class DebugLevel(enum.IntEnum):
    """OFF, INFO or DETAIL. Every call is checked at each level, so that the level has no effect."""

    OFF = 0
    INFO = 1
    DETAIL = 2


def _from_environment() -> DebugLevel:
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper()
    if name and name not in DebugLevel.__members__:
        raise RuntimeError(
            "The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL.\n"
            f"  It is {os.environ['TORCH_DISTRIBUTED_DEBUG']}."
        )
    return DebugLevel[name] if name else DebugLevel.OFF


_level: DebugLevel | None = None


def get_debug_level():
    """The level, by default that of TORCH_DISTRIBUTED_DEBUG.

    >>> torch.distributed.get_debug_level() is torch.distributed.DebugLevel.OFF
    True
    """
    return _from_environment() if _level is None else _level


def set_debug_level(level):
    """Sets the level."""
    global _level
    _level = DebugLevel(level)


def set_debug_level_from_env():
    """Sets the level to that of TORCH_DISTRIBUTED_DEBUG."""
    set_debug_level(_from_environment())


set_module("rushlight.distributed", DebugLevel)

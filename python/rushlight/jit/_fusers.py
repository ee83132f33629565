"""Switches of TorchScript's fuser and of its executor, which rushlight does not have. They are kept, and have no effect."""

from __future__ import annotations

__all__ = [
    "_jit_can_fuse_on_cpu",
    "_jit_can_fuse_on_gpu",
    "_jit_override_can_fuse_on_cpu",
    "_jit_override_can_fuse_on_gpu",
    "_jit_set_nvfuser_enabled",
    "_jit_set_nvfuser_guard_mode",
    "_jit_set_profiling_executor",
    "_jit_set_profiling_mode",
    "_jit_set_texpr_fuser_enabled",
    "_jit_texpr_fuser_enabled",
]

#: torch's values at the start.
_switches = {"cpu": False, "gpu": True, "executor": True, "mode": True, "texpr": True}


def _swapped(name: str, value: bool) -> bool:
    """Sets a switch, and returns what it was."""
    before, _switches[name] = _switches[name], bool(value)
    return before


def _jit_set_profiling_executor(profiling_flag: bool) -> bool:
    """Sets the switch, and returns what it was.

    >>> torch._C._jit_set_profiling_executor(torch._C._jit_set_profiling_executor(False))
    False
    """
    return _swapped("executor", profiling_flag)


def _jit_set_profiling_mode(profiling_flag: bool) -> bool:
    """Sets the switch, and returns what it was.

    >>> torch._C._jit_set_profiling_mode(torch._C._jit_set_profiling_mode(False))
    False
    """
    return _swapped("mode", profiling_flag)


def _jit_override_can_fuse_on_cpu(value: bool) -> None:
    """Sets the switch that `_jit_can_fuse_on_cpu` returns.

    >>> torch._C._jit_override_can_fuse_on_cpu(False)
    >>> torch._C._jit_can_fuse_on_cpu()
    False
    """
    _swapped("cpu", value)


def _jit_can_fuse_on_cpu() -> bool:
    """What `_jit_override_can_fuse_on_cpu` has set."""
    return _switches["cpu"]


def _jit_override_can_fuse_on_gpu(value: bool) -> None:
    """Sets the switch that `_jit_can_fuse_on_gpu` returns.

    >>> torch._C._jit_override_can_fuse_on_gpu(True)
    >>> torch._C._jit_can_fuse_on_gpu()
    True
    """
    _swapped("gpu", value)


def _jit_can_fuse_on_gpu() -> bool:
    """What `_jit_override_can_fuse_on_gpu` has set."""
    return _switches["gpu"]


def _jit_set_texpr_fuser_enabled(value: bool) -> None:
    """Sets the switch that `_jit_texpr_fuser_enabled` returns.

    >>> torch._C._jit_set_texpr_fuser_enabled(True)
    >>> torch._C._jit_texpr_fuser_enabled()
    True
    """
    _swapped("texpr", value)


def _jit_texpr_fuser_enabled() -> bool:
    """What `_jit_set_texpr_fuser_enabled` has set."""
    return _switches["texpr"]


def _jit_set_nvfuser_enabled(value: bool) -> None:
    """Accepted: torch has removed this fuser too."""


def _jit_set_nvfuser_guard_mode(value: bool) -> None:
    """Accepted: torch has removed this fuser too."""

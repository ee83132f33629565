"""The setting for the fast path of attention layers: nested tensors, and padding that becomes zero."""

from __future__ import annotations

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_enabled: bool = True


def get_fastpath_enabled() -> bool:
    """Whether the setting is on.

    >>> torch.backends.mha.get_fastpath_enabled()
    True
    """
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Sets the setting. Without it, attention layers refuse nested tensors, and an encoder keeps what it computes for padding.

    >>> torch.backends.mha.set_fastpath_enabled(True)
    """
    global _enabled
    _enabled = value


def __dir__() -> list[str]:
    return __all__

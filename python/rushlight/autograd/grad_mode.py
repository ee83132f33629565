"""The switches of recording under the name of their module in torch, and `set_multithreading_enabled`, which changes nothing:
backward runs on the thread that calls it."""

from __future__ import annotations

from threading import local

from rushlight._modes import _DecoratorContextManager as _DecoratorContextManager
from rushlight._modes import enable_grad, inference_mode, no_grad, set_grad_enabled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]


class _State(local):
    enabled: bool = True


_state = _State()


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` set on this thread.

    >>> torch.autograd.is_multithreading_enabled()
    True
    """
    return _state.enabled


class set_multithreading_enabled:
    """Accepted, from here on or for a ``with`` block: backward runs on the thread that calls it.

    >>> with torch.autograd.set_multithreading_enabled(False):
    ...     torch.autograd.is_multithreading_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        self.mode, self._before = mode, _state.enabled
        _state.enabled = mode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _state.enabled = self._before


def __dir__() -> list[str]:
    return __all__

"""`torch.autograd.grad_mode`: the switches for recording, and settings without an effect."""

from __future__ import annotations

from threading import local

from rushlight._compiled import compiled
from rushlight._modes import _DecoratorContextManager as _DecoratorContextManager
from rushlight._modes import enable_grad, inference_mode, no_grad, set_grad_enabled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


class _State(local):
    enabled: bool = True


_state = _State()


def is_multithreading_enabled() -> bool:
    """The value that was set with `set_multithreading_enabled` on this thread.

    >>> torch.autograd.is_multithreading_enabled()
    True
    """
    return _state.enabled


@compiled(name="set_multithreading_enabled", overridable=False)
def _set_multithreading(enabled: bool) -> None:
    _state.enabled = enabled


class set_multithreading_enabled:
    """Accepted, for a ``with`` block or permanently. It has no effect, because backward runs on the calling thread.

    >>> with torch.autograd.set_multithreading_enabled(False):
    ...     torch.autograd.is_multithreading_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        self.mode, self._before = mode, _state.enabled
        _set_multithreading(mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _state.enabled = self._before


@compiled(name="set_grad_layout_enforcement_enabled", overridable=False)
def _set_layout_enforcement(enabled: bool) -> None: ...


class enforce_grad_layout_policy:
    """Accepted, for a ``with`` block or permanently. It has no effect: an accumulated gradient keeps its own strides.

    >>> with torch.autograd.enforce_grad_layout_policy(False):
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(self, enable: bool = True) -> None:
        self.enable = enable
        _set_layout_enforcement(enable)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def __dir__() -> list[str]:
    return __all__

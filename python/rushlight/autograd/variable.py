"""`Variable`: the name of differentiable tensors before torch 0.4."""

from __future__ import annotations

from rushlight._C import Tensor, _queue_callback
from rushlight._loading import load
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


__all__ = ["Variable"]


class _Meta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class _ExecutionEngine:
    """A private name of torch, through which libraries have a function called at the end of a backward pass."""

    def queue_callback(self, callback: Callable[[], None]) -> None:
        _queue_callback(callback)


class Variable(metaclass=_Meta):
    """Returns the tensor itself, with `requires_grad` set.

    ``volatile`` has no effect, unless ``torch.utils.backcompat.volatile.enabled`` is set. In this case operations with
    the tensor are not recorded.

    Raises:
        TypeError: the argument is not a tensor.
        ValueError: ``volatile`` is used with ``requires_grad``.

    >>> torch.autograd.Variable(torch.ones(2), requires_grad=True).requires_grad
    True
    """

    _execution_engine = _ExecutionEngine()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = False, volatile: Any = None) -> Any:
        unrecorded = volatile is not None and load("rushlight.utils.backcompat").volatile.enabled
        if unrecorded:
            warn("volatile is deprecated. Use `with torch.no_grad():` instead.", DeprecationWarning)
        elif volatile is not None:
            warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")
        if volatile and requires_grad:
            raise ValueError("Variable can't be volatile and require_grad at the same time!")
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if unrecorded and volatile:
            return data.detach().as_subclass(load("rushlight.autograd._volatile").VolatileTensor)
        return data.detach().requires_grad_(requires_grad)


def __dir__() -> list[str]:
    return __all__

"""`torch._check` and similar functions: conditions that raise an error unless they hold."""

from __future__ import annotations

import rushlight as torch
from rushlight._overridable import call_override, overridden
from rushlight._set_module import set_module
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    _Message = Callable[[], Any] | None

_UNNAMED = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)


def _assert(condition: Any, message: Any) -> None:
    """Raises an AssertionError unless the condition is true. `torch.fx` records the call, which it cannot do for ``assert``.

    Args:
        condition: a bool, or a tensor of one element.
        message: the text of the error.

    >>> torch._assert(1 < 2, "one is not less than two")
    """
    if type(condition) is not torch.Tensor and overridden((condition,)):
        call_override(_assert, (condition, message), {})
        return
    assert condition, message


def _check_with(error_type: type[Exception], cond: bool, message: _Message = None) -> None:
    """Raises an error of the given class unless the condition is True.

    Args:
        error_type: the class of the error.
        cond: the condition.
        message: a function that returns the text of the error. It is only called for an error.

    Raises:
        TypeError: the condition is not a bool, or the message not a function.

    >>> torch._check_with(KeyError, 1 < 2, lambda: "one is less than two")
    """
    if not isinstance(cond, bool):
        if isinstance(cond, torch.Tensor):
            raise TypeError(
                "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to assert "
                "that all elements are true."
            )
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type(_UNNAMED)
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: bool, message: _Message = None) -> None:
    """Raises a RuntimeError unless the condition is True.

    >>> try:
    ...     torch._check(1 > 2, lambda: "one is not greater than two")
    ... except RuntimeError as error:
    ...     print(error)
    one is not greater than two
    """
    _check_with(RuntimeError, cond, message)


def _check_index(cond: bool, message: _Message = None) -> None:
    """Raises an IndexError unless the condition is True.

    >>> torch._check_index(0 < 3)
    """
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: _Message = None) -> None:
    """Raises a ValueError unless the condition is True.

    >>> torch._check_value(0 < 3)
    """
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: _Message = None) -> None:
    """Raises a TypeError unless the condition is True.

    >>> torch._check_type(isinstance(3, int))
    """
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: _Message = None) -> None:
    """Raises a NotImplementedError unless the condition is True.

    >>> torch._check_not_implemented(True)
    """
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type: type[Exception], cond: torch.Tensor, message: _Message = None) -> None:
    """Raises an error of the given class unless all elements of a bool tensor are True.

    Raises:
        TypeError: the condition is not a tensor of bools, or the message not a function.

    >>> torch._check_tensor_all_with(ValueError, torch.ones(2) > 0)
    """
    if not isinstance(cond, torch.Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not torch.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: torch.Tensor, message: _Message = None) -> None:
    """Raises a RuntimeError unless all elements of a bool tensor are True.

    >>> torch._check_tensor_all(torch.ones(2) > 0)
    """
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i: int, message: _Message = None, *, max: int | None = None) -> None:
    """Raises a RuntimeError for a negative number, or one above ``max``. Deprecated in favour of `torch._check`."""
    warn(
        "_check_is_size will be removed in a future PyTorch release along with guard_size_oblivious.     "
        "Use _check(i >= 0) instead.",
        FutureWarning,
    )
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


for _function in [value for name, value in globals().items() if name.startswith(("_assert", "_check"))]:
    set_module("rushlight", _function)

"""Modes that handle the operators of torch's registry, and questions about classes of tensors that wrap others."""

from __future__ import annotations

import rushlight as torch
from rushlight._override_order import enter_dispatch_mode, leave_dispatch_mode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "TorchDispatchMode",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing",
]


class TorchDispatchMode:
    """A context that intercepts the operators of torch's registry. Subclasses define
    ``__torch_dispatch__(self, func, types, args=(), kwargs=None)``, in which the mode is not active.

    It is called below autograd: the operator is recorded with what it returns, and calls inside it are not recorded. The
    operators that backward runs are seen too, under torch's names where torch has them. Sums in the ``.grad`` of leaves are not.

    >>> from rushlight.utils._python_dispatch import TorchDispatchMode
    >>> class Printed(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> x = torch.ones(2)
    >>> with Printed():
    ...     y = x + 1
    aten.add.Tensor
    """

    def __enter__(self) -> TorchDispatchMode:
        enter_dispatch_mode(self)
        return self

    def __exit__(self, *exception: object) -> None:
        leave_dispatch_mode()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} has no __torch_dispatch__(self, func, types, args=(), kwargs=None)"
        )

    def _take_whole(self, func: Any, args: Any, kwargs: Any) -> tuple[Any] | None:
        """The result of a public function, alone in a tuple, of a mode that takes it above autograd; None leaves it to the others."""
        return None


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether an object is a tensor of a class that can be taken apart and put together again.

    >>> from rushlight.utils._python_dispatch import is_traceable_wrapper_subclass
    >>> is_traceable_wrapper_subclass(torch.ones(1))
    False
    """
    return is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type[Any]) -> bool:
    """Whether a class derives from `Tensor` and has ``__tensor_flatten__`` and ``__tensor_unflatten__``.

    >>> from rushlight.utils._python_dispatch import is_traceable_wrapper_subclass_type
    >>> is_traceable_wrapper_subclass_type(torch.Tensor)
    False
    """
    return (
        issubclass(t, torch.Tensor)
        and t is not torch.Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What a ``__torch_dispatch__`` returns: the tensor that the operator has changed, if it changes one, else ``out``.

    A class that wraps other tensors computes with these, and returns a new wrapper. After ``x.add_(1)`` the program
    must get ``x`` itself. Views are returned as they are: a wrapper has no storage that its views could share.

    Args:
        func: the operator.
        args, kwargs: its arguments, as the program gave them.
        out: the result of the computation.

    >>> from rushlight.utils._python_dispatch import return_and_correct_aliasing
    >>> x = torch.ones(2)
    >>> return_and_correct_aliasing(torch.ops.aten.add_.Tensor, (x, 1), {}, torch.zeros(2)) is x
    True
    """
    if (target := (kwargs or {}).get("out")) is not None:
        return target
    name = func.overloadpacket.__name__
    changes = (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")
    return args[0] if changes and args and isinstance(args[0], torch.Tensor) else out


def __dir__() -> list[str]:
    return __all__

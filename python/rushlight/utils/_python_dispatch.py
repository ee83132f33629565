"""Questions about classes of tensors that wrap others. There is no `__torch_dispatch__`: classes use `__torch_function__`."""

from __future__ import annotations

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type"]


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


def __dir__() -> list[str]:
    return __all__

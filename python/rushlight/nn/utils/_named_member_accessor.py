"""Replaces the tensors of modules by others."""

from __future__ import annotations

from typing import Any

import rushlight as torch

__all__ = ["set_tensor", "swap_tensor"]

_MISSING: Any = object()


def set_tensor(module: torch.nn.Module, name: str, tensor: torch.Tensor) -> None:
    """Puts a tensor in place of a module's parameter or buffer of that name.

    >>> from rushlight.nn.utils._named_member_accessor import set_tensor
    >>> layer = torch.nn.Linear(1, 1)
    >>> set_tensor(layer, "bias", torch.zeros(1))
    >>> layer.bias
    tensor([0.])
    """
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_tensor(module: torch.nn.Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Puts a tensor in place of a module's parameter or buffer of that name, and returns the former one.

    Args:
        module: the module.
        name: the name, without a dot.
        tensor: the tensor.
        allow_missing: makes an attribute if the module has no such tensor.

    Raises:
        TypeError: an argument has a wrong type.
        KeyError: the name is empty or has a dot.
        AttributeError: the module has no such tensor.

    >>> from rushlight.nn.utils._named_member_accessor import swap_tensor
    >>> swap_tensor(torch.nn.Linear(1, 1), "bias", torch.zeros(1)).shape
    torch.Size([1])
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')
    kinds: Any = (module._parameters, module._buffers)
    for held in kinds:
        if name in held:
            before, held[name] = held[name], tensor
            return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if before is not _MISSING and before is not None and not isinstance(before, torch.Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    setattr(module, name, tensor)
    return None if before is _MISSING else before


def __dir__() -> list[str]:
    return __all__

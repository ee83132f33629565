"""The mask of a weight as a parametrization, and modules by their names."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils.parametrize import is_parametrized, type_before_parametrizations

__all__ = [
    "FakeSparsity",
    "fqn_to_module",
    "get_arg_info_from_tensor_fqn",
    "module_contains_param",
    "module_to_fqn",
    "swap_module",
]


def module_contains_param(module: nn.Module, parametrization: type[nn.Module]) -> bool:
    """Whether a tensor of a module itself has a parametrization of a class."""
    if not is_parametrized(module):
        return False
    return any(isinstance(one, parametrization) for chain in module.parametrizations.values() for one in chain)


def swap_module(mod: nn.Module, mapping: dict[type[nn.Module], type[nn.Module]]) -> nn.Module:
    """The module that the class for ``mod`` in a mapping makes by ``from_dense``, with its hooks and on its device; ``mod``
    if there is no such class.

    Raises:
        AssertionError: the module is on several devices.
    """
    target = mapping.get(type_before_parametrizations(mod))
    if target is None:
        return mod
    made = target.from_dense(mod)  # type: ignore[attr-defined] # only such classes are in a mapping
    for before in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(before)
    for after in mod._forward_hooks.values():
        made.register_forward_hook(after)
    devices = {tensor.device for tensors in (mod.parameters(), mod.buffers()) for tensor in tensors}
    if len(devices) > 1:
        raise AssertionError(
            f"swap_module only works with cpu or single-device CUDA modules, but got devices {devices}"
        )
    return made.to(*devices) if devices else made


def module_to_fqn(model: nn.Module, module: nn.Module, prefix: str = "") -> str | None:
    """The name of a module below a model, None if it is not there.

    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    >>> torch.ao.pruning.module_to_fqn(model, model[0])
    '0'
    """
    return next((prefix + name if name else "" for name, one in model.named_modules() if one is module), None)


def fqn_to_module(model: nn.Module | None, path: str) -> Any:
    """The module or tensor with a name below a model, None if there is none.

    >>> torch.ao.pruning.fqn_to_module(torch.nn.Sequential(torch.nn.Linear(1, 1)), "0.weight").shape
    torch.Size([1, 1])
    """
    found: Any = model
    for name in path.split(".") if path else ():
        found = getattr(found, name, None)
    return found


def get_arg_info_from_tensor_fqn(model: nn.Module, tensor_fqn: str) -> dict[str, Any]:
    """The module that has a tensor, and the names of both.

    >>> torch.ao.pruning.get_arg_info_from_tensor_fqn(torch.nn.Sequential(torch.nn.ReLU()), "0.weight")
    {'module_fqn': '0', 'module': ReLU(), 'tensor_name': 'weight', 'tensor_fqn': '0.weight'}
    """
    module_fqn, _, tensor_name = tensor_fqn.rpartition(".")
    return {
        "module_fqn": module_fqn,
        "module": fqn_to_module(model, module_fqn),
        "tensor_name": tensor_name,
        "tensor_fqn": tensor_fqn,
    }


class FakeSparsity(nn.Module):
    """A parametrization that multiplies a tensor by a mask. The mask is not part of the module's state.

    Args:
        mask: a tensor of the shape of the weight, which sparsifiers change in place.

    Raises:
        AssertionError: the tensor has another shape than the mask.

    >>> torch.ao.pruning.FakeSparsity(torch.tensor([1.0, 0.0]))(torch.tensor([3.0, 4.0]))
    tensor([3., 0.])
    """

    mask: torch.Tensor

    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.mask.shape != x.shape:
            raise AssertionError(f"mask shape ({self.mask.shape}) must match x shape ({x.shape})")
        return self.mask * x

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {}

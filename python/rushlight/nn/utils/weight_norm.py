"""Weight normalisation by a hook: a weight as a length and a direction."""

from __future__ import annotations

import rushlight as torch
from rushlight._warnings import warn

from ..parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from rushlight import Tensor

    from ..modules.module import Module

    M = TypeVar("M", bound=Module)

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def norm_except_dim(weight: Tensor, dim: int) -> Tensor:
    """The lengths over all dimensions but one, which stays; with -1 that over all."""
    if dim == -1:
        return torch.linalg.vector_norm(weight)
    return torch.linalg.vector_norm(
        weight, dim=[d for d in range(weight.dim()) if d != dim % weight.dim()], keepdim=True
    )


class WeightNorm:
    """A hook that computes a weight from ``{name}_g``, its lengths, and ``{name}_v``, its direction, before each call.

    >>> from rushlight.nn.utils.weight_norm import WeightNorm
    >>> linear = torch.nn.Linear(2, 2)
    >>> hook = WeightNorm.apply(linear, "weight", 0)
    >>> linear.weight_g.shape, torch.allclose(hook.compute_weight(linear), linear.weight)
    (torch.Size([2, 1]), True)
    """

    name: str
    dim: int

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight that length and direction make."""
        lengths, direction = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return direction * (lengths / norm_except_dim(direction, self.dim))

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Splits a weight and adds the hook; deprecated."""
        warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
        )
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        own = WeightNorm(name, dim)
        weight = getattr(module, name)
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, own.dim).data))
        module.register_parameter(name + "_v", Parameter(weight.data))
        setattr(module, name, own.compute_weight(module))
        module.register_forward_pre_hook(own)
        return own

    def remove(self, module: Module) -> None:
        """Makes one parameter of both again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Splits a weight into length and direction (Salimans and Kingma 2016), one length for each index of ``dim``.

    With ``dim=None`` there is one length for all. Deprecated; `parametrizations.weight_norm` does it without a hook.

    Raises:
        RuntimeError: it is split already.

    >>> layer = torch.nn.utils.weight_norm(torch.nn.Linear(20, 40))
    >>> layer.weight_g.shape, layer.weight_v.shape
    (torch.Size([40, 1]), torch.Size([40, 20]))
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Undoes `weight_norm`.

    Raises:
        ValueError: the weight is not split.

    >>> layer = torch.nn.utils.weight_norm(torch.nn.Linear(20, 40))
    >>> list(dict(torch.nn.utils.remove_weight_norm(layer).named_parameters()))
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")

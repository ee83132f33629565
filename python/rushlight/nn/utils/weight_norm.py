"""Weight normalisation by a hook, which computes a weight from a norm and a direction."""

from __future__ import annotations

import rushlight as torch
from rushlight._warnings import warn

from ..parameter import Parameter, is_lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from rushlight import Tensor

    from ..modules.module import Module

    M = TypeVar("M", bound=Module)

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def norm_except_dim(weight: Tensor, dim: int) -> Tensor:
    """The norms over all dimensions except one, or over all for -1."""
    if dim == -1:
        return torch.linalg.vector_norm(weight)
    weight.size(dim)  # refuses a dimension that does not exist
    return torch.linalg.vector_norm(
        weight, dim=[d for d in range(weight.dim()) if d != dim % weight.dim()], keepdim=True
    )


class WeightNorm:
    """A hook that computes a weight from the norm ``{name}_g`` and the direction ``{name}_v`` before each call.

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
        """The weight for the current norm and direction."""
        lengths, direction = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return torch._weight_norm(direction, lengths, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Splits a weight and registers the hook. Deprecated."""
        warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
        )
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        own = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying weight normalization"
            )
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, own.dim).data))
        module.register_parameter(name + "_v", Parameter(weight.data))
        setattr(module, name, own.compute_weight(module))
        module.register_forward_pre_hook(own)
        return own

    def remove(self, module: Module) -> None:
        """Joins norm and direction into one parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Splits a weight into norm and direction (Salimans and Kingma 2016), with one norm per index of ``dim``.

    With ``dim=None`` there is one norm. Deprecated: `parametrizations.weight_norm` does the same without a hook.

    Raises:
        RuntimeError: the weight is already split.

    >>> layer = torch.nn.utils.weight_norm(torch.nn.Linear(20, 40))
    >>> layer.weight_g.shape, layer.weight_v.shape
    (torch.Size([40, 1]), torch.Size([40, 20]))
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Removes `weight_norm`.

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

"""`fuse_modules`: neighbouring layers of a model become one layer, which is quantised as one."""

from __future__ import annotations

import copy
from operator import attrgetter
from typing import Any

from rushlight import nn

from .fuser_method_mappings import get_fuser_method

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]


def fuse_known_modules(mod_list: Sequence[Any], is_qat: bool, additional_fuser_method_mapping: Any = None) -> list[Any]:
    """The fused layer in place of the first of some layers, and an identity in place of each other one.

    The hooks that run before the first layer, and those behind the last one, are those of the fused layer.
    """
    fused = get_fuser_method(tuple(type(mod) for mod in mod_list), additional_fuser_method_mapping)(is_qat, *mod_list)
    for hooks, register in (
        (mod_list[0]._forward_pre_hooks, fused.register_forward_pre_hook),
        (mod_list[-1]._forward_hooks, fused.register_forward_hook),
    ):
        for key in list(hooks):
            register(hooks.pop(key))
    rest = [nn.Identity() for _ in mod_list[1:]]
    for identity in rest:
        identity.training = mod_list[0].training
    return [fused, *rest]


def _fuse(model: Any, names: Sequence[str], is_qat: bool, fuser: Callable[..., Any], additional: Any) -> None:
    fused = fuser([attrgetter(name)(model) for name in names], is_qat, additional)
    for name, layer in zip(names, fused):
        parent, _, own = name.rpartition(".")
        setattr(attrgetter(parent)(model) if parent else model, own, layer)


def _fuse_all(model: Any, names: Any, is_qat: bool, inplace: bool, fuser: Any, options: Any) -> Any:
    if not inplace:
        model = copy.deepcopy(model)
    additional = (options or {}).get("additional_fuser_method_mapping", {})
    for several in [names] if all(isinstance(name, str) for name in names) else names:
        _fuse(model, several, is_qat, fuser, additional)
    return model


def fuse_modules(
    model: Any,
    modules_to_fuse: Any,
    inplace: bool = False,
    fuser_func: Callable[..., Any] = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Any:
    """Fuses layers of a model in evaluation mode: a convolution or a linear layer, a normalisation and a ReLU.

    Args:
        model: the model.
        modules_to_fuse: the names of layers that follow each other, or lists of such names.
        inplace: changes the model itself, and not a copy.
        fuser_func: makes the new layers from the old ones.
        fuse_custom_config_dict: may have functions for other classes, in ``"additional_fuser_method_mapping"``.

    Raises:
        AssertionError: no function fuses layers of these classes, or they are in training mode.

    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()).eval()
    >>> torch.ao.quantization.fuse_modules(model, ["0", "1"])
    Sequential(
      (0): LinearReLU(
        (0): Linear(in_features=2, out_features=3, bias=True)
        (1): ReLU()
      )
      (1): Identity()
    )
    """
    return _fuse_all(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: Any,
    modules_to_fuse: Any,
    inplace: bool = False,
    fuser_func: Callable[..., Any] = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Any:
    """`fuse_modules` for training: a normalisation stays a layer of its own in the fused one.

    Args:
        model, modules_to_fuse, inplace, fuser_func, fuse_custom_config_dict: those of `fuse_modules`.

    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    >>> type(torch.ao.quantization.fuse_modules_qat(model, ["0", "1"])[0]).__name__
    'ConvBn2d'
    """
    return _fuse_all(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)


def __dir__() -> list[str]:
    return __all__

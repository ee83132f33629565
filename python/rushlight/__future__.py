"""`torch.__future__`: settings for how the conversion of a module (`Module.to` and the like) treats its parameters.

By default, a parameter stays the same object and gets other data.
"""

from __future__ import annotations

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Sets whether the conversion of a module gives it new parameters. References to the old ones keep them as they are.

    >>> torch.__future__.set_overwrite_module_params_on_conversion(True)
    >>> linear = torch.nn.Linear(2, 1)
    >>> weight = linear.weight
    >>> linear.double().weight is weight, weight.dtype
    (False, torch.float32)
    >>> torch.__future__.set_overwrite_module_params_on_conversion(False)
    """
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether the conversion of a module gives it new parameters.

    >>> torch.__future__.get_overwrite_module_params_on_conversion()
    False
    """
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Sets whether the conversion of a module swaps the contents of each parameter (`torch.utils.swap_tensors`).

    The parameter stays the same object and may change its class. This setting precedes the other one. A conversion
    raises a RuntimeError if a parameter has weak references.

    >>> torch.__future__.set_swap_module_params_on_conversion(True)
    >>> linear = torch.nn.Linear(2, 1)
    >>> weight = linear.weight
    >>> linear.double().weight is weight, weight.dtype
    (True, torch.float64)
    >>> torch.__future__.set_swap_module_params_on_conversion(False)
    """
    global _swap
    _swap = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether the conversion of a module swaps the contents of each parameter.

    >>> torch.__future__.get_swap_module_params_on_conversion()
    False
    """
    return _swap


def __dir__() -> list[str]:
    return __all__

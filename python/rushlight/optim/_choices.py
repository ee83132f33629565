"""The choice between torch's forms of an optimizer, for optimizers of libraries that ask for it."""

from __future__ import annotations

import functools

import rushlight as torch
from rushlight._engine_names import _get_privateuse1_backend_name
from rushlight.utils._foreach_utils import (
    _get_foreach_kernels_supported_devices,
    _get_fused_kernels_supported_devices,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from rushlight import Tensor

#: The classes of tensors that one call for all parameters takes.
_PLAIN = torch.Tensor, torch.nn.Parameter


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of a step: it records a graph only if the optimizer's option ``differentiable`` is True."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return step


def _default_to_fused_or_foreach(
    params: Iterable[Tensor | None], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Whether torch would take the fused form of an optimizer, and whether that with one call for all parameters.

    >>> from rushlight.optim.optimizer import _default_to_fused_or_foreach
    >>> _default_to_fused_or_foreach([torch.nn.Parameter(torch.ones(2))], False, use_fused=True)
    (True, False)
    """
    given = [param for param in params if param is not None]
    if differentiable:
        return False, False

    def all_on(devices: list[str]) -> bool:
        return all(type(param) in _PLAIN and param.device.type in devices for param in given)

    fused = use_fused and all_on(_get_fused_kernels_supported_devices()) and all(map(torch.is_floating_point, given))
    return fused, not fused and all_on(_get_foreach_kernels_supported_devices())


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """The types of devices on which torch's optimizers can be part of a graph."""
    devices = ["cuda", "xpu", "hpu", _get_privateuse1_backend_name()]
    return [*devices, "xla"] if supports_xla else devices

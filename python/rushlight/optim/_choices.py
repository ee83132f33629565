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


def _get_value(x: Any) -> Any:
    """The number in a tensor; other values as they are.

    >>> from rushlight.optim.optimizer import _get_value
    >>> _get_value(torch.tensor(3.0)), _get_value(2)
    (3.0, 2)
    """
    return x.item() if isinstance(x, torch.Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    """Its argument. While a program is compiled, torch stacks a list of tensors."""
    return x


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Replaces complex parameters in a list, and what belongs to them in other lists, by their views as real numbers.

    >>> from rushlight.optim.optimizer import _view_as_real
    >>> params, grads = [torch.ones(2, dtype=torch.complex64)], [torch.zeros(2, dtype=torch.complex64)]
    >>> _view_as_real(params, grads)
    >>> params[0].shape, grads[0].shape
    (torch.Size([2, 2]), torch.Size([2, 2]))
    """
    for at, param in enumerate(params):
        if param.is_complex():
            for one in (params, *state_and_grads):
                one[at] = torch.view_as_real(one[at])


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without dimensions; other values as they are."""
    return x.squeeze() if isinstance(x, torch.Tensor) and x.dim() != 0 else x


def __getattr__(name: str) -> Any:
    """Types of annotations in libraries, which are made when they are first asked for."""
    from collections.abc import Iterable
    from typing import Any

    if name == "ParamsT":
        return Iterable[torch.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, torch.Tensor]]
    if name == "StateDict":
        return dict[str, Any]
    raise AttributeError(f"module 'torch.optim._choices' has no attribute {name!r}")

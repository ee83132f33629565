"""Clipping of gradients, by their total norm or element by element."""

from __future__ import annotations

import math
from contextlib import nullcontext

import rushlight as torch
from rushlight._foreach import changing_captured
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _vector_norm(tensor: Tensor, order: float) -> Tensor:
    if order == 2:
        return (tensor * tensor.conj()).real.sum().sqrt() if tensor.is_complex() else (tensor * tensor).sum().sqrt()
    size = tensor.abs()
    if order == math.inf:
        return size.max()
    if order == -math.inf:
        return size.min()
    if order == 0:
        return (tensor != 0).sum().to(size.dtype)
    if order == 1:
        return size.sum()
    return (size**order).sum() ** (1.0 / order)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors together, as if they were one vector. Zero if there are none.

    Raises:
        RuntimeError: ``error_if_nonfinite`` is set and the norm is infinite or NaN.

    >>> get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    order = float(norm_type)
    if not tensors:
        return torch.tensor(0.0)
    with torch.no_grad():
        first = tensors[0].device
        norms = [_vector_norm(tensor, order) for tensor in tensors]
        total = _vector_norm(torch.stack([norm.to(first) for norm in norms]), order)
        if error_if_nonfinite and not math.isfinite(total.item()):
            raise RuntimeError(
                f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be "
                "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
                "`error_if_nonfinite=False`"
            )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Multiplies all gradients in place by ``max_norm / total_norm`` if that is less than one.

    >>> weight = torch.zeros(2, requires_grad=True)
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> clip_grads_with_norm_(weight, 1.0, torch.tensor(5.0))
    >>> weight.grad
    tensor([0.6000, 0.8000])
    """
    grads = _grads(parameters)
    limit = float(max_norm)
    if not grads:
        return
    with torch.no_grad():
        # A clamp instead of a comparison, because a comparison would wait for the device.
        factor = (limit / (total_norm + 1e-6)).clamp(max=1.0)
        if factor.dim() > 0:
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {factor.dim()} dimensions and {factor.numel()} elements."
            )
        with _changing_lists(grads, foreach, factor):
            for grad in grads:
                grad.mul_(factor.to(grad.device))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales all gradients in place so that their total norm is at most ``max_norm``. Returns the norm before scaling.

    Raises:
        RuntimeError: ``error_if_nonfinite`` is set and the norm is infinite or NaN.

    >>> weight = torch.zeros(2, requires_grad=True)
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> clip_grad_norm_([weight], 1.0)
    tensor(5.)
    """
    if isinstance(parameters, torch.Tensor):
        parameters = [parameters]
    else:
        from_generator = not hasattr(parameters, "__len__")
        parameters = list(parameters)
        if from_generator and not parameters:
            warn("`parameters` is an empty generator, no gradient clipping will occur.")
    total_norm = get_total_norm(_grads(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total_norm, foreach)
    return total_norm


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Deprecated name of `clip_grad_norm_`. It gives a warning.

    >>> import warnings
    >>> x = torch.zeros(2, requires_grad=True)
    >>> x.grad = torch.tensor([3.0, 4.0])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     torch.nn.utils.clip_grad_norm([x], 1.0)
    tensor(5.)
    """
    warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clamps every element of all gradients in place to ``[-clip_value, clip_value]``.

    >>> weight = torch.zeros(2, requires_grad=True)
    >>> weight.grad = torch.tensor([-3.0, 0.5])
    >>> clip_grad_value_(weight, 1.0)
    >>> weight.grad
    tensor([-1.0000,  0.5000])
    """
    limit = float(clip_value)
    grads = _grads(parameters)
    with torch.no_grad(), _changing_lists(grads, foreach):
        for grad in grads:
            grad.clamp_(min=-limit, max=limit)


def _changing_lists(grads: list[Tensor], foreach: bool | None, *operands: Any) -> Any:
    """Permits the function of a transform to change captured gradients where torch would call a function of lists."""
    listed = all(type(grad) is torch.Tensor for grad in grads) if foreach is None else foreach
    return changing_captured(*operands) if listed else nullcontext()


def _grads(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if isinstance(parameters, torch.Tensor):
        parameters = [parameters]
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def __dir__() -> list[str]:
    return __all__

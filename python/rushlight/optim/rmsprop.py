"""RMSprop."""

from __future__ import annotations

import rushlight as torch

from ._elementwise import ElementwiseOptimizer, shifted
from .optimizer import check_options, check_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["RMSprop"]


class RMSprop(ElementwiseOptimizer):
    """Steps along the gradient, divided by the root of its running mean square (Hinton's lecture 6 of 2012).

    Args:
        params: tensors or groups of them, as in `Optimizer`.
        lr: the learning rate, a number or a tensor of one element.
        alpha: how much of the running mean square is kept in a step.
        eps: added to the divisor.
        weight_decay: the factor of the parameter that is added to its gradient.
        momentum: how much of the earlier steps' direction is kept.
        centered: whether to divide by the standard deviation, without the mean.
        maximize: whether to go up.
        differentiable: whether gradients flow through the step.
        foreach: accepted; it changes nothing.
        capturable: for CUDA only.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is out of its range.
        RuntimeError: a gradient is sparse.

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = torch.optim.RMSprop([weight])
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.9
    """

    _zeros = ("square_avg",)
    _later = {**ElementwiseOptimizer._later, "momentum": 0, "centered": False}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_options(epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _begin(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        super()._begin(group, param, grad, own)
        if group["momentum"] > 0:
            own["momentum_buffer"] = torch.zeros_like(param, requires_grad=False)
        if group["centered"]:
            own["grad_avg"] = torch.zeros_like(param, requires_grad=False)

    def _rule(self, group: dict[str, Any], own: dict[str, Any]) -> tuple[str, list[str], list[float]]:
        name, state = "rmsprop", ["square_avg"]
        if group["centered"]:
            name, state = name + ", centred", [*state, "grad_avg"]
        if group["momentum"] > 0:
            name, state = name + ", momentum", [*state, "momentum_buffer"]
        alpha = group["alpha"]
        return name, state, [alpha, 1 - alpha, group["eps"], float(group["lr"]), group["momentum"]]

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        lr, alpha = float(group["lr"]), group["alpha"]
        square = own["square_avg"].mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = own["grad_avg"].lerp_(grad, 1 - alpha)
            square = square.addcmul(mean, mean, value=-1)
        divisor = shifted(square.sqrt(), group["eps"], group["differentiable"])
        if group["momentum"] > 0:
            buffer = own["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, divisor)
            param.add_(buffer, alpha=-lr)
        else:
            param.addcdiv_(grad, divisor, value=-lr)

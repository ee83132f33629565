"""RMSprop."""

from __future__ import annotations

import rushlight as torch

from ._elementwise import ElementwiseOptimizer, shifted
from ._functional import step_lists
from .optimizer import check_options, check_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(ElementwiseOptimizer):
    """Steps along the gradient, divided by its running root mean square (Hinton's lecture 6 of 2012).

    Args:
        params: tensors or parameter groups, as in `Optimizer`.
        lr: the learning rate, a number or a tensor with one element.
        alpha: the decay rate of the running mean square.
        eps: added to the denominator.
        weight_decay: the factor with which the parameter is added to its gradient.
        momentum: the decay rate of the step direction.
        centered: whether to divide by the standard deviation, which subtracts the mean.
        maximize: whether to maximise the objective.
        differentiable: whether gradients flow through the step.
        foreach: accepted; it has no effect.
        capturable: accepted; for CUDA graphs only.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is out of range.
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


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """One step of `RMSprop` for lists of parameters, gradients and states, which are changed in place.

    The options are those of the class. ``grad_avgs`` and ``momentum_buffer_list`` may be empty if they are not
    used. ``foreach``, ``capturable``, ``has_complex`` are accepted and have no effect.

    Raises:
        RuntimeError: the steps are not tensors.

    >>> from rushlight.optim.rmsprop import rmsprop
    >>> weight, grad = torch.ones(2), torch.ones(2)
    >>> states = [torch.zeros(2)], [], [], [torch.tensor(0.0)]
    >>> options = dict(lr=0.5, alpha=0.75, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False)
    >>> rmsprop([weight], [grad], *states, **options)
    >>> weight
    tensor([0., 0.])
    """
    group = {
        "maximize": maximize,
        "differentiable": differentiable,
        "lr": lr,
        "alpha": alpha,
        "eps": eps,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "centered": centered,
    }
    step_lists(
        RMSprop,
        group,
        params,
        grads,
        {
            "square_avg": square_avgs,
            "grad_avg": grad_avgs,
            "momentum_buffer": momentum_buffer_list,
            "step": state_steps,
        },
    )

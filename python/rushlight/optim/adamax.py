"""Adamax."""

from __future__ import annotations

import rushlight as torch

from ._elementwise import ElementwiseOptimizer
from .optimizer import check_betas, check_options, check_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["Adamax"]


class Adamax(ElementwiseOptimizer):
    """Adam with the largest gradient, decaying, in place of the root of the mean square (Kingma and Ba 2014).

    Args:
        params: tensors or groups of them, as in `Optimizer`.
        lr: the learning rate, a number or a tensor of one element.
        betas: how much of the running mean and of the largest gradient is kept in a step.
        eps: added to the gradient's size.
        weight_decay: the factor of the parameter that is added to its gradient.
        maximize: whether to go up.
        differentiable: whether gradients flow through the step.
        foreach: accepted; it changes nothing.
        capturable: for CUDA only.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is out of its range.
        RuntimeError: a gradient is sparse.

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = torch.optim.Adamax([weight])
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.998
    """

    _zeros = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_options(epsilon=eps)
        check_betas(betas)
        check_options(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _rule(self, group: dict[str, Any], own: dict[str, Any]) -> tuple[str, list[str], list[float]]:
        beta1, beta2 = group["betas"]
        rate = float(group["lr"]) / (1 - beta1 ** own["step"].item())
        return "adamax", ["exp_avg", "exp_inf"], [1 - beta1, beta2, group["eps"], rate]

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        average = own["exp_avg"].lerp_(grad, 1 - beta1)
        largest = own["exp_inf"]
        largest.copy_(torch.maximum(largest * beta2, grad.abs() + group["eps"]))
        rate = float(group["lr"]) / (1 - beta1 ** own["step"].item())
        param.addcdiv_(average, largest, value=-rate)

"""Adamax."""

from __future__ import annotations

import rushlight as torch

from ._elementwise import ElementwiseOptimizer
from ._functional import step_lists
from .optimizer import as_number, check_betas, check_options, check_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["Adamax", "adamax"]


class Adamax(ElementwiseOptimizer):
    """Adam with a decaying maximum of the gradient's magnitude in place of the root mean square (Kingma and Ba 2014).

    Args:
        params: tensors or parameter groups, as in `Optimizer`.
        lr: the learning rate, a number or a tensor with one element.
        betas: the decay rates of the running mean and of the maximum.
        eps: added to the magnitude of the gradient.
        weight_decay: the factor with which the parameter is added to its gradient.
        maximize: whether to maximise the objective.
        differentiable: whether gradients flow through the step.
        foreach: accepted; it has no effect.
        capturable: accepted; for CUDA graphs only.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: a gradient is sparse.

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = torch.optim.Adamax([weight])
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.998
    """

    _zeros = ("exp_avg", "exp_inf")
    _needed = "betas"

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
        numbers = [1 - beta1, beta2, group["eps"], as_number(rate, "addcdiv_(): argument 'value'")]
        return "adamax", ["exp_avg", "exp_inf"], numbers

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        average = own["exp_avg"].lerp_(grad, 1 - beta1)
        largest = own["exp_inf"]
        largest.copy_(torch.maximum(largest * beta2, grad.abs() + group["eps"]))
        rate = float(group["lr"]) / (1 - beta1 ** own["step"].item())
        param.addcdiv_(average, largest, value=-rate)


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
) -> None:
    """One step of `Adamax` for lists of parameters, gradients and states, which are changed in place.

    The options are those of the class. ``foreach``, ``capturable``, ``has_complex`` are accepted and have no
    effect.

    Raises:
        RuntimeError: the steps are not tensors.

    >>> from rushlight.optim.adamax import adamax
    >>> weight, grad = torch.ones(2), torch.ones(2)
    >>> states = [torch.zeros(2)], [torch.zeros(2)], [torch.tensor(0.0)]
    >>> options = dict(eps=1e-8, beta1=0.9, beta2=0.999, lr=0.5, weight_decay=0.0)
    >>> adamax([weight], [grad], *states, **options)
    >>> weight
    tensor([0.5000, 0.5000])
    """
    group = {
        "maximize": maximize,
        "differentiable": differentiable,
        "eps": eps,
        "lr": lr,
        "weight_decay": weight_decay,
        "betas": (beta1, beta2),
    }
    step_lists(Adamax, group, params, grads, {"exp_avg": exp_avgs, "exp_inf": exp_infs, "step": state_steps})

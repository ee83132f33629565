"""NAdam."""

from __future__ import annotations

from ._elementwise import ElementwiseOptimizer
from ._functional import step_lists
from .optimizer import as_number, check_betas, check_options, check_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["NAdam", "nadam"]


class NAdam(ElementwiseOptimizer):
    """Adam with Nesterov momentum (Dozat 2016).

    Args:
        params: tensors or parameter groups, as in `Optimizer`.
        lr: the learning rate, a number or a tensor with one element.
        betas: the decay rates of the running mean and the running mean square.
        eps: added to the denominator.
        weight_decay: the factor with which the parameter is added to its gradient; if ``decoupled_weight_decay``, the
            parameter shrinks by ``lr * weight_decay`` instead.
        momentum_decay: the rate at which the momentum approaches its final value.
        maximize: whether to maximise the objective.
        differentiable: whether gradients flow through the step.
        foreach: accepted; it has no effect.
        capturable: accepted; for CUDA graphs only.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: a gradient is sparse.

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = torch.optim.NAdam([weight])
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.9979
    """

    _ones = ("mu_product",)
    _zeros = ("exp_avg", "exp_avg_sq")
    _later = {**ElementwiseOptimizer._later, "decoupled_weight_decay": False}
    _captured = "params, mu_products and state_steps"
    _needed = "betas"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_options(epsilon=eps)
        check_betas(betas)
        check_options(weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _count(self, group: dict[str, Any], own: dict[str, Any]) -> None:
        super()._count(group, own)
        own["mu_product"] *= self._shares(group, own)[0]

    def _shares(self, group: dict[str, Any], own: dict[str, Any]) -> list[float]:
        """The momentum coefficients of this step and of the next."""
        step, beta1 = own["step"].item(), group["betas"][0]
        return [beta1 * (1.0 - 0.5 * 0.96 ** (at * group["momentum_decay"])) for at in (step, step + 1)]

    def _rates(self, group: dict[str, Any], own: dict[str, Any]) -> list[Any]:
        """The factors of the gradient and of the average in this step: numbers, or tensors through which gradients
        flow to the product of the coefficients."""
        lr, (now, ahead), product = float(group["lr"]), self._shares(group, own), own["mu_product"]
        product = product if group["differentiable"] else product.item()
        return [lr * (1.0 - now) / (1.0 - product), lr * ahead / (1.0 - product * ahead)]

    def _rule(self, group: dict[str, Any], own: dict[str, Any]) -> tuple[str, list[str], list[float]]:
        beta1, beta2 = group["betas"]
        missing = 1 - beta2 ** own["step"].item()
        share = as_number(1 - beta2, "addcmul_(): argument 'value'")
        numbers = [1 - beta1, beta2, share, missing, group["eps"], *self._rates(group, own)]
        return "nadam", ["exp_avg", "exp_avg_sq"], numbers

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        of_gradient, of_average = self._rates(group, own)
        average = own["exp_avg"].lerp_(grad, 1 - beta1)
        square = own["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        divisor = square.div(1 - beta2 ** own["step"].item()).sqrt().add(group["eps"])
        if group["differentiable"]:
            # Cloned, because the next step changes the average in place and backward of this one needs it.
            param.addcdiv_(grad * -of_gradient, divisor).addcdiv_(average.clone() * -of_average, divisor)
            return
        param.addcdiv_(grad, divisor, value=-of_gradient)
        param.addcdiv_(average, divisor, value=-of_average)


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """One step of `NAdam` for lists of parameters, gradients and states, which are changed in place.

    The options are those of the class. ``foreach``, ``capturable``, ``has_complex`` are accepted and have no
    effect.

    Raises:
        RuntimeError: the steps are not tensors.

    >>> from rushlight.optim.nadam import nadam
    >>> weight, grad = torch.ones(2), torch.ones(2)
    >>> states = [torch.zeros(2)], [torch.zeros(2)], [torch.tensor(1.0)], [torch.tensor(0.0)]
    >>> options = dict(beta1=0.9, beta2=0.999, lr=0.5, weight_decay=0.0, momentum_decay=0.004, eps=1e-8)
    >>> nadam([weight], [grad], *states, **options)
    >>> weight
    tensor([0.4718, 0.4718])
    """
    group = {
        "decoupled_weight_decay": decoupled_weight_decay,
        "differentiable": differentiable,
        "maximize": maximize,
        "lr": lr,
        "weight_decay": weight_decay,
        "momentum_decay": momentum_decay,
        "eps": eps,
        "betas": (beta1, beta2),
    }
    step_lists(
        NAdam,
        group,
        params,
        grads,
        {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "mu_product": mu_products, "step": state_steps},
    )

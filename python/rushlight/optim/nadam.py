"""NAdam."""

from __future__ import annotations

from ._elementwise import ElementwiseOptimizer
from .optimizer import check_betas, check_options, check_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["NAdam"]


class NAdam(ElementwiseOptimizer):
    """Adam that looks ahead along its direction, after Nesterov (Dozat 2016).

    Args:
        params: tensors or groups of them, as in `Optimizer`.
        lr: the learning rate, a number or a tensor of one element.
        betas: how much of the running mean and of the running mean square is kept in a step.
        eps: added to the divisor.
        weight_decay: the factor of the parameter that is added to its gradient; if ``decoupled_weight_decay``, the
            parameter shrinks by ``lr * weight_decay`` instead.
        momentum_decay: how fast the momentum approaches its final value.
        maximize: whether to go up.
        differentiable: whether gradients flow through the step.
        foreach: accepted; it changes nothing.
        capturable: for CUDA only.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is out of its range.
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
        """The average's share in this step, and in the next."""
        step, beta1 = own["step"].item(), group["betas"][0]
        return [beta1 * (1.0 - 0.5 * 0.96 ** (at * group["momentum_decay"])) for at in (step, step + 1)]

    def _rates(self, group: dict[str, Any], own: dict[str, Any]) -> list[float]:
        """How far this step goes along the gradient, and along the average."""
        lr, (now, ahead), product = float(group["lr"]), self._shares(group, own), own["mu_product"].item()
        return [lr * (1.0 - now) / (1.0 - product), lr * ahead / (1.0 - product * ahead)]

    def _rule(self, group: dict[str, Any], own: dict[str, Any]) -> tuple[str, list[str], list[float]]:
        beta1, beta2 = group["betas"]
        missing = 1 - beta2 ** own["step"].item()
        numbers = [1 - beta1, beta2, 1 - beta2, missing, group["eps"], *self._rates(group, own)]
        return "nadam", ["exp_avg", "exp_avg_sq"], numbers

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        of_gradient, of_average = self._rates(group, own)
        average = own["exp_avg"].lerp_(grad, 1 - beta1)
        square = own["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        divisor = square.div(1 - beta2 ** own["step"].item()).sqrt().add(group["eps"])
        param.addcdiv_(grad, divisor, value=-of_gradient)
        if group["differentiable"]:
            # The next step changes the average in place, and backward of this one needs it.
            average = average.clone()
        param.addcdiv_(average, divisor, value=-of_average)

"""RAdam."""

from __future__ import annotations

from ._elementwise import ElementwiseOptimizer, shifted
from .optimizer import check_betas, check_options, check_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["RAdam"]


class RAdam(ElementwiseOptimizer):
    """Adam that trusts its mean square only after some steps (Liu et al. 2019).

    Args:
        params: tensors or groups of them, as in `Optimizer`.
        lr: the learning rate, a number or a tensor of one element.
        betas: how much of the running mean and of the running mean square is kept in a step.
        eps: added to the divisor.
        weight_decay: the factor of the parameter that is added to its gradient; if ``decoupled_weight_decay``, the
            parameter shrinks by ``lr * weight_decay`` instead.
        maximize: whether to go up.
        differentiable: whether gradients flow through the step.
        foreach: accepted; it changes nothing.
        capturable: for CUDA only.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is out of its range.
        RuntimeError: a gradient is sparse.

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = torch.optim.RAdam([weight])
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.997
    """

    _zeros = ("exp_avg", "exp_avg_sq")
    _later = {**ElementwiseOptimizer._later, "decoupled_weight_decay": False}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
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
        check_options(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _numbers(self, group: dict[str, Any], own: dict[str, Any]) -> tuple[float, float]:
        """How far this step goes along the average, and what the mean square's root divides: nothing while it stands for too
        few steps.
        """
        (beta1, beta2), step = group["betas"], own["step"].item()
        missing = 1 - beta2**step
        # How many steps the mean square stands for: in the limit, and now.
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * beta2**step / missing
        rate = float(group["lr"]) / (1 - beta1**step)
        if length <= 5.0:
            return rate, 0.0
        trust = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
        return rate, (missing * trust) ** 0.5

    def _rule(self, group: dict[str, Any], own: dict[str, Any]) -> tuple[str, list[str], list[float]]:
        beta1, beta2 = group["betas"]
        rate, factor = self._numbers(group, own)
        return "radam", ["exp_avg", "exp_avg_sq"], [1 - beta1, beta2, 1 - beta2, rate, group["eps"], factor]

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        rate, factor = self._numbers(group, own)
        average = own["exp_avg"].lerp_(grad, 1 - beta1)
        square = own["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        update = average * rate
        if factor != 0:
            update = update * (factor / shifted(square.sqrt(), group["eps"], group["differentiable"]))
        param.sub_(update)

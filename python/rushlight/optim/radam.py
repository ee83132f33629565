"""RAdam."""

from __future__ import annotations

from ._elementwise import ElementwiseOptimizer, shifted
from ._functional import step_lists
from .optimizer import as_number, check_betas, check_options, check_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["RAdam", "radam"]


class RAdam(ElementwiseOptimizer):
    """Adam that ignores the mean square in the first steps, in which its variance is large (Liu et al. 2019).

    Args:
        params: tensors or parameter groups, as in `Optimizer`.
        lr: the learning rate, a number or a tensor with one element.
        betas: the decay rates of the running mean and the running mean square.
        eps: added to the denominator.
        weight_decay: the factor with which the parameter is added to its gradient; if ``decoupled_weight_decay``, the
            parameter shrinks by ``lr * weight_decay`` instead.
        maximize: whether to maximise the objective.
        differentiable: whether gradients flow through the step.
        foreach: accepted; it has no effect.
        capturable: accepted; for CUDA graphs only.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is out of range.
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
    _needed = "betas"

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
        """The factor of the average, and the number that is divided by the root mean square: 0 in the first steps."""
        (beta1, beta2), step = group["betas"], own["step"].item()
        missing = 1 - beta2**step
        # The effective number of steps in the mean square: in the limit, and now.
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
        share = as_number(1 - beta2, "addcmul_(): argument 'value'")
        return "radam", ["exp_avg", "exp_avg_sq"], [1 - beta1, beta2, share, rate, group["eps"], factor]

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        rate, factor = self._numbers(group, own)
        average = own["exp_avg"].lerp_(grad, 1 - beta1)
        square = own["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        update = average * rate
        if factor != 0:
            update = update * (factor / shifted(square.sqrt(), group["eps"], group["differentiable"]))
        param.sub_(update)


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    eps: float,
) -> None:
    """One step of `RAdam` for lists of parameters, gradients and states, which are changed in place.

    The options are those of the class. ``foreach``, ``capturable``, ``has_complex`` are accepted and have no
    effect.

    Raises:
        RuntimeError: the steps are not tensors.

    >>> from rushlight.optim.radam import radam
    >>> weight, grad = torch.ones(2), torch.ones(2)
    >>> states = [torch.zeros(2)], [torch.zeros(2)], [torch.tensor(0.0)]
    >>> options = dict(beta1=0.9, beta2=0.999, lr=0.5, weight_decay=0.0, eps=1e-8)
    >>> radam([weight], [grad], *states, **options)
    >>> weight
    tensor([0.5000, 0.5000])
    """
    group = {
        "decoupled_weight_decay": decoupled_weight_decay,
        "differentiable": differentiable,
        "maximize": maximize,
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "betas": (beta1, beta2),
    }
    step_lists(RAdam, group, params, grads, {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "step": state_steps})

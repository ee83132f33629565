"""Adadelta."""

from __future__ import annotations

from ._elementwise import ElementwiseOptimizer
from ._functional import step_lists
from .optimizer import check_options, check_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["Adadelta", "adadelta"]


class Adadelta(ElementwiseOptimizer):
    """Steps whose size adapts to the sizes of earlier steps (Zeiler 2012).

    The gradient is divided by its running root mean square and multiplied by that of the earlier steps.

    Args:
        params: tensors or parameter groups, as in `Optimizer`.
        lr: the factor of the step, a number or a tensor with one element.
        rho: the decay rate of the running means.
        eps: added to both mean squares.
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
    >>> optimizer = torch.optim.Adadelta([weight])
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.9968
    """

    _zeros = ("square_avg", "acc_delta")
    _devices = ElementwiseOptimizer._devices[:-1]

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_options(epsilon=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _rule(self, group: dict[str, Any], own: dict[str, Any]) -> tuple[str, list[str], list[float]]:
        rho = group["rho"]
        return "adadelta", ["square_avg", "acc_delta"], [rho, 1 - rho, group["eps"], float(group["lr"])]

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        rho, eps = group["rho"], group["eps"]
        square = own["square_avg"].mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = own["acc_delta"].add(eps).sqrt() / square.add(eps).sqrt() * grad
        own["acc_delta"].mul_(rho).addcmul_(delta, delta, value=1 - rho)
        param.add_(delta, alpha=-float(group["lr"]))


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """One step of `Adadelta` for lists of parameters, gradients and states, which are changed in place.

    The options are those of the class. ``capturable``, ``foreach``, ``has_complex`` are accepted and have no
    effect.

    Raises:
        RuntimeError: the steps are not tensors.

    >>> from rushlight.optim.adadelta import adadelta
    >>> weight, grad = torch.ones(2), torch.ones(2)
    >>> states = [torch.zeros(2)], [torch.zeros(2)], [torch.tensor(0.0)]
    >>> options = dict(lr=0.5, rho=0.9, eps=1e-8, weight_decay=0.0, maximize=False)
    >>> adadelta([weight], [grad], *states, **options)
    >>> weight
    tensor([0.9998, 0.9998])
    """
    group = {
        "differentiable": differentiable,
        "lr": lr,
        "rho": rho,
        "eps": eps,
        "weight_decay": weight_decay,
        "maximize": maximize,
    }
    step_lists(
        Adadelta, group, params, grads, {"square_avg": square_avgs, "acc_delta": acc_deltas, "step": state_steps}
    )

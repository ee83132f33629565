"""Adadelta."""

from __future__ import annotations

from ._elementwise import ElementwiseOptimizer
from .optimizer import check_options, check_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["Adadelta"]


class Adadelta(ElementwiseOptimizer):
    """Steps whose size follows from those before (Zeiler 2012).

    The gradient is divided by the root of its running mean square and multiplied by that of the earlier steps.

    Args:
        params: tensors or groups of them, as in `Optimizer`.
        lr: the factor of the step, a number or a tensor of one element.
        rho: how much of the running means is kept in a step.
        eps: added to both mean squares.
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

"""Averaged stochastic gradient descent."""

from __future__ import annotations

import rushlight as torch

from ._elementwise import ElementwiseOptimizer
from .optimizer import check_options, check_rate, step_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["ASGD"]


class ASGD(ElementwiseOptimizer):
    """Stochastic gradient descent that keeps the mean of the parameters (Polyak and Juditsky 1992), in the state ``"ax"``.

    Args:
        params: tensors or groups of them, as in `Optimizer`.
        lr: the learning rate at the start, a number or a tensor of one element.
        lambd: how much the parameters shrink, and how fast the rate falls.
        alpha: the power with which it falls.
        t0: the step from which on the mean is taken.
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
    >>> optimizer = torch.optim.ASGD([weight])
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.97
    """

    _captured = "params, mus, etas, and state_steps"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_options(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for own in self.state.values():
            for name in ("eta", "mu"):
                if name in own and not isinstance(own[name], torch.Tensor):
                    own[name] = torch.tensor(own[name], dtype=step_dtype())

    def _begin(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        super()._begin(group, param, grad, own)
        own["eta"] = torch.tensor(float(group["lr"]), dtype=step_dtype())
        own["mu"] = torch.tensor(1.0, dtype=step_dtype())
        own["ax"] = torch.zeros_like(param, requires_grad=False)

    def _step(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        super()._step(group, param, grad, own)
        lr, step = float(group["lr"]), own["step"].item()
        # By way of the default dtype, whose rounding torch's numbers have.
        own["eta"].copy_(torch.tensor(lr / (1 + group["lambd"] * lr * step) ** group["alpha"]))
        own["mu"].copy_(torch.tensor(1 / max(1, step - group["t0"])))

    def _rule(self, group: dict[str, Any], own: dict[str, Any]) -> tuple[str, list[str], list[float]]:
        rate = own["eta"].item()
        return "asgd", ["ax"], [1 - group["lambd"] * rate, rate, own["mu"].item()]

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        mean, rate, share = own["ax"], own["eta"].item(), own["mu"].item()
        param.mul_(1 - group["lambd"] * rate).add_(grad, alpha=-rate)
        if share == 1:
            mean.copy_(param)
        else:
            mean.add_((param - mean) * own["mu"])

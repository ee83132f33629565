"""Averaged stochastic gradient descent."""

from __future__ import annotations

import rushlight as torch

from ._elementwise import ElementwiseOptimizer
from ._functional import step_lists
from .optimizer import check_options, check_rate, step_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["ASGD", "asgd"]


class ASGD(ElementwiseOptimizer):
    """Stochastic gradient descent with a running mean of the parameters (Polyak and Juditsky 1992), in state ``"ax"``.

    Args:
        params: tensors or parameter groups, as in `Optimizer`.
        lr: the initial learning rate, a number or a tensor with one element.
        lambd: the weight decay, which also determines how fast the rate decreases.
        alpha: the power with which the rate decreases.
        t0: the step at which averaging begins.
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
    >>> optimizer = torch.optim.ASGD([weight])
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.97
    """

    _captured = "params, mus, etas, and state_steps"
    _needed = "lambd"

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
        # Converted through the default dtype, because torch's values have its rounding.
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


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """One step of `ASGD` for lists of parameters, gradients and states, which are changed in place.

    The options are those of the class. ``foreach``, ``capturable``, ``has_complex`` are accepted and have no
    effect.

    Raises:
        RuntimeError: the steps are not tensors.

    >>> from rushlight.optim.asgd import asgd
    >>> weight, grad = torch.ones(2), torch.ones(2)
    >>> states = [torch.zeros(2)], [torch.tensor(1.0)], [torch.tensor(0.5)], [torch.tensor(0.0)]
    >>> options = dict(lambd=0.0, lr=0.5, t0=1e6, alpha=0.75, weight_decay=0.0)
    >>> asgd([weight], [grad], *states, **options)
    >>> weight
    tensor([0.5000, 0.5000])
    """
    group = {
        "maximize": maximize,
        "differentiable": differentiable,
        "lambd": lambd,
        "lr": lr,
        "t0": t0,
        "alpha": alpha,
        "weight_decay": weight_decay,
    }
    step_lists(ASGD, group, params, grads, {"ax": axs, "mu": mus, "eta": etas, "step": state_steps})

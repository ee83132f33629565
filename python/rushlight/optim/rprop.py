"""Resilient backpropagation."""

from __future__ import annotations

import rushlight as torch

from ._elementwise import ElementwiseOptimizer
from ._functional import step_lists
from .optimizer import check_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["Rprop", "rprop"]


class Rprop(ElementwiseOptimizer):
    """Uses only the sign of the gradient. Steps grow while it is constant and shrink when it changes (Riedmiller 1993).

    Args:
        params: tensors or parameter groups, as in `Optimizer`.
        lr: the size of the first step, a number or a tensor with one element.
        etas: the factors of the step size when the sign changes, and when it does not.
        step_sizes: the smallest and the largest size.
        maximize: whether to maximise the objective.
        differentiable: whether gradients flow through the step.
        foreach: accepted; it has no effect.
        capturable: accepted; for CUDA graphs only.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: a gradient is sparse.

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = torch.optim.Rprop([weight])
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.99
    """

    _zeros = ("prev",)
    _needed = "etas"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _begin(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        super()._begin(group, param, grad, own)
        lr = float(group["lr"])
        own["step_size"] = torch.full_like(grad, complex(lr, lr) if param.is_complex() else lr, requires_grad=False)

    def _rule(self, group: dict[str, Any], own: dict[str, Any]) -> tuple[str, list[str], list[float]]:
        (shrink, grow), (smallest, largest) = group["etas"], group["step_sizes"]
        return "rprop", ["prev", "step_size"], [shrink, grow, smallest, largest]

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        (shrink, grow), size, previous = group["etas"], own["step_size"], own["prev"]
        agreement = grad * previous.clone()
        size.mul_(torch.ones_like(size).masked_fill_(agreement > 0, grow).masked_fill_(agreement < 0, shrink))
        size.clamp_(*group["step_sizes"])
        # If the sign has changed, this step does nothing, and the next one may go either way.
        grad = grad.masked_fill(agreement < 0, 0)
        param.addcmul_(grad.sign(), size.clone(), value=-1)
        previous.copy_(grad)


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step of `Rprop` for lists of parameters, gradients and states, which are changed in place.

    The options are those of the class. ``foreach``, ``capturable``, ``has_complex`` are accepted and have no
    effect.

    Raises:
        RuntimeError: the steps are not tensors.

    >>> from rushlight.optim.rprop import rprop
    >>> weight, grad = torch.ones(2), torch.ones(2)
    >>> states = [torch.zeros(2)], [torch.full((2,), 0.5)], [torch.tensor(0.0)]
    >>> options = dict(step_size_min=1e-6, step_size_max=50.0, etaminus=0.5, etaplus=1.2)
    >>> rprop([weight], [grad], *states, **options)
    >>> weight
    tensor([0.5000, 0.5000])
    """
    group = {
        "maximize": maximize,
        "differentiable": differentiable,
        "etas": (etaminus, etaplus),
        "step_sizes": (step_size_min, step_size_max),
    }
    step_lists(Rprop, group, params, grads, {"prev": prevs, "step_size": step_sizes, "step": state_steps})

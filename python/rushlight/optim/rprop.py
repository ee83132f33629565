"""Resilient backpropagation."""

from __future__ import annotations

import rushlight as torch

from ._elementwise import ElementwiseOptimizer
from .optimizer import check_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["Rprop"]


class Rprop(ElementwiseOptimizer):
    """Steps by the gradient's sign alone, longer while it stays and shorter when it changes (Riedmiller and Braun 1993).

    Args:
        params: tensors or groups of them, as in `Optimizer`.
        lr: the first step's size, a number or a tensor of one element.
        etas: what the size is multiplied by when the sign changes, and when it stays.
        step_sizes: the smallest and the largest size.
        maximize: whether to go up.
        differentiable: whether gradients flow through the step.
        foreach: accepted; it changes nothing.
        capturable: for CUDA only.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is out of its range.
        RuntimeError: a gradient is sparse.

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = torch.optim.Rprop([weight])
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.99
    """

    _zeros = ("prev",)

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
        return "rprop", ["prev", "step_size"], [*group["etas"], *group["step_sizes"]]

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        (shrink, grow), size, previous = group["etas"], own["step_size"], own["prev"]
        agreement = grad * previous.clone()
        size.mul_(torch.ones_like(size).masked_fill_(agreement > 0, grow).masked_fill_(agreement < 0, shrink))
        size.clamp_(*group["step_sizes"])
        # Where the sign has changed nothing happens in this step, and any sign is as good in the next.
        grad = grad.masked_fill(agreement < 0, 0)
        param.addcmul_(grad.sign(), size.clone(), value=-1)
        previous.copy_(grad)

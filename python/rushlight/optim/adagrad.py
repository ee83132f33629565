"""Adagrad."""

from __future__ import annotations

import rushlight as torch

from ._elementwise import ElementwiseOptimizer, shifted
from .optimizer import (
    any_sparse,
    at_places,
    check_foreach,
    check_fused,
    check_fused_params,
    check_options,
    check_rate,
    step_dtype,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["Adagrad"]


class Adagrad(ElementwiseOptimizer):
    """Steps along the gradient, divided by the root of the sum of all its squares (Duchi et al. 2011).

    Args:
        params: tensors or groups of them, as in `Optimizer`.
        lr: the learning rate, a number or a tensor of one element.
        lr_decay: how the rate falls: ``lr / (1 + (step - 1) * lr_decay)``.
        weight_decay: the factor of the parameter that is added to its gradient.
        initial_accumulator_value: what the sums begin with.
        eps: added to the divisor.
        fused: accepted; it refuses what torch's fused step refuses, and counts steps in its dtype.
        maximize: whether to go up.
        differentiable: whether gradients flow through the step.
        foreach: accepted; it changes nothing.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is out of its range.
        RuntimeError: a gradient is sparse beside `weight_decay` or `fused`.

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = torch.optim.Adagrad([weight])
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.99
    """

    _later = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        check_options(
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            epsilon=eps,
        )
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)
        # The state is there from the start, so that processes can share it.
        for group in self.param_groups:
            for param in group["params"]:
                self._begin(group, param, param, self.state[param])

    def share_memory(self) -> None:
        """Moves the sums to memory that other processes can map."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def _check(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        check_fused_params(group, params)
        if any_sparse(grads):
            if group["fused"]:
                raise RuntimeError("`fused` does not support sparse grad or complex param")
            if group["weight_decay"] != 0:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        check_foreach(group, params)

    def _begin(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        own["step"] = torch.tensor(0.0, dtype=step_dtype(group["fused"]))
        start = self.defaults["initial_accumulator_value"]
        start = complex(start, start) if param.is_complex() else start
        own["sum"] = torch.full_like(param, start, requires_grad=False)

    def _rule(self, group: dict[str, Any], own: dict[str, Any]) -> tuple[str, list[str], list[float]]:
        return "adagrad", ["sum"], [_rate(group, own), group["eps"]]

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        rate = _rate(group, own)
        if grad.is_sparse:
            grad = grad.coalesce()
            slope = grad._values()
            own["sum"].add_(at_places(grad, slope.pow(2)))
            root = own["sum"].sparse_mask(grad)._values().sqrt().add_(group["eps"])
            param.add_(at_places(grad, slope / root), alpha=-rate)
            return
        root = own["sum"].addcmul_(grad, grad, value=1).sqrt()
        param.addcdiv_(grad, shifted(root, group["eps"], group["differentiable"]), value=-rate)


def _rate(group: dict[str, Any], own: dict[str, Any]) -> float:
    """The rate of this step."""
    return float(group["lr"]) / (1 + (own["step"].item() - 1) * group["lr_decay"])

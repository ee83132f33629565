"""Adagrad."""

from __future__ import annotations

import rushlight as torch

from ._elementwise import ElementwiseOptimizer, shifted
from ._functional import skipped, step_lists, unscaled
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

__all__ = ["Adagrad", "adagrad"]


class Adagrad(ElementwiseOptimizer):
    """Steps along the gradient, divided by the root of the sum of all its squares (Duchi et al. 2011).

    Args:
        params: tensors or parameter groups, as in `Optimizer`.
        lr: the learning rate, a number or a tensor with one element.
        lr_decay: the decay of the rate: ``lr / (1 + (step - 1) * lr_decay)``.
        weight_decay: the factor with which the parameter is added to its gradient.
        initial_accumulator_value: the initial value of the sums.
        eps: added to the denominator.
        fused: accepted; it raises the errors of torch's fused step, and counts steps in its dtype.
        maximize: whether to maximise the objective.
        differentiable: whether gradients flow through the step.
        foreach: accepted; it has no effect.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: a gradient is sparse and `weight_decay` or `fused` is set.

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
        # The state is created here, so that processes can share it.
        for group in self.param_groups:
            for param in group["params"]:
                self._begin(group, param, param, self.state[param])

    def share_memory(self) -> None:
        """Moves the sums into shared memory."""
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


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `Adagrad` for lists of parameters, gradients and states, which are changed in place.

    The options are those of the class. ``has_sparse_grad``, ``foreach``, ``has_complex`` are accepted and have no
    effect. ``grad_scale`` and ``found_inf`` are for fused steps.

    Raises:
        RuntimeError: the steps are not tensors.
        AssertionError: ``grad_scale`` or ``found_inf`` is given without ``fused``.

    >>> from rushlight.optim.adagrad import adagrad
    >>> weight, grad = torch.ones(2), torch.ones(2)
    >>> states = [torch.zeros(2)], [torch.tensor(0.0)]
    >>> options = dict(lr=0.5, weight_decay=0.0, lr_decay=0.0, eps=1e-8, maximize=False)
    >>> adagrad([weight], [grad], *states, **options)
    >>> weight
    tensor([0.5000, 0.5000])
    """
    if skipped(fused, grad_scale, found_inf):
        return
    grads = unscaled(grads, grad_scale)
    group = {
        "fused": fused,
        "differentiable": differentiable,
        "lr": lr,
        "weight_decay": weight_decay,
        "lr_decay": lr_decay,
        "eps": eps,
        "maximize": maximize,
    }
    step_lists(Adagrad, group, params, grads, {"sum": state_sums, "step": state_steps})

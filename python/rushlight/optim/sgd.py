"""Stochastic gradient descent."""

from __future__ import annotations

import rushlight as torch
from rushlight import _C

from ._functional import skipped, step_lists, unscaled
from .optimizer import (
    Optimizer,
    any_handled,
    any_sparse,
    as_number,
    check_fused,
    check_fused_params,
    check_one_element,
    loss_of,
    of_each_device,
    with_gradients,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["SGD", "sgd"]


class SGD(Optimizer):
    """Stochastic gradient descent, ``param -= lr * gradient``, optionally with momentum.

    Args:
        params: tensors or parameter groups, as in `Optimizer`.
        lr: the learning rate, a number or a tensor with one element.
        momentum: the decay rate of the direction: ``direction = momentum * direction + gradient``.
        dampening: the share of the gradient that is not added to the direction.
        weight_decay: the factor with which the parameter is added to its gradient.
        nesterov: whether to use Nesterov momentum.
        maximize: whether to maximise the objective.
        differentiable: whether gradients flow through the step.
        foreach, fused: accepted; unless ``differentiable``, the dense tensors of a group are updated in one call (those
            without a direction yet in another). ``fused`` raises the errors of torch's fused step.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is negative, or ``nesterov`` is set without momentum or with dampening.

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = torch.optim.SGD([weight], lr=0.5)
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> weight.item()
    -0.5
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_one_element(lr)
        # These comparisons accept NaN, unlike those of the other optimizers.
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._complete(nesterov=False, maximize=False, foreach=None, differentiable=False, fused=False)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Performs one step. Returns the loss of the closure."""
        loss = loss_of(closure)
        for group in self.param_groups:
            params, grads = with_gradients(group, "weight_decay")
            if not params:
                continue
            check_fused_params(group, params)
            sparse = any_sparse(grads)
            if sparse and group["fused"]:
                raise RuntimeError("`_fused_sgd` does not support sparse gradients")
            if group["differentiable"] or sparse or any_handled(params + grads):
                self._step_by_operators(group, params, grads)
            else:
                self._step_fused(group, params, grads)
        return loss

    @classmethod
    def _step_states(
        cls, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], owns: list[dict[str, Any]]
    ) -> None:
        """Steps parameters whose states are given instead of those of an optimizer."""
        optimizer = cls.__new__(cls)
        optimizer.state = dict(zip(params, owns))  # type: ignore[assignment] # complete, so that no default is needed
        step = (
            optimizer._step_by_operators if any_sparse(grads) or any_handled(params + grads) else optimizer._step_fused
        )
        step(group, params, grads)

    def _step_fused(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        for part in of_each_device(params, grads):
            self._step_on_device(group, *part)

    def _step_on_device(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        if group["momentum"] == 0:
            _fused(group, params, grads, [], False)
            return
        # Parameters in their first step are separate: the operator sets their buffers to the gradient.
        parts: dict[bool, tuple[list[Tensor], list[Tensor], list[Tensor]]] = {True: ([], [], []), False: ([], [], [])}
        for param, grad in zip(params, grads):
            own = self.state[param]
            first = own.get("momentum_buffer") is None
            if first:
                own["momentum_buffer"] = torch.empty_like(param, requires_grad=False)
            own_params, own_grads, own_buffers = parts[first]
            own_params.append(param)
            own_grads.append(grad)
            own_buffers.append(own["momentum_buffer"])
        for first, part in parts.items():
            if part[0]:
                _fused(group, *part, first)

    def _step_by_operators(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """The step with operators, for sparse gradients and for gradients through the step."""
        lr, momentum, decay = group["lr"], group["momentum"], group["weight_decay"]
        with torch.set_grad_enabled(group["differentiable"]):
            for param, grad in zip(params, grads):
                if group["maximize"]:
                    grad = -grad
                if decay != 0:
                    grad = grad + param * decay
                if momentum != 0:
                    buffer = self.state[param].get("momentum_buffer")
                    if buffer is None:
                        # As in torch, no gradient flows through the initial direction.
                        buffer = grad.detach().clone()
                    else:
                        # A new tensor, because backward needs the old value.
                        buffer = buffer * momentum + grad * (1 - group["dampening"])
                    self.state[param]["momentum_buffer"] = buffer
                    grad = grad + buffer * momentum if group["nesterov"] else buffer
                param.add_(grad * -lr)


def _fused(
    group: dict[str, Any], params: list[Tensor], grads: list[Tensor], buffers: list[Tensor], first: bool
) -> None:
    _C._fused_sgd(
        params,
        grads,
        buffers,
        float(group["lr"]),
        float(group["momentum"]),
        # A first step has no direction to add to.
        0.0 if first or not group["momentum"] else as_number(group["dampening"], "add_(): argument 'alpha'"),
        as_number(group["weight_decay"], "add(): argument 'alpha'") if group["weight_decay"] != 0 else 0.0,
        bool(group["nesterov"]),
        bool(group["maximize"]),
        first,
    )


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of `SGD` for lists of parameters, gradients and states, which are changed in place.

    The options are those of the class. The entries of ``momentum_buffer_list`` are None before the first step, and
    are replaced. ``has_sparse_grad``, ``foreach`` are accepted and have no effect. ``grad_scale`` and ``found_inf``
    are for fused steps.

    Raises:
        AssertionError: ``grad_scale`` or ``found_inf`` is given without ``fused``.

    >>> from rushlight.optim.sgd import sgd
    >>> weight, grad = torch.ones(2), torch.ones(2)
    >>> states = [None],
    >>> options = dict(weight_decay=0.0, momentum=0.0, lr=0.5, dampening=0.0, nesterov=False, maximize=False)
    >>> sgd([weight], [grad], *states, **options)
    >>> weight
    tensor([0.5000, 0.5000])
    """
    if skipped(fused, grad_scale, found_inf):
        return
    d_p_list = unscaled(d_p_list, grad_scale)
    group = {
        "fused": fused,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "lr": lr,
        "dampening": dampening,
        "nesterov": nesterov,
        "maximize": maximize,
        "differentiable": False,
    }
    step_lists(SGD, group, params, d_p_list, {"momentum_buffer": momentum_buffer_list})

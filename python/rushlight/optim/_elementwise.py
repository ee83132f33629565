"""The base of optimizers that step each parameter separately: with a fused kernel (`_rule`), or with operators
(`_update`) if gradients flow through the step, the gradient is sparse, or the parameter is on a device."""

from __future__ import annotations

from typing import Any, ClassVar

import rushlight as torch
from rushlight import _C

from .optimizer import (
    Optimizer,
    any_handled,
    any_sparse,
    as_number,
    check_foreach,
    loss_of,
    step_dtype,
    tensor_steps,
    with_gradients,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight import Tensor

__all__ = ["ElementwiseOptimizer"]


class ElementwiseOptimizer(Optimizer):
    """The base of elementwise optimizers. A subclass defines the initial state and one step of a parameter.

    Both use real numbers: complex tensors are viewed as pairs.
    """

    # Names of the state's numbers that start at one, of its tensors that start at zero, and the options that
    # checkpoints of older versions do not have.
    _ones: ClassVar[tuple[str, ...]] = ()
    _zeros: ClassVar[tuple[str, ...]] = ()
    _later: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }
    # The option whose lack a step reports.
    _needed: ClassVar[str] = "lr"
    # The objects that must be on a supported device with `capturable`, as named in the message.
    _captured: ClassVar[str] = "params and state_steps"
    _devices: ClassVar[list[str]] = ["cuda", "xpu", "hpu", "privateuseone", "xla"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._complete(**self._later)
        tensor_steps(self)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Performs one step. Returns the loss of the closure."""
        loss = loss_of(closure)
        with torch.set_grad_enabled(self.defaults.get("differentiable", False)):
            for group in self.param_groups:
                params, grads = with_gradients(group, self._needed)
                self._check(group, params, grads)
                for param, grad in zip(params, grads):
                    own = self.state[param]
                    if not own:
                        self._begin(group, param, grad, own)
                    self._count(group, own)
                    self._step(group, param, grad, own)
        return loss

    @classmethod
    def _step_states(
        cls, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], owns: list[dict[str, Any]]
    ) -> None:
        """Steps parameters whose states are given instead of those of an optimizer."""
        optimizer = cls.__new__(cls)
        for param, grad, own in zip(params, grads, owns):
            optimizer._count(group, own)
            optimizer._step(group, param, grad, own)

    def _check(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        if any_sparse(grads):
            raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
        check_foreach(group, params)
        if group.get("capturable") and any(param.device.type == "cpu" for param in params):
            raise AssertionError(f"If capturable=True, {self._captured} must be on supported devices: {self._devices}.")

    def _begin(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        """Initialises the state of a parameter before its first step."""
        own["step"] = torch.tensor(0.0, dtype=step_dtype())
        for name in self._ones:
            own[name] = torch.tensor(1.0, dtype=step_dtype())
        for name in self._zeros:
            own[name] = torch.zeros_like(param, requires_grad=False)

    def _count(self, group: dict[str, Any], own: dict[str, Any]) -> None:
        """Updates the numbers in a parameter's state before a step."""
        own["step"] += 1

    def _step(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        if param.is_complex():
            param, grad = torch.view_as_real(param), torch.view_as_real(grad)
            own = {key: torch.view_as_real(part) if part.is_complex() else part for key, part in own.items()}
        decay, sign, factor = group.get("weight_decay", 0), -1.0 if group["maximize"] else 1.0, 1.0
        if group.get("decoupled_weight_decay"):
            decay, factor = 0.0, 1 - float(group["lr"]) * float(decay)
        decay = as_number(decay, "add(): argument 'alpha'") if decay != 0 else 0.0
        composed = (
            group.get("differentiable") or grad.is_sparse or param.device.type != "cpu" or any_handled([param, grad])
        )
        rule = None if composed else self._rule(group, own)
        if rule is not None:
            name, state, numbers = rule
            tensors = [param, grad, *(own[part] for part in state)]
            try:
                _C._fused_step(tensors, name, [sign, decay, factor, *numbers])
            except TypeError:  # options that are tensors of one element
                _C._fused_step(tensors, name, [sign, decay, factor, *map(float, numbers)])
            return
        if sign < 0:
            grad = -grad
        if factor != 1:
            param.mul_(factor)
        if decay != 0:
            grad = grad.add(param, alpha=decay)
        self._update(group, param, grad, own)

    def _rule(self, group: dict[str, Any], own: dict[str, Any]) -> tuple[str, list[str], list[float]] | None:
        """The fused form of `_update`: the name of a rule, the tensors of the state that it changes, and its numbers.
        None if there is no such rule.
        """
        return None

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        """Updates a parameter and its state in place. Gradients may flow through it. The gradient already includes
        weight decay and the sign for `maximize`.
        """
        raise NotImplementedError


def shifted(tensor: Tensor, eps: float, differentiable: bool) -> Tensor:
    """Adds a small number to a temporary tensor, in place unless gradients flow."""
    return tensor.add(eps) if differentiable else tensor.add_(eps)

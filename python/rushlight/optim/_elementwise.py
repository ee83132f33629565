"""What the optimizers share that step one parameter after another: by one call that takes one pass over memory (`_rule`),
or by a formula over operators (`_update`) where gradients flow through the step or the gradient is sparse."""

from __future__ import annotations

import rushlight as torch
from rushlight import _C

from .optimizer import Optimizer, any_sparse, check_foreach, loss_of, step_dtype, tensor_steps, with_gradients

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    from rushlight import Tensor

__all__ = ["ElementwiseOptimizer"]


class ElementwiseOptimizer(Optimizer):
    """An optimizer that says how a parameter's state begins and how one step changes parameter and state.

    Both work on real numbers: complex tensors are seen as pairs of them.
    """

    # The numbers of the state that start as one, the tensors that start as zeros, and the options that files of older
    # versions lack.
    _ones: ClassVar[tuple[str, ...]] = ()
    _zeros: ClassVar[tuple[str, ...]] = ()
    _later: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }
    # What must be on a device for its work to be captured, as the message names it.
    _captured: ClassVar[str] = "params and state_steps"
    _devices: ClassVar[list[str]] = ["cuda", "xpu", "hpu", "privateuseone", "xla"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._complete(**self._later)
        tensor_steps(self)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Changes the parameters once; returns the closure's loss."""
        loss = loss_of(closure)
        with torch.set_grad_enabled(self.defaults.get("differentiable", False)):
            for group in self.param_groups:
                params, grads = with_gradients(group)
                self._check(group, params, grads)
                for param, grad in zip(params, grads):
                    own = self.state[param]
                    if not own:
                        self._begin(group, param, grad, own)
                    self._count(group, own)
                    self._step(group, param, grad, own)
        return loss

    def _check(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        if any_sparse(grads):
            raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
        check_foreach(group, params)
        if group.get("capturable") and any(param.device.type == "cpu" for param in params):
            raise AssertionError(f"If capturable=True, {self._captured} must be on supported devices: {self._devices}.")

    def _begin(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        """Fills a parameter's state before its first step."""
        own["step"] = torch.tensor(0.0, dtype=step_dtype())
        for name in self._ones:
            own[name] = torch.tensor(1.0, dtype=step_dtype())
        for name in self._zeros:
            own[name] = torch.zeros_like(param, requires_grad=False)

    def _count(self, group: dict[str, Any], own: dict[str, Any]) -> None:
        """Changes the numbers of a parameter's state before a step."""
        own["step"] += 1

    def _step(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        if param.is_complex():
            param, grad = torch.view_as_real(param), torch.view_as_real(grad)
            own = {key: torch.view_as_real(part) if part.is_complex() else part for key, part in own.items()}
        decay, sign, factor = float(group.get("weight_decay", 0)), -1.0 if group["maximize"] else 1.0, 1.0
        if group.get("decoupled_weight_decay"):
            decay, factor = 0.0, 1 - float(group["lr"]) * decay
        rule = None if group.get("differentiable") or grad.is_sparse else self._rule(group, own)
        if rule is not None:
            name, state, numbers = rule
            _C._fused_step([param, grad, *(own[part] for part in state)], name, [sign, decay, factor, *numbers])
            return
        if sign < 0:
            grad = -grad
        if factor != 1:
            param.mul_(factor)
        if decay != 0:
            grad = grad.add(param, alpha=decay)
        self._update(group, param, grad, own)

    def _rule(self, group: dict[str, Any], own: dict[str, Any]) -> tuple[str, list[str], list[float]] | None:
        """`_update` as the name of a rule that takes one pass over memory, the parts of the state that it changes, and its
        numbers; nothing if there is no such rule.
        """
        return None

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        """Changes a parameter and its state in place, through which gradients may flow; this step's gradient has its sign and
        the decay already.
        """
        raise NotImplementedError


def shifted(tensor: Tensor, eps: float, differentiable: bool) -> Tensor:
    """The tensor, whose values nobody else needs, plus a small number: in place unless gradients flow."""
    return tensor.add(eps) if differentiable else tensor.add_(eps)

"""Adam."""

from __future__ import annotations

import rushlight as torch
from rushlight import _C

from ._functional import skipped, step_lists, unscaled
from .optimizer import (
    Optimizer,
    any_handled,
    any_sparse,
    as_number,
    check_betas,
    check_foreach,
    check_fused,
    check_fused_params,
    check_options,
    check_rate,
    loss_of,
    of_each_device,
    step_dtype,
    tensor_steps,
    with_gradients,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["Adam", "adam"]


class Adam(Optimizer):
    """Adam (Kingma and Ba 2014): steps along the mean of the gradients, divided by their root mean square.

    Args:
        params: tensors or parameter groups, as in `Optimizer`.
        lr: the learning rate, a number or a tensor with one element.
        betas: the decay rates of the running mean and the running mean square.
        eps: added to the denominator.
        weight_decay: the factor with which the parameter is added to its gradient; if ``decoupled_weight_decay``, the
            parameter shrinks by ``lr * weight_decay`` instead.
        amsgrad: whether to divide by the largest mean square so far.
        maximize: whether to maximise the objective.
        differentiable: whether gradients flow through the step.
        foreach, fused: accepted; unless ``differentiable``, all tensors of a group are updated in one call. ``fused``
            raises the errors of torch's fused step.
        capturable: accepted; for CUDA graphs only.

    Any shapes; floating point and complex dtypes.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: a gradient is sparse.

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = torch.optim.Adam([weight], lr=0.25)
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.75
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_rate(lr, foreach, capturable)
        check_options(epsilon=eps)
        check_betas(betas)
        check_options(weight_decay=weight_decay)
        _check_kind_of_betas(betas, foreach, capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._complete(
            amsgrad=False,
            maximize=False,
            foreach=None,
            capturable=False,
            differentiable=False,
            fused=None,
            decoupled_weight_decay=False,
        )
        tensor_steps(self)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Performs one step. Returns the loss of the closure."""
        loss = loss_of(closure)
        for group in self.param_groups:
            params, grads = with_gradients(group, "betas")
            if not params:
                continue
            check_fused_params(group, params)
            if any_sparse(grads):
                raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")
            check_foreach(group, params)
            if group["capturable"] and not group["fused"] and any(param.device.type == "cpu" for param in params):
                raise AssertionError(
                    "If capturable=True, params and state_steps must be on supported devices: "
                    "['cuda', 'xpu', 'hpu', 'privateuseone', 'xla']."
                )
            if group["differentiable"]:
                with torch.set_grad_enabled(group["differentiable"]):
                    self._step_by_operators(group, params, grads)
            elif any_handled(params + grads):
                with torch.no_grad():
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
        by_operators = group["differentiable"] or any_handled(params + grads)
        step = optimizer._step_by_operators if by_operators else optimizer._step_fused
        step(group, params, grads)

    def _state_of(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter, initialised with zeros before its first step."""
        own = self.state[param]
        if not own:
            on_device = group["capturable"] or group["fused"]
            own["step"] = torch.zeros((), dtype=step_dtype(group["fused"]), device=param.device if on_device else "cpu")
            names = ["exp_avg", "exp_avg_sq"]
            if group["amsgrad"]:
                names.append("max_exp_avg_sq")
            for name in names:
                own[name] = torch.zeros_like(param, requires_grad=False)
        return own

    def _step_fused(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        for part in of_each_device(params, grads):
            self._step_on_device(group, *part)

    def _step_on_device(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        state = self.state
        amsgrad = bool(group["amsgrad"])
        averages = []
        squares = []
        largest = []
        steps = []
        for param in params:
            own = state[param] or self._state_of(param, group)
            averages.append(own["exp_avg"])
            squares.append(own["exp_avg_sq"])
            steps.append(own["step"])
            if amsgrad:
                largest.append(own["max_exp_avg_sq"])
        beta1, beta2 = group["betas"]
        decoupled, decay = bool(group["decoupled_weight_decay"]), group["weight_decay"]
        _C._fused_adam(
            params,
            grads,
            averages,
            squares,
            largest,
            steps,
            float(group["lr"]),
            float(beta1),
            float(beta2),
            float(group["eps"]),
            float(decay) if decoupled else as_number(decay, "add(): argument 'alpha'"),
            amsgrad,
            bool(group["maximize"]),
            decoupled,
        )

    def _step_by_operators(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """The step with operators, so that gradients flow through it.

        The averages become new tensors, because backward needs the old values.
        """
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        for param, grad in zip(params, grads):
            own = self._state_of(param, group)
            own["step"] = own["step"] + 1
            # Computed with tensors and in their precision, as in torch if gradients flow.
            missing1, missing2 = 1 - beta1 ** own["step"], 1 - beta2 ** own["step"]
            if group["maximize"]:
                grad = -grad
            if decay != 0:
                if group["decoupled_weight_decay"]:
                    param.mul_(1 - lr * decay)
                else:
                    grad = grad + param * decay
            is_complex = param.is_complex()
            target = torch.view_as_real(param) if is_complex else param

            def real(tensor: Tensor, is_complex: bool = is_complex) -> Tensor:
                return torch.view_as_real(tensor) if is_complex else tensor

            grad = real(grad)
            average = real(own["exp_avg"]) * beta1 + grad * (1 - beta1)
            square = real(own["exp_avg_sq"]) * beta2 + grad * grad * (1 - beta2)
            divisor = square
            if group["amsgrad"]:
                divisor = torch.maximum(real(own["max_exp_avg_sq"]), square)
                own["max_exp_avg_sq"] = torch.view_as_complex(divisor) if is_complex else divisor
            own["exp_avg"] = torch.view_as_complex(average) if is_complex else average
            own["exp_avg_sq"] = torch.view_as_complex(square) if is_complex else square
            denominator = divisor.sqrt() / missing2.sqrt() + group["eps"]
            target.add_(average / denominator * (-lr / missing1))


def _check_kind_of_betas(betas: tuple[Any, Any], foreach: bool | None, capturable: bool) -> None:
    if all(isinstance(beta, float) for beta in betas):
        return
    if not all(isinstance(beta, torch.Tensor) for beta in betas):
        raise ValueError("betas must be either both floats or both Tensors")
    for place, beta in enumerate(betas):
        if foreach and not capturable:
            raise ValueError(f"betas[{place}] as a Tensor is not supported for capturable=False and foreach=True")
        if beta.numel() != 1:
            raise ValueError(f"Tensor betas[{place}] must be 1-element")


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `Adam` for lists of parameters, gradients and states, which are changed in place.

    The options are those of the class. ``max_exp_avg_sqs`` may be empty without ``amsgrad``. ``foreach``,
    ``capturable``, ``has_complex`` are accepted and have no effect. ``grad_scale`` and ``found_inf`` are for fused
    steps.

    Raises:
        RuntimeError: the steps are not tensors.
        AssertionError: ``grad_scale`` or ``found_inf`` is given without ``fused``.

    >>> from rushlight.optim.adam import adam
    >>> weight, grad = torch.ones(2), torch.ones(2)
    >>> states = [torch.zeros(2)], [torch.zeros(2)], [], [torch.tensor(0.0)]
    >>> options = dict(amsgrad=False, beta1=0.9, beta2=0.999, lr=0.5, weight_decay=0.0, eps=1e-8, maximize=False)
    >>> adam([weight], [grad], *states, **options)
    >>> weight
    tensor([0.5000, 0.5000])
    """
    if skipped(fused, grad_scale, found_inf):
        return
    grads = unscaled(grads, grad_scale)
    group = {
        "differentiable": differentiable,
        "fused": fused,
        "decoupled_weight_decay": decoupled_weight_decay,
        "amsgrad": amsgrad,
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "maximize": maximize,
        "betas": (beta1, beta2),
    }
    step_lists(
        Adam,
        group,
        params,
        grads,
        {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "max_exp_avg_sq": max_exp_avg_sqs, "step": state_steps},
    )

"""Muon."""

from __future__ import annotations

import math

import rushlight as torch

from .optimizer import Optimizer, any_sparse, loss_of, with_gradients

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["Muon"]


class Muon(Optimizer):
    """Steps along the orthogonal matrix that is nearest to the averaged gradient (Jordan 2024), for matrices.

    Args:
        params: matrices or parameter groups, as in `Optimizer`.
        lr: the learning rate, a number or a tensor with one element.
        weight_decay: the parameter shrinks by ``lr * weight_decay``.
        momentum: the decay rate of the running mean of gradients.
        nesterov: whether to use Nesterov momentum.
        ns_coefficients, ns_steps: the polynomial of the Newton-Schulz iteration, and the number of iterations.
        eps: the smallest norm to divide by.
        adjust_lr_fn: how the shape of a matrix changes the rate: ``"original"`` (the default) by the ratio of height to
            width, ``"match_rms_adamw"`` so that steps have the size of AdamW's.

    Raises:
        ValueError: an option is out of its range, or a parameter is not a matrix.
        RuntimeError: a gradient is sparse or a parameter complex.

    >>> weight = torch.eye(2).requires_grad_()
    >>> optimizer = torch.optim.Muon([weight], lr=0.5)
    >>> (weight * torch.tensor([[3.0, 0.0], [0.0, 3.0]])).sum().backward()
    >>> optimizer.step()
    >>> round(weight[0, 1].item(), 4)
    0.0
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if not 0.0 <= value:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                if param.dim() != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {param.size()}"
                    )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Performs one step. Returns the loss of the closure."""
        loss = loss_of(closure)
        with torch.no_grad():
            for group in self.param_groups:
                params, grads = with_gradients(group)
                if any(param.is_complex() for param in params):
                    raise RuntimeError("Muon does not support complex parameters")
                if any_sparse(grads):
                    raise RuntimeError("Muon does not support sparse gradients")
                for param, grad in zip(params, grads):
                    self._update(group, param, grad)
        return loss

    def _update(self, group: dict[str, Any], param: Tensor, grad: Tensor) -> None:
        lr, momentum, own = float(group["lr"]), group["momentum"], self.state[param]
        if "momentum_buffer" not in own:
            own["momentum_buffer"] = torch.zeros_like(grad, requires_grad=False)
        mean = own["momentum_buffer"].lerp_(grad, 1 - momentum)
        update = grad.lerp(mean, momentum) if group["nesterov"] else mean
        update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        height, width = param.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            adjusted = 0.2 * math.sqrt(max(height, width)) * lr
        else:
            adjusted = math.sqrt(max(1, height / width)) * lr
        param.mul_(1 - lr * group["weight_decay"]).add_(update, alpha=-adjusted)


def _orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Approximates the nearest orthogonal matrix in bfloat16, with matrix products only (Newton-Schulz)."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    result = matrix.bfloat16()
    result = result.T if tall else result
    result = result / result.norm().clamp(min=eps)
    for _ in range(steps):
        gram = result @ result.T
        gram = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        result = torch.addmm(result, gram, result, beta=a)
    return result.T if tall else result

"""Muon."""

from __future__ import annotations

import math

import rushlight as torch

from .optimizer import Optimizer, any_sparse, check_one_element, loss_of, with_gradients

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
        check_one_element(lr)
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
                params, grads = with_gradients(group, "lr")
                if any(param.is_complex() for param in params):
                    raise RuntimeError("Muon does not support complex parameters")
                if any_sparse(grads):
                    raise RuntimeError("Muon does not support sparse gradients")
                means = [self._mean(param, grad) for param, grad in zip(params, grads)]
                options = {name: group[name] for name in _OPTIONS}
                muon(params, grads, means, has_complex=False, **options)
        return loss

    def _mean(self, param: Tensor, grad: Tensor) -> Tensor:
        own = self.state[param]
        if "momentum_buffer" not in own:
            own["momentum_buffer"] = torch.zeros_like(grad, requires_grad=False)
        return own["momentum_buffer"]


_OPTIONS = (
    "lr",
    "weight_decay",
    "momentum",
    "nesterov",
    "ns_coefficients",
    "ns_steps",
    "eps",
    "adjust_lr_fn",
)


def muon(
    params: list[Tensor],
    grads: list[Tensor],
    muon_momentum_bufs: list[Tensor],
    *,
    foreach: bool | None = None,
    lr: float | Tensor,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> None:
    """One step of `Muon` for lists of matrices, gradients and running means, which are changed in place.

    The options are those of the class. ``foreach=True`` is not available, as in torch.

    Raises:
        RuntimeError: ``foreach`` is true.
        ValueError: parameters are complex.

    >>> from rushlight.optim._muon import muon
    >>> weight, grad, mean = torch.eye(2), torch.eye(2), torch.zeros(2, 2)
    >>> iteration = dict(ns_coefficients=(2.0, -1.5, 0.5), ns_steps=5, eps=1e-7)
    >>> options = dict(lr=0.5, weight_decay=0.0, momentum=0.5, nesterov=False, adjust_lr_fn=None)
    >>> muon([weight], [grad], [mean], **iteration, **options, has_complex=False)
    >>> mean
    tensor([[0.5000, 0.0000],
            [0.0000, 0.5000]])
    """
    if foreach:
        raise RuntimeError("Foreach is not supported for Muon yet")
    if has_complex:
        raise ValueError("Complex parameters are not supported")
    rate = float(lr)
    for param, grad, mean in zip(params, grads, muon_momentum_bufs):
        if grad.ndim != 2:
            raise ValueError("Param gradient must be a 2D matrix")
        mean.lerp_(grad, 1 - momentum)
        update = _orthogonal(grad.lerp(mean, momentum) if nesterov else mean, ns_coefficients, ns_steps, eps)
        height, width = param.shape
        if adjust_lr_fn == "match_rms_adamw":
            adjusted = 0.2 * math.sqrt(max(height, width)) * rate
        else:
            adjusted = math.sqrt(max(1, height / width)) * rate
        param.mul_(1 - rate * weight_decay).add_(update, alpha=-adjusted)


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

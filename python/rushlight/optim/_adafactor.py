"""Adafactor."""

from __future__ import annotations

import rushlight as torch

from ._elementwise import ElementwiseOptimizer
from .optimizer import step_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["Adafactor"]


class Adafactor(ElementwiseOptimizer):
    """Adam without averages, whose mean squares of a matrix are kept as a row and a column (Shazeer and Stern 2018).

    Args:
        params: tensors or groups of them, as in `Optimizer`.
        lr: the largest size of a step relative to the parameter's; a number or a tensor of one element.
        beta2_decay: the power of the step with which a new square enters the mean.
        eps: the smallest root of a mean square, the dtype's own by default, and the smallest size of a parameter.
        d: how large the mean of an update may be.
        weight_decay: the parameter shrinks by ``lr * weight_decay``.
        maximize: whether to go up.
        foreach: accepted; it changes nothing.

    Any shapes; floating point dtypes.

    Raises:
        ValueError: an option is out of its range.
        RuntimeError: a gradient is sparse or a parameter complex.

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = torch.optim.Adafactor([weight])
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.99
    """

    _later = {"foreach": None}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= lr:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not 0.0 >= beta2_decay:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not 0.0 <= eps[0]:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not 0.0 <= eps[1]:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not 1.0 <= d:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _check(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        if any(param.is_complex() for param in params):
            raise RuntimeError("Adafactor does not support complex parameters")
        super()._check(group, params, grads)

    def _begin(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        own["step"] = torch.tensor(0.0, dtype=step_dtype())
        if grad.dim() > 1:
            own["row_var"] = grad.new_zeros((*grad.shape[:-1], 1))
            own["col_var"] = grad.new_zeros((*grad.shape[:-2], 1, grad.shape[-1]))
        else:
            own["variance"] = torch.zeros_like(grad, requires_grad=False)

    def _step(self, group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
        lr, (eps, smallest) = float(group["lr"]), group["eps"]
        eps = torch.finfo(param.dtype).eps if eps is None else eps
        if group["maximize"]:
            grad = -grad
        step = own["step"].item()
        share = step ** group["beta2_decay"]
        rate = max(smallest, _root_mean_square(param)) * min(lr, 1 / step**0.5)
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        squares = grad * grad
        if grad.dim() > 1:
            rows = own["row_var"].lerp_(squares.mean(-1, keepdim=True), share)
            columns = own["col_var"].lerp_(squares.mean(-2, keepdim=True), share)
            variance = rows @ columns / rows.mean(-2, keepdim=True).clamp(min=eps)
        else:
            variance = own["variance"].lerp_(squares, share)
        update = variance.clamp(min=eps * eps).rsqrt() * grad
        param.add_(update, alpha=-rate / max(1.0, _root_mean_square(update) / group["d"]))


def _root_mean_square(tensor: Tensor) -> float:
    return float(tensor.norm(2).item()) / float(tensor.numel()) ** 0.5

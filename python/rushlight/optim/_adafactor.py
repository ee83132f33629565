"""Adafactor."""

from __future__ import annotations

import rushlight as torch

from ._elementwise import ElementwiseOptimizer
from ._functional import skipped, step_lists, unscaled
from .optimizer import check_one_element, step_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["Adafactor", "adafactor"]


class Adafactor(ElementwiseOptimizer):
    """Adam without momentum, with mean squares stored as one row and one column (Shazeer and Stern 2018).

    Args:
        params: tensors or parameter groups, as in `Optimizer`.
        lr: the largest step relative to the size of the parameter, a number or a tensor with one element.
        beta2_decay: the decay rate of the mean square in step ``t`` is ``1 - t ** beta2_decay``.
        eps: the smallest root of a mean square (by default the dtype's machine epsilon), and the smallest parameter
            size.
        d: the largest root mean square of an update.
        weight_decay: the parameter shrinks by ``lr * weight_decay``.
        maximize: whether to maximise the objective.
        foreach: accepted; it has no effect.

    Any shapes; floating point dtypes.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: a gradient is sparse or a parameter complex.

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = torch.optim.Adafactor([weight])
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    0.99
    """

    _later = {"foreach": None}
    _needed = "eps"

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
        check_one_element(lr)
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


def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float,
    eps2: float,
    maximize: bool,
) -> None:
    """One step of `Adafactor` for lists of parameters, gradients and states, which are changed in place.

    The options are those of the class. The entries of ``variances`` are None for matrices, the others for vectors.
    ``foreach``, ``has_complex`` are accepted and have no effect. ``grad_scale`` and ``found_inf`` are for fused
    steps.

    Raises:
        RuntimeError: the steps are not tensors.

    >>> from rushlight.optim._adafactor import adafactor
    >>> weight, grad = torch.ones(2), torch.ones(2)
    >>> states = [None], [None], [torch.zeros(2)], [torch.tensor(0.0)]
    >>> options = dict(d=1.0, lr=0.5, beta2_decay=-0.8, weight_decay=0.0, eps1=1e-8, eps2=1e-3, maximize=False)
    >>> adafactor([weight], [grad], *states, **options)
    >>> weight
    tensor([0.5000, 0.5000])
    """
    if skipped(False, grad_scale, found_inf):
        return
    grads = unscaled(grads, grad_scale)
    group = {
        "d": d,
        "lr": lr,
        "beta2_decay": beta2_decay,
        "weight_decay": weight_decay,
        "maximize": maximize,
        "eps": (eps1, eps2),
    }
    step_lists(
        Adafactor,
        group,
        params,
        grads,
        {"row_var": row_vars, "col_var": col_vars, "variance": variances, "step": state_steps},
    )

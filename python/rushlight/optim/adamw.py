"""AdamW: Adam whose weight decay does not pass through the averages."""

from __future__ import annotations

from .adam import Adam

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["AdamW"]


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2017); arguments and errors as in `Adam`.

    In each step the parameter first shrinks by ``lr * weight_decay``.

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> torch.optim.AdamW([weight]).param_groups[0]["weight_decay"]
    0.01
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # Files of torch before 2.7 do not say it.
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True

"""Code for gradients that modules and optimizers share."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rushlight import Tensor


def clear(parameters: Iterable[Tensor], set_to_none: bool) -> None:
    """Removes the gradients of parameters, or fills them with zeros."""
    for parameter in parameters:
        grad = parameter.grad
        if grad is None:
            continue
        if set_to_none:
            parameter.grad = None
        else:
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

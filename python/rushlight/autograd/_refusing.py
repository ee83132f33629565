"""Results that hang in the graph of a tensor that wants a gradient, and that have none: a walk backward says so."""

from __future__ import annotations

from rushlight.autograd.function import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor


class NotDifferentiable(Function):
    """What a row without a derivative found, in a list, as a result that depends on the row's input."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, found: list[Tensor], row: str) -> Tensor:
        ctx.row = row
        return found[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise NotImplementedError(f"the derivative for '{ctx.row}' is not implemented.")

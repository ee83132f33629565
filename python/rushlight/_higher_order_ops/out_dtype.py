"""An operator whose result has another dtype than its arguments (`torch._higher_order_ops.out_dtype`)."""

from __future__ import annotations

from functools import reduce

import rushlight as torch
from rushlight.ops import OpOverload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["out_dtype"]


def out_dtype(op: OpOverload, output_dtype: torch.dtype, *args: Any) -> torch.Tensor:
    """Runs an operator in the dtype to which its tensors and `output_dtype` promote, and casts the result.

    The sums of a product of integers of 8 bits are exact this way.

    Args:
        op: an operator such as ``torch.ops.aten.mm.default``.
        output_dtype: the dtype of the result.
        args: the operator's arguments.

    Raises:
        ValueError: ``op`` is not an operator.

    >>> from rushlight._higher_order_ops.out_dtype import out_dtype
    >>> x = torch.full((1, 2), 100, dtype=torch.int8)
    >>> out_dtype(torch.ops.aten.mm.default, torch.int32, x, x.T)
    tensor([[20000]], dtype=torch.int32)
    """
    if not isinstance(op, OpOverload):
        raise ValueError("out_dtype's first argument must be an OpOverload")
    dtypes = [arg.dtype for arg in args if isinstance(arg, torch.Tensor)]
    wide = reduce(torch.promote_types, dtypes, output_dtype)
    cast = [arg.to(wide) if isinstance(arg, torch.Tensor) else arg for arg in args]
    result: torch.Tensor = op(*cast)
    return result.to(output_dtype)


def __dir__() -> list[str]:
    return __all__

"""`torch._higher_order_ops`: operators that take an operator. Libraries import them from here."""

from .out_dtype import out_dtype
from .while_loop import while_loop

__all__ = ["out_dtype", "while_loop"]


def __dir__() -> list[str]:
    return __all__

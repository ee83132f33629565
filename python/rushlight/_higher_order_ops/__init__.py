"""`torch._higher_order_ops`: operators that take an operator. Libraries import `out_dtype` from here."""

from .out_dtype import out_dtype

__all__ = ["out_dtype"]


def __dir__() -> list[str]:
    return __all__

"""torch's module of the classes of operators, from which libraries import them."""

from rushlight.ops import OpOverload, OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket"]


def __dir__() -> list[str]:
    return __all__

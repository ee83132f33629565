"""`torch._inductor`: a compiler, which rushlight does not have. Programs set its settings and register with it."""

from . import config, decomposition

__all__ = ["config", "decomposition"]


def __dir__() -> list[str]:
    return __all__

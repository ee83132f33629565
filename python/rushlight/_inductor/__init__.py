"""`torch._inductor`: a compiler, which rushlight does not have. Programs set its settings and register with it."""

from rushlight._unsupported import declare

from . import config, decomposition

__all__ = [
    *declare(globals(), "nothing is captured", "cudagraph_mark_step_begin() = None"),
    "config",
    "decomposition",
]


def __dir__() -> list[str]:
    return __all__

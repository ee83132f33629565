"""`torch.accelerator.memory`: the functions of `torch.accelerator` about memory, under the name of their module in torch."""

from rushlight import accelerator as _home
from rushlight.cuda.memory import _snapshot as _snapshot

_NAMES = (
    "empty_cache empty_host_cache get_memory_info max_memory_allocated max_memory_reserved memory_allocated memory_reserved "
    "memory_stats reset_accumulated_memory_stats reset_peak_memory_stats"
).split()
__all__ = [*_NAMES]

globals().update({name: getattr(_home, name) for name in __all__})


def __dir__() -> list[str]:
    return __all__

"""`torch.mps`: Apple's GPUs. rushlight has no support for them, so that every question is answered with no."""

from __future__ import annotations

from ._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _refuse(name: str) -> Exception:
    if name == "MPS":
        return RuntimeError("MPS is not available")
    return RuntimeError(f"Cannot execute {name}() without MPS backend.")


__all__ = [
    *declare(
        globals(),
        "there is no support for Apple GPUs",
        """
        class Event(enable_timing=False) : acquireEvent
        compile_shader(source) : MPS
        current_allocated_memory() : getCurrentAllocatedMemory
        device_count() = 0
        driver_allocated_memory() : getDriverAllocatedMemory
        empty_cache() : emptyCache
        get_rng_state(device='mps') : getDefaultGenerator
        is_available() = False
        load_metallib(source) : MPS
        manual_seed(seed) = None
        recommended_max_memory() : getRecommendedMaxMemory
        seed() : getDefaultGenerator
        set_per_process_memory_fraction(fraction) : setMemoryFraction
        set_rng_state(new_state, device='mps') : getDefaultGenerator
        synchronize() : deviceSynchronize
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

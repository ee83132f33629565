"""`torch.mtia`: Meta's accelerators. rushlight has no support for them, so that every question is answered with no."""

from __future__ import annotations

from ._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _refuse(name: str) -> Exception:
    if name == "init":
        return AssertionError(
            "Torch not compiled with MTIA enabled. Ensure you have `import mtia.host_runtime.torch_mtia.dynamic_library` "
            "in your python src file and include `//mtia/host_runtime/torch_mtia:torch_mtia` as your target dependency!"
        )
    return RuntimeError(f"Cannot execute {name}() without MTIA backend.")


__all__ = [
    *declare(
        globals(),
        "there is no support for these accelerators",
        """
        class MTIAGraph(keep_graph=False) : mtiagraphCreate
        attach_out_of_memory_observer(observer) = None
        current_device() : getCurrentDevice
        current_stream(device=None) : getCurrentDevice
        default_stream(device=None) : getCurrentDevice
        device(device) : getCurrentDevice
        device_count() = 0
        empty_cache() : emptyCache
        get_device_capability(device=None) : getCurrentDevice
        get_device_properties(device=None) : getCurrentDevice
        get_rng_state(device='mtia') : init
        get_rng_state_all() = []
        graph(mtia_graph, pool=None, stream=None) : getCurrentDevice
        graph_pool_handle() : graphPoolHandle
        init()
        initial_seed() : init
        is_available() = False
        is_bf16_supported(including_emulation=True) = False
        is_initialized() = False
        manual_seed(seed) = None
        manual_seed_all(seed) = None
        max_memory_allocated(device=None) = 0
        memory_allocated(device=None) = 0
        memory_stats(device=None) = {}
        record_memory_history(enabled='all', stacks='python', max_entries=0) = None
        reset_peak_memory_stats(device=None) = None
        seed() = None
        seed_all() = None
        set_device(device) : setCurrentDevice
        set_rng_state(new_state, device='mtia') : init
        set_rng_state_all(new_states) = None
        set_stream(stream) : getCurrentDevice
        snapshot() : memorySnapshot
        stream(stream) : getCurrentDevice
        synchronize(device=None) : getCurrentDevice
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

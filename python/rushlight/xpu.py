"""`torch.xpu`: Intel GPUs. rushlight has no support for them, so that every question is answered with no."""

from __future__ import annotations

from ._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

default_generators: tuple[()] = ()


def _refuse(name: str) -> Exception:
    # Classes raise another error than functions, as in torch.
    if name[0].isupper():
        return RuntimeError(f"Tried to instantiate dummy base class {name}")
    return AssertionError("Torch not compiled with XPU enabled")


__all__ = [
    "default_generators",
    *declare(
        globals(),
        "there is no support for Intel GPUs",
        """
        class Event(enable_timing=False)
        class MemPool(allocator=None, use_on_oom=False)
        class Stream(device=None, priority=0, **kwargs)
        class StreamContext(stream)
        class XPUGraph(keep_graph=False)
        class XPUPluggableAllocator(path_to_lib_file, alloc_fn_name, free_fn_name)
        can_device_access_peer(device, peer)
        change_current_allocator(allocator)
        clock_rate(device=None)
        current_device()
        current_stream(device=None)
        device(device)
        device_count() = 0
        device_memory_used(device=None)
        device_of(obj)
        empty_cache() = None
        get_arch_list() = []
        get_device_capability(device=None)
        get_device_name(device=None)
        get_device_properties(device=None)
        get_gencode_flags() = ''
        get_per_process_memory_fraction(device=None)
        get_rng_state(device='xpu')
        get_rng_state_all() = []
        get_stream_from_external(data_ptr, device=None)
        graph(xpu_graph, pool=None, stream=None)
        graph_pool_handle()
        init()
        initial_seed()
        is_available() = False
        is_bf16_supported(including_emulation=True) = False
        is_current_stream_capturing()
        is_initialized() = False
        is_tf32_supported() = False
        make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None)
        manual_seed(seed) = None
        manual_seed_all(seed) = None
        max_memory_allocated(device=None) = 0
        max_memory_reserved(device=None) = 0
        mem_get_info(device=None)
        memory_allocated(device=None) = 0
        memory_reserved(device=None) = 0
        memory_snapshot(mempool_id=None) = []
        memory_stats(device=None) = {}
        memory_stats_as_nested_dict(device=None) = {}
        memory_usage(device=None)
        power_draw(device=None)
        reset_accumulated_memory_stats(device=None) = None
        reset_peak_memory_stats(device=None) = None
        seed() = None
        seed_all() = None
        set_device(device)
        set_per_process_memory_fraction(fraction, device=None)
        set_rng_state(new_state, device='xpu')
        set_rng_state_all(new_states) = None
        set_stream(stream)
        stream(stream)
        synchronize(device=None)
        temperature(device=None)
        use_mem_pool(pool, device=None)
        utilization(device=None)
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

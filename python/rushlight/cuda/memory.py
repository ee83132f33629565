"""`torch.cuda.memory`: the functions of `torch.cuda` about memory, under the name of their module in torch."""

from rushlight import cuda as _home

_NAMES = (
    "caching_allocator_alloc caching_allocator_delete caching_allocator_disabled caching_allocator_enable get_per_process_memory_fraction "
    "set_per_process_memory_fraction empty_cache memory_stats memory_stats_as_nested_dict "
    "reset_accumulated_memory_stats reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached "
    "host_memory_stats host_memory_stats_as_nested_dict reset_accumulated_host_memory_stats "
    "reset_peak_host_memory_stats memory_allocated max_memory_allocated memory_reserved max_memory_reserved "
    "memory_cached max_memory_cached memory_snapshot memory_summary list_gpu_processes mem_get_info "
    "get_allocator_backend CUDAPluggableAllocator change_current_allocator MemPool use_mem_pool"
).split()
__all__ = [*_NAMES]

globals().update({name: getattr(_home, name) for name in __all__})


def __dir__() -> list[str]:
    return __all__

"""`torch.cuda.memory`: the functions of `torch.cuda` about memory, under the name of their module in torch."""

from rushlight import cuda as _home

from ._history import _allocation_traceback as _allocation_traceback
from ._history import _dump_snapshot as _dump_snapshot
from ._history import _get_memory_metadata as _get_memory_metadata
from ._history import _record_memory_history as _record_memory_history
from ._history import _save_memory_usage as _save_memory_usage
from ._history import _save_segment_usage as _save_segment_usage
from ._history import _set_memory_metadata as _set_memory_metadata
from ._history import _snapshot as _snapshot
from ._user_allocators import _CUDAAllocator as _CUDAAllocator
from ._user_allocators import _get_current_allocator as _get_current_allocator
from ._user_allocators import _set_allocator_settings as _set_allocator_settings

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

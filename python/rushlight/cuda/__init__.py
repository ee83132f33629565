"""`torch.cuda`: GPUs, their memory, streams and events.

The driver is loaded when it is first needed. Without a driver, functions behave as in torch on a machine without a GPU. Operators
without kernels run through the host.
"""

from __future__ import annotations

from rushlight import _C
from rushlight._set_module import set_public_module

from ._contexts import StreamContext, caching_allocator_disabled, device, device_of, stream
from ._devices import (
    _CudaDeviceProperties as _CudaDeviceProperties,
)
from ._devices import (
    _lazy_call as _lazy_call,
)
from ._devices import (
    _queued_calls as _queued_calls,
)
from ._devices import (
    current_blas_handle,
    current_device,
    current_solver_handle,
    device_count,
    existing,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    get_sync_debug_mode,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    set_sync_debug_mode,
    synchronize,
)
from ._graphs import CUDAGraph, graph, graph_pool_handle, make_graphed_callables
from ._mem_pools import MemPool, use_mem_pool
from ._memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
    caching_allocator_enable,
    empty_cache,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    ipc_collect,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from ._nvml import (
    clock_rate,
    device_memory_used,
    list_gpu_processes,
    memory_usage,
    power_draw,
    temperature,
    utilization,
)
from ._random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from ._runtime import CudaError, DeferredCudaCallError, check_error, cudart, cudaStatus
from ._streams import (
    Event,
    ExternalStream,
    Stream,
    current_stream,
    default_stream,
    get_stream_from_external,
    is_current_stream_capturing,
    set_stream,
)
from ._user_allocators import CUDAPluggableAllocator, change_current_allocator, get_allocator_backend
from ._user_kernels import _compile_kernel as _compile_kernel
from ._user_kernels import _sleep as _sleep
from ._utils import (
    _DeviceGuard as _DeviceGuard,
)
from ._utils import (
    _exchange_device as _exchange_device,
)
from ._utils import (
    _get_device_index as _get_device_index,
)
from ._utils import (
    _get_generator as _get_generator,
)
from ._utils import (
    _get_rng_state_offset as _get_rng_state_offset,
)
from ._utils import (
    _is_compiled as _is_compiled,
)
from ._utils import (
    _set_rng_state_offset as _set_rng_state_offset,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Generator

    default_generators: tuple[Generator, ...]


has_half = True
has_magma = False

__all__ = [
    "CUDAPluggableAllocator",
    "GreenContext",
    "caching_allocator_enable",
    "change_current_allocator",
    "clock_rate",
    "cudart",
    "current_blas_handle",
    "current_solver_handle",
    "device_memory_used",
    "get_allocator_backend",
    "get_arch_list",
    "get_gencode_flags",
    "get_sync_debug_mode",
    "list_gpu_processes",
    "memory_usage",
    "power_draw",
    "set_sync_debug_mode",
    "temperature",
    "utilization",
    "jiterator",
    "profiler",
    "sparse",
    "tunable",
    "AcceleratorError",
    "CudaError",
    "DeferredCudaCallError",
    "OutOfMemoryError",
    "StreamContext",
    "caching_allocator_disabled",
    "check_error",
    "cudaStatus",
    "default_generators",
    "device",
    "device_of",
    "has_half",
    "has_magma",
    "nvtx",
    "stream",
    "amp",
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_device_properties",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_tf32_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device",
    "synchronize",
    "Event",
    "Stream",
    "current_stream",
    "default_stream",
    "get_device_capability",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_cached",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "set_stream",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "CUDAGraph",
    "MemPool",
    "use_mem_pool",
    "ExternalStream",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "graph",
    "graph_pool_handle",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "initial_seed",
    "ipc_collect",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "memory_snapshot",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_peak_host_memory_stats",
    "seed",
    "seed_all",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
]


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a GPU can read and write the memory of another one.

    Raises:
        AssertionError: one of them does not exist.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.can_device_access_peer(0, 0) is False
    """
    return _C._cuda_can_access(existing(device), existing(peer_device, "peer device"))


set_public_module(globals())

#: Private names of torch that libraries use.
_lazy_init = init
_is_in_bad_fork = _C._cuda_is_in_bad_fork
_maybe_exchange_device = _exchange_device

_MODULES = (
    "_graph_annotations _memory_viz _pin_memory_utils _sanitizer amp comm gds graphs green_contexts jiterator memory nccl nvtx "
    "profiler random sparse streams tunable"
).split()


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return tuple(_C._cuda_default_generator(device) for device in range(device_count()))
    if name in _MODULES:
        from rushlight._loading import load

        return load(f"rushlight.cuda.{name}")
    if name == "GreenContext":
        from .green_contexts import GreenContext

        return GreenContext
    if name in ("AcceleratorError", "OutOfMemoryError"):
        from rushlight import _errors

        return getattr(_errors, name)
    if name == "_initialized":
        return is_initialized()
    if name.endswith("Storage"):
        from rushlight import storage

        if name.removesuffix("Storage") in storage._DTYPES:
            globals()[name] = storage.legacy_storage(name, "cuda")
            return globals()[name]
    from rushlight._legacy_constructors import TYPES, cuda_type

    if name in TYPES:
        globals()[name] = made = cuda_type(name)
        return made
    from rushlight._missing_names import missing_from

    raise missing_from("torch.cuda", name, lambda: __all__)


def __dir__() -> list[str]:
    return __all__

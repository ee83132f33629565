"""`torch.cuda`: GPUs, their memory, streams and events.

The driver is loaded when it is first needed. Without a driver, functions behave as in torch on a machine without a GPU. With one, names
that have nothing behind them (`cudart`, `power_draw`) raise a NotImplementedError. Operators without kernels run through the host.
"""

from __future__ import annotations

from rushlight import _C
from rushlight._absent import declare
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
    current_device,
    device_count,
    existing,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    synchronize,
)
from ._graphs import CUDAGraph, graph, graph_pool_handle, make_graphed_callables
from ._memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
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
from ._pools import MemPool, use_mem_pool
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
    from typing import Any, NoReturn

    from rushlight import Generator

    default_generators: tuple[Generator, ...]


def _refuse(name: str) -> NoReturn:
    if _C._cuda_device_count() > 0:
        raise NotImplementedError(f"torch.cuda.{name} is not available yet.")
    _C._refuse_cuda()


has_half = False
has_magma = False

_WITHOUT_GPU = """
    class CUDAPluggableAllocator(path_to_so_file, alloc_fn_name, free_fn_name)
    caching_allocator_enable(value=True) = None
    change_current_allocator(allocator)
    clock_rate(device=None)
    cudart()
    current_blas_handle()
    current_solver_handle()
    device_memory_used(device=None)
    get_allocator_backend() = 'native'
    get_arch_list() = []
    get_gencode_flags() = ''
    get_sync_debug_mode()
    list_gpu_processes(device=None)
    memory_usage(device=None)
    power_draw(device=None)
    set_sync_debug_mode(debug_mode)
    temperature(device=None)
    utilization(device=None)
"""

__all__ = [
    *declare(globals(), "this is not available yet", _WITHOUT_GPU),
    "GreenContext",
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


class CudaError(RuntimeError):
    """An error that a function of CUDA reports. rushlight does not raise it yet.

    >>> str(torch.cuda.CudaError(2))
    'CUDA error (2)'
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA error ({code})")


class DeferredCudaCallError(Exception):
    """A call that was put off until the driver was loaded has failed. rushlight does not raise it.

    >>> issubclass(torch.cuda.DeferredCudaCallError, Exception)
    True
    """


class cudaStatus:
    """Codes that functions of CUDA return.

    >>> torch.cuda.cudaStatus.SUCCESS
    0
    """

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


def check_error(res: int) -> None:
    """Raises a `CudaError` unless a function of CUDA has succeeded.

    >>> torch.cuda.check_error(torch.cuda.cudaStatus.SUCCESS)
    """
    if res != cudaStatus.SUCCESS:
        raise CudaError(res)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a GPU can read and write the memory of another one.

    Raises:
        AssertionError: one of them does not exist.
    """
    return _C._cuda_can_access(existing(device), existing(peer_device, "peer device"))


set_public_module(globals())

#: Private names of torch that libraries use.
_lazy_init = init
_is_in_bad_fork = _C._cuda_is_in_bad_fork
_maybe_exchange_device = _exchange_device

_MODULES = "amp comm gds graphs green_contexts memory nccl nvtx random sparse streams tunable".split()


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
    from rushlight._legacy import TYPES, cuda_type

    if name in TYPES:
        globals()[name] = made = cuda_type(name)
        return made
    from rushlight._names import missing_from

    raise missing_from("torch.cuda", name, lambda: __all__)


def __dir__() -> list[str]:
    return __all__

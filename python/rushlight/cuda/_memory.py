"""Memory of GPUs: the statistics of the caching allocator, and what controls it."""

from __future__ import annotations

from rushlight import _C

from ._devices import device_count, index_of, number_of
from ._user_allocators import need_caching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_COUNTS = ("current", "peak", "allocated", "freed")


def empty_cache() -> None:
    """Returns the memory that no tensor uses to the driver, so that other programs can use it.

    >>> torch.cuda.empty_cache()
    """
    if _C._cuda_is_initialized():
        _C._cuda_empty_cache()


def _counted(device: Any, function: str) -> int:
    """The number of a device whose allocator exists."""
    need_caching(function)
    index = number_of(device)
    if not 0 <= index < device_count():
        raise RuntimeError(f"Invalid device argument {index}: did you call init?")
    return index


def _flat(statistics: dict[str, Any]) -> dict[str, int]:
    flat = {}
    for name, value in statistics.items():
        if isinstance(value, tuple):
            flat.update({f"{name}.{part}": amount for part, amount in zip(_COUNTS, value, strict=True)})
        else:
            flat[name] = value
    return flat


def _nested(flat: dict[str, int]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, amount in flat.items():
        *path, last = name.split(".")
        level = nested
        for part in path:
            level = level.setdefault(part, {})
        level[last] = amount
    return nested


def memory_stats(device: Any = None) -> dict[str, int]:
    """The statistics of a GPU's allocator.

    They count blocks of tensors (``allocation``, ``allocated_bytes``), the bytes that were asked for (``requested_bytes``), blocks
    of tensors and those that streams still use (``active``, ``active_bytes``), blocks and segments that are not divided because of
    the setting ``max_split_size_mb`` (``oversize_allocations``, ``oversize_segments``), memory from the driver (``segment``,
    ``reserved_bytes``), and free blocks in divided segments (``inactive_split``, ``inactive_split_bytes``). Each is counted for
    ``all`` blocks, for those of the ``small_pool`` and of the ``large_pool``. There are the amount now (``.current``), the largest one
    (``.peak``), and the sums of increases (``.allocated``) and decreases (``.freed``). ``num_ooms`` counts failed allocations,
    ``num_alloc_retries`` those for which cached memory was returned first, ``num_sync_all_streams`` those that waited for streams, and
    ``num_device_alloc`` and ``num_device_free`` the calls of the driver.

    Returns:
        the statistics by name; none if no GPU is in use.

    >>> torch.cuda.memory_stats().get("allocated_bytes.all.current", 0)
    0
    """
    if not _C._cuda_is_initialized():
        return {}
    flat = _flat(_C._cuda_memory_statistics(_counted(device, "getDeviceStats")))
    flat["max_split_size"] = _C._cuda_allocator_settings()["max_split_size"]
    return dict(sorted(flat.items()))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The statistics of `memory_stats`, with a dictionary for each part of a name.

    >>> torch.cuda.memory_stats_as_nested_dict() == {}
    True
    """
    return _nested(memory_stats(device))


def memory_allocated(device: Any = None) -> int:
    """The number of bytes of a GPU that tensors use.

    >>> torch.cuda.memory_allocated()
    0
    """
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Any = None) -> int:
    """The largest number of bytes of a GPU that tensors used since the start, or since `reset_peak_memory_stats`.

    >>> torch.cuda.max_memory_allocated()
    0
    """
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Any = None) -> int:
    """The number of bytes of a GPU that the allocator has from the driver.

    >>> torch.cuda.memory_reserved()
    0
    """
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Any = None) -> int:
    """The largest number of bytes of a GPU that the allocator had from the driver.

    >>> torch.cuda.max_memory_reserved()
    0
    """
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def memory_cached(device: Any = None) -> int:
    """The old name of `memory_reserved`.

    >>> torch.cuda.memory_cached()
    0
    """
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """The old name of `max_memory_reserved`.

    >>> torch.cuda.max_memory_cached()
    0
    """
    return max_memory_reserved(device)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Makes the present amounts the largest ones.

    >>> torch.cuda.reset_peak_memory_stats()
    """
    if _C._cuda_is_initialized():
        _C._cuda_reset_memory_peaks(_counted(device, "resetPeakStats"))


def reset_max_memory_allocated(device: Any = None) -> None:
    """The old name of `reset_peak_memory_stats`.

    >>> torch.cuda.reset_max_memory_allocated()
    """
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """The old name of `reset_peak_memory_stats`.

    >>> torch.cuda.reset_max_memory_cached()
    """
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Makes the sums of increases and decreases zero.

    >>> torch.cuda.reset_accumulated_memory_stats()
    """
    if _C._cuda_is_initialized():
        _C._cuda_reset_memory_sums(_counted(device, "resetAccumulatedStats"))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The free and the whole memory of a GPU in bytes, as the driver reports them.

    >>> if torch.cuda.is_available():
    ...     free, total = torch.cuda.mem_get_info()
    ...     assert 0 <= free <= total
    """
    return _C._cuda_memory_info(index_of(device))


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limits the memory that the allocator takes from a GPU to a part of the whole. More is an `OutOfMemoryError`.

    Raises:
        TypeError: the fraction is not a float.
        ValueError: it is not between 0 and 1.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_per_process_memory_fraction(1.0)
    """
    _C._cuda_init()
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    index = index_of(device)
    total = _C._cuda_properties(index)["total_memory"]
    _C._cuda_set_memory_limit(index, int(total * fraction))


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of a GPU's memory that the allocator may take; 1 if there is no limit.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.get_per_process_memory_fraction() <= 1.0
    """
    _C._cuda_init()
    index = index_of(device)
    limit = _C._cuda_memory_limit(index)
    return 1.0 if limit is None else limit / _C._cuda_properties(index)["total_memory"]


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> list[dict[str, Any]]:
    """The segments of all GPUs with their blocks.

    Args:
        mempool_id: the pool of a graph, whose segments alone are shown.
        include_traces: whether blocks have the lines of Python that asked for them (``frames``), if they were recorded: see
            `memory._record_memory_history`.

    >>> torch.cuda.memory_snapshot()
    []
    """
    segments: dict[tuple[int, int], dict[str, Any]] = {}
    if not _C._cuda_is_initialized():
        return []
    need_caching("snapshot")
    for device in range(_C._cuda_device_count()):
        for address, size, requested, start, stream, state, small, pool, lines in _C._cuda_memory_blocks(device):
            segment = segments.setdefault(
                (device, start),
                {
                    "device": device,
                    "address": start,
                    "total_size": 0,
                    "allocated_size": 0,
                    "active_size": 0,
                    "requested_size": 0,
                    "stream": stream,
                    "segment_type": "small" if small else "large",
                    "segment_pool_id": (0, pool),
                    "is_expandable": False,
                    "frames": [],
                    "blocks": [],
                },
            )
            segment["total_size"] += size
            segment["allocated_size"] += size if state == "active_allocated" else 0
            segment["active_size"] += size if state != "inactive" else 0
            segment["requested_size"] += requested
            frames = [{"filename": file, "line": line, "name": name} for file, line, name in lines]
            block = {
                "address": address,
                "size": size,
                "requested_size": requested,
                "state": state,
                "frames": frames if include_traces else [],
            }
            segment["blocks"].append(block)
    found = list(segments.values())
    return found if mempool_id is None else [one for one in found if one["segment_pool_id"] == tuple(mempool_id)]


_ROWS = (
    ("Allocated memory", "allocated_bytes", True),
    ("Active memory", "active_bytes", True),
    ("Requested memory", "requested_bytes", True),
    ("GPU reserved memory", "reserved_bytes", True),
    ("Non-releasable memory", "inactive_split_bytes", True),
    ("Allocations", "allocation", False),
    ("Active allocs", "active", False),
    ("GPU reserved segments", "segment", False),
    ("Non-releasable allocs", "inactive_split", False),
)


def _shown(amount: int, whole: int, is_size: bool) -> str:
    """An amount in the unit of the row that it is a part of."""
    names = ("B", "KiB", "MiB", "GiB", "TiB", "PiB") if is_size else (" ", "K", "M")
    step, most = (1024, 768 * 1024) if is_size else (1000, 750 * 1000)
    unit, rest = 0, float(whole)
    while rest >= most and unit + 1 < len(names):
        unit, rest = unit + 1, rest / step
    amount //= step**unit
    return f"{amount:6d} {names[unit]:<3}" if is_size else f"{amount:7d} {names[unit]} "


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The statistics of `memory_stats` as a table.

    Args:
        device: the GPU, by default the current one.
        abbreviated: whether to leave out small and large blocks.

    Returns:
        the table; an empty text if no GPU is in use.

    >>> torch.cuda.memory_summary() == ""
    True
    """
    stats = memory_stats(device)
    if not stats:
        return ""
    line, double = "-" * 75, "=" * 75
    parts = [("all", ""), ("large_pool", "      from large pool"), ("small_pool", "      from small pool")]
    lines = [
        double,
        f"{'':18}PyTorch CUDA memory summary, device ID {index_of(device):<17d} ",
        line,
        f"{'':12}CUDA OOMs: {stats['num_ooms']:<12d} | {'':7}cudaMalloc retries: {stats['num_alloc_retries']:<8d}  ",
        double,
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    for title, name, is_size in _ROWS:
        lines.append(line)
        for part, label in parts[:1] if abbreviated else parts:
            cells = [
                _shown(stats[f"{name}.{part}.{count}"], stats[f"{name}.all.{count}"], is_size) for count in _COUNTS
            ]
            lines.append(f" {label or title:<21} | {' | '.join(cells)} ")
    for title, name in (
        ("Oversize allocations", "oversize_allocations"),
        ("Oversize GPU segments", "oversize_segments"),
    ):
        cells = [_shown(stats[f"{name}.{count}"], stats[f"{name}.{count}"], False) for count in _COUNTS]
        lines += [line, f" {title:<21} | {' | '.join(cells)} "]
    lines.append(double)
    return "|" + "|\n|".join(lines) + "|\n"


def host_memory_stats() -> dict[str, int]:
    """The statistics of page-locked memory of the host.

    They count blocks from the driver (``allocations``, ``allocated_bytes``) and blocks in use (``active_requests``,
    ``active_bytes``), each with ``.current``, ``.peak``, ``.allocated`` and ``.freed``, and the calls of the driver
    (``num_host_alloc``, ``num_host_free``). Sizes are powers of two.

    >>> torch.cuda.host_memory_stats()
    {}
    """
    return dict(sorted(_flat(_C._cuda_host_statistics()).items())) if _C._cuda_is_initialized() else {}


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """The statistics of `host_memory_stats`, with a dictionary for each part of a name.

    >>> torch.cuda.host_memory_stats_as_nested_dict()
    {}
    """
    return _nested(host_memory_stats())


def reset_peak_host_memory_stats() -> None:
    """Makes the present amounts of page-locked memory the largest ones.

    >>> torch.cuda.reset_peak_host_memory_stats()
    """
    _C._cuda_reset_host_peaks()


def reset_accumulated_host_memory_stats() -> None:
    """Makes the sums of increases and decreases of page-locked memory zero.

    >>> torch.cuda.reset_accumulated_host_memory_stats()
    """
    _C._cuda_reset_host_sums()


def caching_allocator_enable(value: bool = True) -> None:
    """Sets whether memory that tensors give up is kept for later ones. Otherwise it goes back to the driver at once.

    >>> torch.cuda.caching_allocator_enable(True)
    """
    _C._cuda_set_caching(value)


# Memory that programs hold by its address.
_held: dict[int, Any] = {}


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """The address of new memory on a GPU, which `caching_allocator_delete` frees.

    Args:
        size: the number of bytes.
        device: the GPU, by default the current one.
        stream: the stream that uses the memory, by default the current one.

    >>> if torch.cuda.is_available():
    ...     address = torch.cuda.caching_allocator_alloc(1024)
    ...     torch.cuda.caching_allocator_delete(address)
    """
    from ._contexts import StreamContext

    _C._cuda_init()
    with StreamContext(stream):
        storage = _C.UntypedStorage(size, device=_C.device("cuda", index_of(device)))
    _held[storage.data_ptr()] = storage
    return storage.data_ptr()


def caching_allocator_delete(mem_ptr: int) -> None:
    """Frees memory that `caching_allocator_alloc` returned.

    Raises:
        RuntimeError: the address is not that of such memory.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(1024))
    """
    if _held.pop(mem_ptr, None) is None:
        raise RuntimeError(f"invalid device pointer: {mem_ptr:#x}")


def ipc_collect() -> None:
    """Gives up the memory of tensors that were sent to other processes and are not used there any more.

    Sending tensors and allocating memory does this too.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.ipc_collect()
    """
    _C._cuda_init()
    _C._cuda_ipc_collect()

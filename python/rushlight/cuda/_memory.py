"""Memory of GPUs: the statistics of the caching allocator, and what controls it."""

from __future__ import annotations

from rushlight import _C

from ._devices import index_of

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


def memory_stats(device: Any = None) -> dict[str, int]:
    """The statistics of a GPU's allocator.

    For blocks (``allocation``), their bytes (``allocated_bytes``), the bytes that were asked for (``requested_bytes``), the
    memory from the driver (``segment``) and its bytes (``reserved_bytes``) there are the amount now (``.all.current``), the
    largest one (``.all.peak``), and the sums of increases (``.all.allocated``) and decreases (``.all.freed``). ``num_ooms``
    counts failed allocations, ``num_alloc_retries`` those for which cached memory was returned first.

    Returns:
        the statistics by name; none if no GPU is in use.

    >>> torch.cuda.memory_stats().get("allocated_bytes.all.current", 0)
    0
    """
    if not _C._cuda_is_initialized():
        return {}
    flat = {}
    for name, value in _C._cuda_memory_statistics(index_of(device)).items():
        if isinstance(value, tuple):
            flat.update({f"{name}.all.{part}": amount for part, amount in zip(_COUNTS, value, strict=True)})
        else:
            flat[name] = value
    return dict(sorted(flat.items()))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The statistics of `memory_stats`, with a dictionary for each part of a name.

    >>> torch.cuda.memory_stats_as_nested_dict() == {}
    True
    """
    nested: dict[str, Any] = {}
    for name, amount in memory_stats(device).items():
        *path, last = name.split(".")
        level = nested
        for part in path:
            level = level.setdefault(part, {})
        level[last] = amount
    return nested


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
        _C._cuda_reset_memory_peaks(index_of(device))


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
        _C._cuda_reset_memory_sums(index_of(device))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The free and the whole memory of a GPU in bytes, as the driver reports them."""
    return _C._cuda_memory_info(index_of(device))

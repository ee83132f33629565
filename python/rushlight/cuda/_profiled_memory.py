"""The memory in a profile as a snapshot of `torch.cuda.memory._snapshot`, which `_memory_viz.profile_plot` draws."""

from __future__ import annotations

from rushlight.autograd._profiler_events import _Places
from rushlight.autograd.profiler_util import EventList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.autograd._profiler_trace import MemoryChange


def _events(profile: Any) -> EventList:
    found = getattr(profile, "function_events", None)
    if found is None:
        found = profile.events()
    if not isinstance(found, EventList) or not found._profile_memory:
        raise ValueError("profile_memory=True required for memory profiling.")
    return found


def snapshot(profile: Any) -> dict[str, Any]:
    """The changes of memory in a profile. The memory of the host is that of a device after the last GPU.

    Raises:
        ValueError: the profile has not recorded memory.
    """
    import rushlight as torch

    events = _events(profile)
    host = torch.cuda.device_count()
    places = _Places(event for event in events if not event.on_device and event.name != "[memory]")
    traces: list[list[dict[str, Any]]] = [[] for _ in range(host + 1)]
    #: The blocks that are in use, by device and address.
    blocks: dict[tuple[int, int], dict[str, Any]] = {}
    for change in events._memory:
        device = host if change.device is None else change.device
        if change.bytes > 0:
            block = {
                "action": "alloc",
                "addr": change.address,
                "size": change.bytes,
                "stream": 0,
                "frames": _frames(places, change),
                # Which tensor it was for is not recorded.
                "category": "unknown",
            }
            traces[device].append(block)
            blocks[device, change.address] = block
            continue
        # One that is not known was taken before the profile began.
        old = blocks.pop((device, change.address), {"size": -change.bytes, "frames": []})
        for action in ("free_requested", "free_completed"):
            row = {"action": action, "addr": change.address, "size": old["size"], "stream": 0, "frames": old["frames"]}
            traces[device].append(row)
    return {"device_traces": traces, "segments": _segments(traces, blocks)}


def _frames(places: _Places, change: MemoryChange) -> list[dict[str, Any]]:
    """The calls that have taken a block, the innermost first."""
    event = places.at(change.thread, change.time)
    callers = event.callers() if event is not None else ()
    return [{"filename": "none", "line": 0, "name": caller.name} for caller in callers]


def _segments(
    traces: list[list[dict[str, Any]]], blocks: dict[tuple[int, int], dict[str, Any]]
) -> list[dict[str, Any]]:
    """One segment for each device with blocks that were in use at the end, over all addresses that it had."""
    found = []
    for device, rows in enumerate(traces):
        own = sorted((block for (of, _), block in blocks.items() if of == device), key=lambda block: block["addr"])
        if not own:
            continue
        first = at = min(row["addr"] for row in rows)
        end = max(row["addr"] + row["size"] for row in rows)
        parts: list[dict[str, Any]] = []
        for block in own:
            if at < block["addr"]:
                parts.append({"size": block["addr"] - at, "state": "inactive"})
            size = block["size"]
            parts.append({"size": size, "state": "active_allocated", "requested_size": size, "frames": block["frames"]})
            at = block["addr"] + size
        if at < end:
            parts.append({"size": end - at, "state": "inactive"})
        found.append({"device": device, "address": first, "total_size": end - first, "stream": 0, "blocks": parts})
    return found

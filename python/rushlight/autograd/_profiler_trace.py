"""The trace of a profiler's events, in the format of chrome://tracing."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from rushlight.autograd.profiler_util import FunctionEvent

__all__ = ["MemoryChange", "write_trace"]


class MemoryChange(NamedTuple):
    """Memory that was taken, or given back (then `bytes` is negative).

    `time` is in microseconds since the profile began, `device` the number of a GPU or None, and `allocated` and `reserved` are the sums
    after it.
    """

    time: float
    thread: int
    device: int | None
    address: int
    bytes: int
    allocated: int
    reserved: int


def write_trace(path: str, events: Sequence[FunctionEvent], memory: Iterable[MemoryChange]) -> None:
    """Writes events and changes of memory to a file."""
    process = os.getpid()
    threads = sorted({event.thread for event in events if not event.on_device})
    streams = sorted({(event.device_index, event.device_resource_id) for event in events if event.on_device})
    entries: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": f"thread {thread}"}}
        for thread in threads
    ]
    entries += [
        {"ph": "M", "name": "thread_name", "pid": card, "tid": stream, "args": {"name": f"stream {stream}"}}
        for card, stream in streams
    ]
    # Changes of memory have entries of their own, whether a call made them or not.
    entries += [_interval(event, process) for event in events if event.name != "[memory]"]
    entries += [_change(change, process) for change in memory]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": entries}, file)


def _interval(event: FunctionEvent, process: int) -> dict[str, Any]:
    args: dict[str, Any] = {}
    place = {"pid": process, "tid": event.thread}
    if event.on_device:
        category = "gpu_memcpy" if event.name.startswith("Memcpy") else "kernel"
        place = {"pid": event.device_index, "tid": event.device_resource_id}
        args = {"device": event.device_index, "stream": event.device_resource_id}
    elif event.is_python_function:
        category = "python_function"
        parent = event.python_parent_id
        args = {"Python parent id": None if parent < 0 else parent, "Python id": event.python_id}
        if event.python_module_id >= 0:
            args["Python module id"] = event.python_module_id
    else:
        category = "user_annotation" if event.is_user_annotation else "cpu_op"
        if event.input_shapes:
            args = {"Input Dims": event.input_shapes}
    times = {"ts": event.time_range.start, "dur": event.time_range.elapsed_us()}
    return {"ph": "X", "cat": category, "name": event.name, **place, **times, "args": args}


def _change(change: MemoryChange, process: int) -> dict[str, Any]:
    on_host = change.device is None
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": process,
        "tid": change.thread,
        "ts": change.time,
        "args": {
            "Total Reserved": change.reserved,
            "Total Allocated": change.allocated,
            "Bytes": change.bytes,
            "Device Id": -1 if on_host else change.device,
            "Device Type": 0 if on_host else 1,
            "Addr": change.address,
        },
    }

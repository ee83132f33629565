"""Results of a profiler: nested events per thread, work of GPUs, and tables of averages."""

from __future__ import annotations

import json
import os
from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Self

    _Sizes = list[list[int]]

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel"]

#: The sort keys of a table, with the attribute for each.
_SORTED_BY = {
    "cpu_time": "cpu_time",
    "cpu_time_total": "cpu_time_total",
    "self_cpu_time_total": "self_cpu_time_total",
    "count": "count",
    "key": "key",
    # Memory is not measured: these are zero.
    **dict.fromkeys(
        "cpu_memory_usage self_cpu_memory_usage cuda_memory_usage self_cuda_memory_usage device_memory_usage "
        "self_device_memory_usage".split(),
        "self_cpu_memory_usage",
    ),
    **{
        name.replace("device", device): name
        for device in ("cuda", "xpu", "device")
        for name in ("device_time", "device_time_total", "self_device_time_total")
    },
}


def _time(microseconds: float, unit: str | None = None) -> str:
    """A duration as text."""
    for name, size in (("s", 1e6), ("ms", 1e3)):
        if unit == name or (unit is None and microseconds >= size):
            return f"{microseconds / size:.3f}{name}"
    return f"{microseconds:.3f}us"


class Interval:
    """A time range, in microseconds since the profile began.

    >>> torch.autograd.profiler_util.Interval(1.0, 3.5).elapsed_us()
    2.5
    """

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """The duration."""
        return self.end - self.start


class Kernel:
    """A kernel or copy of a GPU: its `name`, the `device`'s number and the `duration` in microseconds."""

    def __init__(self, name: str, device: int, duration: float) -> None:
        self.name, self.device, self.duration = name, device, duration

    def __repr__(self) -> str:
        return f"Kernel(name={self.name!r}, device={self.device}, duration={self.duration})"


class _Timed:
    """Base class of events with times, and with their text."""

    cpu_time_total: float
    self_cpu_time_total: float
    count: int
    #: Memory is not measured.
    cpu_memory_usage = self_cpu_memory_usage = device_memory_usage = self_device_memory_usage = 0
    #: Whether it is work of a GPU.
    on_device = False

    @property
    def device_type(self) -> Any:
        """``DeviceType.CUDA`` for work of a GPU, else ``DeviceType.CPU``."""
        from rushlight.profiler._names import DeviceType

        return DeviceType.CUDA if self.on_device else DeviceType.CPU

    @property
    def device_time_total(self) -> float:
        """The time of the work on GPUs that it has enqueued."""
        raise NotImplementedError

    @property
    def device_time(self) -> float:
        """The same in microseconds per call."""
        return self.device_time_total / self.count if self.count else 0.0

    @property
    def cpu_time(self) -> float:
        """Microseconds per call."""
        return self.cpu_time_total

    @property
    def cpu_time_str(self) -> str:
        return _time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        return _time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        return _time(self.self_cpu_time_total)


class FunctionEvent(_Timed):
    """One call of an operator, or one range of `record_function`.

    Attributes: `name`, `thread` (a number), `time_range`, `input_shapes` (if the profiler records them), `cpu_parent`
        (the
    caller on the same thread), `cpu_children`, `cpu_time_total` and `self_cpu_time_total` in microseconds. The second
    excludes the children. `kernels` is the work of GPUs that the call itself has enqueued. That work has events of its own too, with
    `device_type`, `device_index` and `device_resource_id` (the stream).

    >>> with torch.profiler.profile() as profiled:
    ...     _ = torch.ones(2) + 1
    >>> event = profiled.events()[-1]
    >>> event.name, event.count, event.cpu_time_total > 0
    ('aten::add', 1, True)
    """

    count = 1

    def __init__(
        self, id: int, name: str, thread: int, start_us: float, end_us: float, input_shapes: _Sizes, is_operator: bool
    ) -> None:
        self.id = id
        self.name = name
        self.key = "ProfilerStep*" if name.startswith("ProfilerStep#") else name
        self.thread = thread
        self.time_range = Interval(start_us, end_us)
        self.input_shapes = input_shapes
        self.is_user_annotation = not is_operator
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_time_total = self.self_cpu_time_total = self.time_range.elapsed_us()
        self.kernels: list[Kernel] = []
        self.device_index = self.device_resource_id = 0

    @classmethod
    def of_device(cls, id: int, name: str, thread: int, times: tuple[float, float], device: int, stream: int) -> Self:
        """Work of a GPU."""
        event = cls(id, name, thread, *times, [], True)
        event.on_device = True
        event.device_index, event.device_resource_id = device, stream
        event.cpu_time_total = event.self_cpu_time_total = 0.0
        return event

    @property
    def self_device_time_total(self) -> float:
        """The time of the work on GPUs that it has enqueued itself; of the work itself, if it is that."""
        return self.time_range.elapsed_us() if self.on_device else sum(kernel.duration for kernel in self.kernels)

    @property
    def device_time_total(self) -> float:
        """The time of the work on GPUs that it or its children have enqueued."""
        return self.self_device_time_total + sum(child.device_time_total for child in self.cpu_children)

    def add_child(self, child: FunctionEvent) -> None:
        """Adds a child."""
        child.cpu_parent = self
        self.cpu_children.append(child)
        self.self_cpu_time_total -= child.cpu_time_total

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes}>"
        )


class FunctionEventAvg(_Timed):
    """All calls with one name: their number (`count`) and total times in microseconds. `cpu_time` is the mean.

    >>> with torch.profiler.profile() as profiled:
    ...     _ = torch.ones(2) + 1 + 2
    >>> [(entry.key, entry.count) for entry in profiled.key_averages() if "add" in entry.key]
    [('aten::add', 2)]
    """

    def __init__(self, key: Any = None, input_shapes: Any = None) -> None:
        self.key = key
        self.count = 0
        self.input_shapes = input_shapes
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0
        self.self_device_time_total = 0.0
        self._device_time_total = 0.0

    @property
    def device_time_total(self) -> float:
        """The time of the work on GPUs that the calls have enqueued."""
        return self._device_time_total

    def add(self, event: FunctionEvent | FunctionEventAvg) -> None:
        """Adds a call, or the calls of another average."""
        self.count += event.count
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_device_time_total += event.self_device_time_total
        self.on_device = event.on_device
        if isinstance(event, FunctionEventAvg):
            self.cpu_time_total += event.cpu_time_total
            self._device_time_total += event.device_time_total
            return
        # The time of a recursive call is counted once.
        parent = event.cpu_parent
        while parent is not None and parent.name != event.name:
            parent = parent.cpu_parent
        if parent is None:
            self.cpu_time_total += event.cpu_time_total
            self._device_time_total += event.device_time_total

    @property
    def cpu_time(self) -> float:
        """Microseconds per call, on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
            f"input_shapes={self.input_shapes}>"
        )


class EventList(list["Any"]):
    """A list of events or averages, with methods for tables and traces.

    >>> with torch.profiler.profile() as profiled:
    ...     _ = torch.ones(2) + 1
    >>> profiled.key_averages().table().splitlines()[1].split()[:4]
    ['Name', 'Self', 'CPU', '%']
    """

    @classmethod
    def read(cls, told: Iterable[tuple[Any, bool]], since: int, work: Iterable[tuple[Any, ...]] = ()) -> EventList:
        """The recorded events in the order in which they began, with their parents, and the work of GPUs that they have enqueued."""
        found = cls()
        # An event contains another one if it began earlier, or ended later, or (if both are equal) was recorded later.
        order = sorted(enumerate(told), key=lambda item: (item[1][0][2], -item[1][0][3], -item[0]))
        open_on: dict[int, list[FunctionEvent]] = {}
        for number, (_, ((name, thread, start, end, sizes), is_operator)) in enumerate(order, 1):
            event = FunctionEvent(
                number, name, thread, (start - since) / 1000, (end - since) / 1000, sizes, is_operator
            )
            around = open_on.setdefault(thread, [])
            while around and around[-1].time_range.end < event.time_range.end:
                around.pop()
            if around:
                around[-1].add_child(event)
            around.append(event)
            found.append(event)
        found._add_work(work, since)
        return found

    def _add_work(self, work: Iterable[tuple[Any, ...]], since: int) -> None:
        """Adds work of GPUs, to the calls that enqueued it and as events of its own."""
        begun: dict[int, list[FunctionEvent]] = {}
        for event in self:
            begun.setdefault(event.thread, []).append(event)
        for name, device, stream, thread, enqueued, start, end in work:
            moment, calls = (enqueued - since) / 1000, begun.get(thread, [])
            at = bisect_right(calls, moment, key=lambda call: call.time_range.start)
            call = calls[at - 1] if at else None
            while call is not None and call.time_range.end < moment:
                call = call.cpu_parent
            times = (start - since) / 1000, (end - since) / 1000
            event = FunctionEvent.of_device(len(self) + 1, name, thread, times, device, stream)
            if call is not None:
                call.kernels.append(Kernel(name, device, event.time_range.elapsed_us()))
            self.append(event)
        self.sort(key=lambda event: (event.time_range.start, -event.time_range.end))

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events without their children."""
        return float(sum(event.self_cpu_time_total for event in self))

    def key_averages(self, group_by_input_shapes: bool = False) -> EventList:
        """The events grouped by name, or by name and shapes of arguments."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shapes else []
            key = (event.key, event.on_device, repr(shapes))
            if key not in found:
                found[key] = FunctionEventAvg(event.key, shapes)
            found[key].add(event)
        return EventList(found.values())

    def total_average(self) -> FunctionEventAvg:
        """All events as one average."""
        total = FunctionEventAvg("Total", [])
        for event in self:
            total.add(event)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as a table.

        Args:
            sort_by: `cpu_time`, `cpu_time_total`, `self_cpu_time_total` or `count`, largest first; not sorted by
                default. With GPUs also `device_time`, `device_time_total` or `self_device_time_total`, or the same with `cuda`. The
                names of memory are accepted and change nothing.
            row_limit: the largest number of rows.
            max_src_column_width: accepted; it has no effect, because stacks are not recorded.
            max_name_column_width: longer names are truncated.
            max_shapes_column_width: longer shapes are truncated.
            header: a line above the table.
            top_level_events_only: whether to omit events that another event called.
            time_unit: `"us"`, `"ms"` or `"s"` for all times; by default it depends on the time.

        Raises:
            AttributeError: `sort_by` is unknown.
        """
        events: Sequence[Any] = list(self)
        if sort_by is not None:
            attribute = _SORTED_BY.get(sort_by)
            if attribute is None:
                kind = type(events[0]).__name__ if events else "FunctionEvent"
                raise AttributeError(f"'{kind}' object has no attribute '{sort_by}'")
            events = sorted(events, key=lambda event: getattr(event, attribute), reverse=True)
        if top_level_events_only:
            events = [event for event in events if getattr(event, "cpu_parent", None) is None]
        with_shapes = any(event.input_shapes for event in events)
        total = self.self_cpu_time_total
        columns: list[tuple[str, Callable[[Any], str]]] = [
            ("Name", lambda event: _cut(event.key, max_name_column_width)),
            ("Self CPU %", lambda event: _percent(event.self_cpu_time_total, total)),
            ("Self CPU", lambda event: _time(event.self_cpu_time_total, time_unit)),
            ("CPU total %", lambda event: _percent(event.cpu_time_total, total)),
            ("CPU total", lambda event: _time(event.cpu_time_total, time_unit)),
            ("CPU time avg", lambda event: _time(event.cpu_time, time_unit)),
        ]
        on_devices = sum(event.self_device_time_total for event in self if event.on_device)
        if on_devices:
            columns += [
                ("Self CUDA", lambda event: _time(event.self_device_time_total, time_unit)),
                ("Self CUDA %", lambda event: _percent(event.self_device_time_total, on_devices)),
                ("CUDA total", lambda event: _time(event.device_time_total, time_unit)),
                ("CUDA time avg", lambda event: _time(event.device_time, time_unit)),
            ]
        columns.append(("# of Calls", lambda event: str(event.count)))
        if with_shapes:
            columns.append(("Input Shapes", lambda event: _cut(str(event.input_shapes), max_shapes_column_width)))
        rows = [[text(event) for _, text in columns] for event in events[:row_limit]]
        widths = [max(12, len(name)) for name, _ in columns]
        for place, (name, _) in enumerate(columns):
            if name in ("Name", "Input Shapes"):
                widths[place] = max([len(name), *(len(row[place]) for row in rows)]) + 4
        line = "  ".join("-" * width for width in widths) + "  "

        def shown(cells: Iterable[str]) -> str:
            return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths)) + "  "

        above = [] if header is None else ["=" * len(line), header]
        body = [line, shown(name for name, _ in columns), line, *map(shown, rows), line]
        totals = [f"Self CPU time total: {_time(total, time_unit)}"]
        if on_devices:
            totals.append(f"Self CUDA time total: {_time(on_devices, time_unit)}")
        return "\n".join([*above, *body, *totals, ""])

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Writes the events as a trace for chrome://tracing and https://ui.perfetto.dev."""
        process = os.getpid()
        common = {"ph": "X", "pid": process}
        threads = sorted({event.thread for event in self if not event.on_device})
        streams = sorted({(event.device_index, event.device_resource_id) for event in self if event.on_device})
        told: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": f"thread {thread}"}}
            for thread in threads
        ]
        told += [
            {"ph": "M", "name": "thread_name", "pid": card, "tid": stream, "args": {"name": f"stream {stream}"}}
            for card, stream in streams
        ]
        for event in self:
            if event.on_device:
                place = {"device": event.device_index, "stream": event.device_resource_id}
                told.append(
                    {
                        "ph": "X",
                        "cat": "gpu_memcpy" if event.name.startswith("Memcpy") else "kernel",
                        "name": event.name,
                        "pid": event.device_index,
                        "tid": event.device_resource_id,
                        "ts": event.time_range.start,
                        "dur": event.time_range.elapsed_us(),
                        "args": place,
                    }
                )
                continue
            told.append(
                {
                    **common,
                    "cat": "user_annotation" if event.is_user_annotation else "cpu_op",
                    "name": event.name,
                    "ts": event.time_range.start,
                    "dur": event.time_range.elapsed_us(),
                    "tid": event.thread,
                    "args": {"Input Dims": event.input_shapes} if event.input_shapes else {},
                }
            )
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": told}, file)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width or width < 4 else text[: width - 3] + "..."


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "NaN"


def __dir__() -> list[str]:
    return __all__

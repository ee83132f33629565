"""Results of a profiler: nested events per thread, memory, work of GPUs, and averages."""

from __future__ import annotations

import itertools

from rushlight.autograd._profiler_table import attribute_of, table, time_text
from rushlight.autograd._profiler_trace import write_trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Self

    from rushlight.autograd._profiler_trace import MemoryChange

    _Sizes = list[list[int]]

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel"]

#: The scope of a range of the program.
USER_SCOPE = 7


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
    """Base class of events with times and memory, and with their text."""

    name: str
    cpu_time_total: float
    self_cpu_time_total: float
    count: int
    #: Whether it is work of a GPU.
    on_device = False
    #: The type of the GPUs that the profiler records.
    use_device: str | None = None

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
        return time_text(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        return time_text(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        return time_text(self.self_cpu_time_total)


class FunctionEvent(_Timed):
    """One call of an operator, or one range of `record_function`.

    Attributes:
        name: of the operator or range.
        thread: a number.
        time_range: the `Interval` from its start to its end.
        input_shapes: the sizes of the arguments, if the profiler records them.
        cpu_parent, cpu_children: the caller on the same thread, and the calls that it makes.
        cpu_time_total, self_cpu_time_total: microseconds, with and without the children.
        cpu_memory_usage, device_memory_usage: bytes that it and its children have taken and not given back. The names with `self_`
            leave the children out.
        stack: the Python functions that were running, the innermost first; in a backward pass those of the forward call.
        flops: the number of floating point operations.
        scope: 1 for a node of a backward pass, 7 for a range of the program.
        is_python_function: whether it is a call of a Python function.
        kernels: the work of GPUs that the call itself has enqueued. This work has events of its own too, with `device_type`, `device_index`
            and `device_resource_id` (the stream).

    >>> with torch.profiler.profile() as profiled:
    ...     _ = torch.ones(2) + 1
    >>> event = profiled.events()[-1]
    >>> event.name, event.count, event.cpu_time_total > 0
    ('aten::add', 1, True)
    """

    count = 1

    def __init__(self, id: int, name: str, thread: int, start_us: float, end_us: float, input_shapes: _Sizes) -> None:
        self.id = id
        self.name = name
        self.key = "ProfilerStep*" if name.startswith("ProfilerStep#") else name
        self.thread = thread
        self.time_range = Interval(start_us, end_us)
        self.input_shapes = input_shapes
        self.scope = 0
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_time_total = self.time_range.elapsed_us()
        self.cpu_memory_usage = self.device_memory_usage = self.flops = 0
        self.stack: list[str] = []
        self.sequence_nr = -1
        self.fwd_thread: int | None = None
        self.is_python_function = False
        self.python_id = self.python_parent_id = self.python_module_id = -1
        self.kernels: list[Kernel] = []
        self.device_index = self.device_resource_id = 0

    @classmethod
    def of_device(cls, id: int, name: str, thread: int, times: tuple[float, float], device: int, stream: int) -> Self:
        """Work of a GPU."""
        event = cls(id, name, thread, *times, [])
        event.on_device = True
        event.device_index, event.device_resource_id = device, stream
        event.cpu_time_total = 0.0
        return event

    @property
    def is_user_annotation(self) -> bool:
        """Whether it is a range of the program."""
        return self.scope == USER_SCOPE

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override] # an average has a sum
        """The time without the children."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """The bytes without those of the children."""
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """The bytes of GPUs without those of the children."""
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

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

    def callers(self) -> Iterator[FunctionEvent]:
        """Itself, and the events that it is in."""
        event: FunctionEvent | None = self
        while event is not None:
            yield event
            event = event.cpu_parent

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


class FunctionEventAvg(_Timed):
    """All calls with one name: their number (`count`), and the sums of their times in microseconds, bytes and operations. `cpu_time` is
    the mean.

    >>> with torch.profiler.profile() as profiled:
    ...     _ = torch.ones(2) + 1 + 2
    >>> [(entry.key, entry.count) for entry in profiled.key_averages() if "add" in entry.key]
    [('aten::add', 2)]
    """

    def __init__(self, key: Any = None, input_shapes: Any = None, stack: Any = ()) -> None:
        self.key = key
        self.count = 0
        self.input_shapes = input_shapes
        self.stack: list[str] = list(stack)
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0
        self.self_device_time_total = 0.0
        self._device_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.flops = self.scope = 0

    @property
    def device_time_total(self) -> float:
        """The time of the work on GPUs that the calls have enqueued."""
        return self._device_time_total

    def add(self, event: FunctionEvent | FunctionEventAvg) -> None:
        """Adds a call, or the calls of another average."""
        if self.count == 0:
            self.on_device, self.cpu_parent, self.scope = event.on_device, event.cpu_parent, event.scope
            self.use_device = event.use_device
        for name in (
            "count self_cpu_time_total self_device_time_total cpu_memory_usage self_cpu_memory_usage device_memory_usage "
            "self_device_memory_usage flops"
        ).split():
            setattr(self, name, getattr(self, name) + getattr(event, name))
        if isinstance(event, FunctionEventAvg):
            self.cpu_time_total += event.cpu_time_total
            self._device_time_total += event.device_time_total
            return
        # The time of a recursive call is counted once.
        if all(caller.name != event.name for caller in itertools.islice(event.callers(), 1, None)):
            self.cpu_time_total += event.cpu_time_total
            self._device_time_total += event.device_time_total

    @property
    def cpu_time(self) -> float:
        """Microseconds per call, on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str}  "
            f"self_{device}_time={time_text(self.self_device_time_total)} {device}_time={time_text(self.device_time)} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage}>"
        )


class EventList(list["Any"]):
    """A list of events or averages, with methods for tables and traces.

    Args:
        use_device: the type of the GPUs that were recorded, None without them.
        profile_memory: whether tables have columns for memory.
        with_flops: whether tables have a column for floating point operations.

    >>> with torch.profiler.profile() as profiled:
    ...     _ = torch.ones(2) + 1
    >>> profiled.key_averages().table().splitlines()[1].split()[:4]
    ['Name', 'Self', 'CPU', '%']
    """

    def __init__(
        self,
        *args: Any,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(*args)
        self._use_device, self._profile_memory, self._with_flops = use_device, profile_memory, with_flops
        self._memory: Sequence[MemoryChange] = ()

    def _like(self, events: Iterable[Any]) -> EventList:
        """Other events of the same profiler."""
        return EventList(
            events, use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops
        )

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events without their children."""
        return float(sum(event.self_cpu_time_total for event in self))

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """The events grouped by name.

        Args:
            group_by_input_shapes: whether calls with different shapes of arguments are different groups.
            group_by_stack_n: the number of Python functions, the innermost first, by which groups differ too.
            group_by_overload_name: accepted; it has no effect, because overloads are not recorded.
        """
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shapes else []
            stack = event.stack[: max(group_by_stack_n, 0)]
            key = (event.key, event.on_device, repr(shapes), *stack)
            if key not in found:
                found[key] = FunctionEventAvg(event.key, shapes, stack)
            found[key].add(event)
        return self._like(found.values())

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
        """The events as a table; empty without events.

        Args:
            sort_by: an attribute of the events, largest first: `cpu_time`, `cpu_time_total`, `self_cpu_time_total`, `count`,
                `cpu_memory_usage`, `self_cpu_memory_usage` or `flops`, and for GPUs `cuda_time`, `cuda_time_total`,
                `self_cuda_time_total`, `cuda_memory_usage` or `self_cuda_memory_usage`; not sorted by default.
            row_limit: the largest number of rows.
            max_src_column_width: of longer source locations the end is shown.
            max_name_column_width: longer names are truncated.
            max_shapes_column_width: longer shapes are truncated.
            header: a line above the table.
            top_level_events_only: whether to omit events that another event called.
            time_unit: `"us"`, `"ms"` or `"s"` for all times; by default it depends on the time.

        Raises:
            AttributeError: `sort_by` is unknown.

        >>> with torch.profiler.profile(profile_memory=True) as profiled:
        ...     x = torch.ones(256)
        >>> row = profiled.key_averages().table(sort_by="self_cpu_memory_usage", row_limit=1).splitlines()[3].split()
        >>> row[0], row[-3:-1]
        ('aten::ones', ['1.00', 'KB'])
        """
        if not self:
            return ""
        events: Sequence[Any] = self
        if sort_by is not None:
            attribute = attribute_of(sort_by)
            events = sorted(self, key=lambda event: getattr(event, attribute), reverse=True)
        return table(
            events,
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
        )

    def __str__(self) -> str:
        return self.table()

    def supported_export_stacks_metrics(self) -> list[str]:
        """The metrics of `export_stacks`."""
        return [f"self_{device}_time_total" for device in ("cpu", "cuda", "xpu", "privateuse1")]

    def export_stacks(self, path: str, metric: str) -> None:
        """Writes the Python functions of each event and its metric, for programs that draw flame graphs.

        Raises:
            ValueError: the metric is unknown.
        """
        metrics = self.supported_export_stacks_metrics()
        if metric not in metrics:
            raise ValueError(f"metric should be one of: {metrics}")
        attribute, separators = attribute_of(metric), str.maketrans(dict.fromkeys(" ;\t\n", "_"))
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                value = int(getattr(event, attribute))
                if event.stack and value > 0:
                    file.write(";".join(line.translate(separators) for line in reversed(event.stack)) + f" {value}\n")

    def export_chrome_trace(self, path: str) -> None:
        """Writes the events as a trace for chrome://tracing and https://ui.perfetto.dev."""
        write_trace(path, self, self._memory)


def __dir__() -> list[str]:
    return __all__

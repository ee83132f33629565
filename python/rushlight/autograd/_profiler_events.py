"""Makes the events of a profile from what the engine has recorded: which one called which, and to which memory, work of GPUs, Python
functions and floating point operations belong."""

from __future__ import annotations

from bisect import bisect_right

from rushlight.autograd._flops import flops_of
from rushlight.autograd._profiler_trace import MemoryChange
from rushlight.autograd.profiler_util import USER_SCOPE, EventList, FunctionEvent, Kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from rushlight.autograd import _python_frames

__all__ = ["read"]

#: torch's scopes of the engine's kinds of events: operators, nodes of a backward pass, ranges of the program.
_SCOPES = (0, 1, USER_SCOPE)


def nested(
    recorded: Iterable[tuple[Any, int]], since: int, frames: Iterable[_python_frames.Interval], with_flops: bool
) -> list[FunctionEvent]:
    """The recorded calls in the order in which they began, with the event that each is in."""
    # An event contains another one if it began earlier or ended later. If both are equal, a Python function contains an operator, and
    # what was recorded later contains what was recorded earlier.
    order: list[tuple[float, float, int, FunctionEvent]] = []
    for place, ((name, thread, start, end, sizes, result, sequence), kind) in enumerate(recorded, 1):
        event = FunctionEvent(0, name, thread, (start - since) / 1000, (end - since) / 1000, sizes)
        event.scope = _SCOPES[kind]
        event.sequence_nr = -1 if sequence is None else sequence
        if with_flops and sizes:
            event.flops = flops_of(name, sizes, result)
        order.append((start, -end, -place, event))
    first = -len(order) - 1
    for frame in frames:
        start, end = max(frame.start, since), max(frame.end, since)
        event = FunctionEvent(0, frame.name, frame.thread, (start - since) / 1000, (end - since) / 1000, [])
        event.is_python_function = True
        event.python_id, event.python_parent_id, event.python_module_id = frame.id, frame.parent, frame.module
        order.append((start, -end, first, event))
    order.sort(key=lambda item: item[:3])
    open_on: dict[int, list[FunctionEvent]] = {}
    for *_, event in order:
        around = open_on.setdefault(event.thread, [])
        while around and around[-1].time_range.end < event.time_range.end:
            around.pop()
        if around:
            around[-1].add_child(event)
        around.append(event)
    return [event for *_, event in order]


def add_stacks(events: Iterable[FunctionEvent]) -> None:
    """Gives each event the Python functions around it, and those of a backward pass the ones around the forward call."""
    forward: dict[tuple[int | None, int], FunctionEvent] = {}
    node_of: dict[int, FunctionEvent] = {}
    for event in events:
        parent = event.cpu_parent
        if parent is not None:
            event.stack = [parent.name, *parent.stack] if parent.is_python_function else parent.stack
        node = event if event.scope == 1 else node_of.get(id(parent))
        if node is not None:
            node_of[id(event)] = node
            # The last call that could have recorded the node is the one that has.
            found = forward.get((node.thread, node.sequence_nr)) or forward.get((None, node.sequence_nr))
            event.stack = [] if found is None else found.stack
            if node is event and found is not None:
                event.fwd_thread = found.thread
        elif event.sequence_nr >= 0:
            forward[event.thread, event.sequence_nr] = forward[None, event.sequence_nr] = event


def without_repetitions(events: Sequence[FunctionEvent]) -> list[FunctionEvent]:
    """The events without those that are all that an event of the same name has called: a call that the engine passes on to itself."""
    left_out = set()
    for event in events:
        while len(event.cpu_children) == 1 and event.cpu_children[0].name == event.name:
            [same] = event.cpu_children
            left_out.add(id(same))
            event.cpu_children = []
            for child in same.cpu_children:
                event.add_child(child)
    return [event for event in events if id(event) not in left_out]


class _Places:
    """Finds the innermost event of a thread at a time."""

    def __init__(self, events: Iterable[FunctionEvent]) -> None:
        self._of_threads: dict[int, list[FunctionEvent]] = {}
        for event in events:
            self._of_threads.setdefault(event.thread, []).append(event)

    def at(self, thread: int, time: float) -> FunctionEvent | None:
        begun = self._of_threads.get(thread, [])
        last = bisect_right(begun, time, key=lambda event: event.time_range.start)
        if last == 0:
            return None
        return next((event for event in begun[last - 1].callers() if event.time_range.end >= time), None)


def add_memory(places: _Places, changes: Iterable[MemoryChange]) -> list[FunctionEvent]:
    """Adds memory to the events that have taken it and those around them. Other changes become events, which it returns."""
    alone = []
    for change in changes:
        event = places.at(change.thread, change.time)
        if event is None:
            event = FunctionEvent(0, "[memory]", change.thread, change.time, change.time, [])
            alone.append(event)
        for caller in event.callers():
            if change.device is None:
                caller.cpu_memory_usage += change.bytes
            else:
                caller.device_memory_usage += change.bytes
    return alone


def add_work(places: _Places, work: Iterable[tuple[Any, ...]], since: int) -> list[FunctionEvent]:
    """Adds work of GPUs to the calls that have enqueued it, and returns it as events."""
    found = []
    for name, device, stream, thread, enqueued, start, end in work:
        times = (start - since) / 1000, (end - since) / 1000
        event = FunctionEvent.of_device(0, name, thread, times, device, stream)
        around = places.at(thread, (enqueued - since) / 1000)
        call = next((one for one in around.callers() if not one.is_python_function), None) if around else None
        if call is not None:
            call.kernels.append(Kernel(name, device, event.time_range.elapsed_us()))
        found.append(event)
    return found


def read(
    recorded: Iterable[tuple[Any, int]],
    since: int,
    *,
    work: Iterable[tuple[Any, ...]] = (),
    changes: Iterable[tuple[Any, ...]] | None = None,
    frames: Iterable[_python_frames.Interval] = (),
    with_flops: bool = False,
    use_device: str | None = None,
) -> EventList:
    """The events of a profile that began at a time of the engine's clock.

    Args:
        recorded: the calls that the engine has recorded, and what each is.
        since: the time.
        work: the work of GPUs.
        changes: the changes of memory, if they were recorded.
        frames: the calls of Python functions.
        with_flops: whether to count floating point operations.
        use_device: the type of the GPUs that were recorded.
    """
    events: Sequence[FunctionEvent] = nested(recorded, since, frames, with_flops)
    add_stacks(events)
    events = without_repetitions(events)
    places = _Places(events)
    memory = [MemoryChange((time - since) / 1000, *change) for time, *change in changes or ()]
    whole = [*events, *add_memory(places, memory), *add_work(places, work, since)]
    whole.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
    for number, event in enumerate(whole, 1):
        event.id, event.use_device = number, use_device
    found = EventList(whole, use_device=use_device, profile_memory=changes is not None, with_flops=with_flops)
    found._memory = memory
    return found

"""The table of a profiler's events or averages."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

__all__ = ["attribute_of", "memory_text", "table", "time_text"]

_WIDTH = 12
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


def attribute_of(key: str) -> str:
    """The attribute for a sort key or metric: those of devices have one name for all of them."""
    for device in ("cuda", "xpu", "privateuse1"):
        key = key.replace(device, "device")
    return key


def time_text(microseconds: float, unit: str | None = None) -> str:
    """A duration as text."""
    for name, size in (("s", 1e6), ("ms", 1e3)):
        if unit == name or (unit is None and microseconds >= size):
            return f"{microseconds / size:.3f}{name}"
    return f"{microseconds:.3f}us"


def memory_text(size: int) -> str:
    """A number of bytes as text."""
    for name, power in (("GB", 30), ("MB", 20), ("KB", 10)):
        if abs(size) >= 1 << power:
            return f"{size / (1 << power):.2f} {name}"
    return f"{size} B"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "NaN"


def _cut(text: str, width: int | None) -> str:
    return text if width is None or len(text) < width - 3 else text[: width - 3] + "..."


def _cut_before(text: str, width: int) -> str:
    """The end of a text."""
    return text if len(text) <= width else "..." + text[len(text) - width + 3 :]


def _width(texts: Iterable[str], most: int | None) -> int:
    longest = max(map(len, texts)) + 4
    return longest if most is None else min(longest, most)


class _Column:
    """A column: its heading, its width, and the text of an event."""

    def __init__(self, heading: str, text: Callable[[Any], str], width: int = _WIDTH, to_left: bool = False) -> None:
        self.heading, self.text, self.width, self.to_left = heading, text, width, to_left

    def fill(self, text: str) -> str:
        return text.ljust(self.width) if self.to_left else text.rjust(self.width)


def table(
    events: Sequence[Any],
    *,
    use_device: str | None,
    profile_memory: bool,
    with_flops: bool,
    row_limit: int,
    max_src_column_width: int | None,
    max_name_column_width: int | None,
    max_shapes_column_width: int | None,
    header: str | None,
    top_level_events_only: bool,
    time_unit: str | None,
) -> str:
    """The text of `EventList.table` for at least one event, in the order of the rows."""

    def time(microseconds: float) -> str:
        return time_text(microseconds, time_unit)

    total = sum(event.self_cpu_time_total for event in events)
    columns = [
        _Column(
            "Name",
            lambda event: _cut(event.key, max_name_column_width),
            _width((event.key for event in events), max_name_column_width),
        ),
        _Column("Self CPU %", lambda event: _percent(event.self_cpu_time_total, total)),
        _Column("Self CPU", lambda event: time(event.self_cpu_time_total)),
        _Column("CPU total %", lambda event: _percent(event.cpu_time_total, total)),
        _Column("CPU total", lambda event: time(event.cpu_time_total)),
        _Column("CPU time avg", lambda event: time(event.cpu_time)),
    ]
    name = "CUDA" if use_device is None else use_device.upper()
    on_devices = sum(event.self_device_time_total for event in events if event.on_device)
    if on_devices:
        columns += [
            _Column(f"Self {name}", lambda event: time(event.self_device_time_total)),
            _Column(f"Self {name} %", lambda event: _percent(event.self_device_time_total, on_devices)),
            _Column(f"{name} total", lambda event: time(event.device_time_total)),
            _Column(f"{name} time avg", lambda event: time(event.device_time)),
        ]
    if profile_memory:
        columns += [
            _Column("CPU Mem", lambda event: memory_text(event.cpu_memory_usage)),
            _Column("Self CPU Mem", lambda event: memory_text(event.self_cpu_memory_usage)),
        ]
        if use_device is not None and any(event.self_device_memory_usage > 0 for event in events):
            columns += [
                _Column(f"{name} Mem", lambda event: memory_text(event.device_memory_usage)),
                _Column(f"Self {name} Mem", lambda event: memory_text(event.self_device_memory_usage)),
            ]
    columns.append(_Column("# of Calls", lambda event: str(event.count)))
    if any(event.input_shapes for event in events):
        width = _width((str(event.input_shapes) for event in events), max_shapes_column_width)
        columns.append(_Column("Input Shapes", lambda event: str(event.input_shapes)[:width], width))
    source = None
    if any(event.stack for event in events):
        width_of_source = _width((line for event in events for line in event.stack), max_src_column_width)
        source = _Column(
            "Source Location",
            lambda event: _cut_before(event.stack[0], width_of_source) if event.stack else "",
            width_of_source,
            to_left=True,
        )
        columns.append(source)
    counted = [event.flops for event in events if event.flops > 0]
    if with_flops and counted:
        power = min(max(int(math.log10(min(counted)) / 3), 0), len(_FLOPS) - 1)
        columns.append(
            _Column(
                f"Total {_FLOPS[power]}",
                lambda event: f"{event.flops / 1000**power:8.3f}" if event.flops > 0 else "--",
            )
        )

    def row(cells: Iterable[str]) -> str:
        return "".join(column.fill(cell) + "  " for column, cell in zip(columns, cells))

    line = row("-" * column.width for column in columns)
    above = "=" * (len(line) - 2)
    lines = [] if header is None else [above, header]
    if top_level_events_only:
        lines += [above, "This report only display top-level ops statistics"]
    lines += [line, row(column.heading for column in columns), line]
    shown = [event for event in events if not (top_level_events_only and event.cpu_parent is not None)]
    for event in shown[:row_limit] if row_limit >= 0 else shown:
        lines.append(row(column.text(event) for column in columns))
        if source is not None:
            # The callers of the first one have lines of their own, and an empty line ends them.
            for caller in [*event.stack[1:], ""]:
                text = _cut_before(caller, source.width)
                lines.append(row(text if column is source else "" for column in columns))
    lines += [line, f"Self CPU time total: {time(total)}"]
    if on_devices:
        lines.append(f"Self {name} time total: {time(on_devices)}")
    return "\n".join([*lines, ""])

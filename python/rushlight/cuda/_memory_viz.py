"""Snapshots of `torch.cuda.memory._snapshot` as texts and pictures.

As a program it takes files of `torch.cuda.memory._dump_snapshot`: ``python -m rushlight.cuda._memory_viz stats snapshot.pickle``. Its
other commands are ``trace``, ``segments``, ``memory``, ``compare``, ``trace_plot`` and ``segment_plot``.
"""

from __future__ import annotations

from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

__all__ = ["format_flamegraph", "segments", "memory", "compare"]

#: The bytes for which a text has one character.
PAGE_SIZE = 20 << 20
#: What is left out of stacks: functions and files of the interpreter and of calls inside of torch.
_HIDDEN_FUNCTIONS = "unwind::unwind CapturedTraceback::gather gather_with_cpp _start __libc_start_main PyEval_ PyObject_ PyFunction_".split()
_HIDDEN_FILES = (
    "core/boxing /Register /Redispatch pythonrun.c Modules/main.c Objects/call.c Objects/methodobject.c pycore_ceval.h "
    "ceval.c cpython/abstract.h"
).split()


class Bytes:
    """A number of bytes, which prints with a unit.

    >>> from rushlight.cuda._memory_viz import Bytes
    >>> Bytes(3 << 19)
    1.5MiB
    """

    def __init__(self, value: float) -> None:
        self.value = value

    def __add__(self, other: float) -> Bytes:
        return Bytes(self.value + other)

    def __repr__(self) -> str:
        value = self.value
        for unit in ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi"):
            if abs(value) < 1024:
                return f"{value:3.1f}{unit}B"
            value /= 1024
        return f"{value:.1f}YiB"


def _shown(frame: dict[str, Any]) -> bool:
    return not (
        any(part in frame["name"] for part in _HIDDEN_FUNCTIONS)
        or any(part in frame["filename"] for part in _HIDDEN_FILES)
    )


def _stack(frames: list[dict[str, Any]]) -> str:
    """The lines of a stack, the outermost first."""
    if not frames:
        return "<non-python>"
    shown = [frame for frame in reversed(frames) if _shown(frame)]
    return ";".join(f"{frame['filename'].split('/')[-1]}:{frame['line']}:{frame['name']}" for frame in shown)


def _asked(block: dict[str, Any]) -> tuple[str, int]:
    """The stack of a block, and the bytes that were asked for."""
    return _stack(block.get("frames", [])), block.get("requested_size", block["size"])


def _lines(prefix: str, blocks: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each block, and one for what it has more than was asked for."""
    for block in blocks:
        stack, size = _asked(block)
        yield f"{prefix};{block['state']};{stack} {size}\n"
        if block["size"] != size:
            yield f"{prefix};{block['state']};<gaps> {block['size'] - size}\n"


def format_flamegraph(flamegraph_lines: str, flamegraph_script: str | None = None) -> str:
    """Stacks with sizes as a picture: each box is as wide as the bytes of all stacks that go through it.

    Args:
        flamegraph_lines: lines of names with ``;`` between them, the outermost first, a space and a number of bytes.
        flamegraph_script: a program that makes the picture in place of this function, such as ``flamegraph.pl``.

    Returns:
        the text of an SVG.

    Raises:
        AssertionError: the program fails.

    >>> from rushlight.cuda._memory_viz import format_flamegraph
    >>> format_flamegraph("main;step 512\\n").startswith("<svg")
    True
    """
    if flamegraph_script is None:
        return _picture(flamegraph_lines)
    import subprocess

    done = subprocess.run(
        [flamegraph_script, "--countname", "bytes"], input=flamegraph_lines, stdout=subprocess.PIPE, encoding="utf-8"
    )
    if done.returncode != 0:
        raise AssertionError(f"flamegraph process exited with code {done.returncode}")
    return done.stdout


#: The width of a picture and the height of a row, in points.
_WIDTH, _ROW = 1200, 17


def _picture(lines: str) -> str:
    from html import escape

    sizes: Counter[tuple[str, ...]] = Counter()
    for line in lines.splitlines():
        stack, size = line.rsplit(" ", 1)
        sizes[tuple(stack.split(";"))] += int(size)
    whole = max(sum(sizes.values()), 1)
    depth = max(map(len, sizes), default=0)
    boxes: list[tuple[int, int, int, str]] = [(0, 0, whole, "all")]

    def add(stacks: list[tuple[tuple[str, ...], int]], level: int, begin: int) -> None:
        names: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for stack, size in stacks:
            if len(stack) > level:
                names.setdefault(stack[level], []).append((stack, size))
        for name, inside in names.items():
            width = sum(size for _, size in inside)
            boxes.append((level + 1, begin, width, name))
            add(inside, level + 1, begin)
            begin += width

    add(sorted(sizes.items()), 0, 0)
    height = (depth + 1) * _ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="monospace" font-size="11">\n'
    ]
    for level, begin, width, name in boxes:
        x, drawn, y = _WIDTH * begin / whole, _WIDTH * width / whole, height - (level + 1) * _ROW
        # Names of one kind have one colour in all pictures.
        hue = sum(map(ord, name)) * 37 % 60
        label = escape(f"{name} ({width:,} bytes, {100 * width / whole:.2f}%)")
        text = escape(name[: int(drawn / 7)])
        parts.append(
            f'<g><title>{label}</title><rect x="{x:.1f}" y="{y}" width="{drawn:.1f}" height="{_ROW - 1}" '
            f'fill="hsl({hue},80%,65%)"/><text x="{x + 2:.1f}" y="{y + 12}">{text}</text></g>\n'
        )
    return "".join([*parts, "</svg>\n"])


def segments(snapshot: dict[str, Any], format_flamegraph: Callable[[str], str] = format_flamegraph) -> str:
    """A picture of what the segments of a snapshot contain.

    Args:
        snapshot: of `torch.cuda.memory._snapshot`.
        format_flamegraph: makes the picture.
    """
    parts = (
        line
        for segment in snapshot["segments"]
        for line in _lines(f"stream_{segment['stream']};seg_{segment['address']}", segment["blocks"])
    )
    return format_flamegraph("".join(parts))


def memory(snapshot: dict[str, Any], format_flamegraph: Callable[[str], str] = format_flamegraph) -> str:
    """A picture of the lines of the program that use the memory of a snapshot. See `segments`."""
    parts = (
        line for segment in snapshot["segments"] for line in _lines(f"stream_{segment['stream']}", segment["blocks"])
    )
    return format_flamegraph("".join(parts))


def compare(
    before: list[dict[str, Any]],
    after: list[dict[str, Any]],
    format_flamegraph: Callable[[str], str] = format_flamegraph,
) -> str:
    """A picture of the segments that only one of two snapshots has. It prints their addresses.

    Args:
        before, after: segments, of `torch.cuda.memory_snapshot`.
        format_flamegraph: makes the picture.
    """
    sides = {"only_before": (before, after), "only_after": (after, before)}
    parts: list[str] = []
    for name, (own, other) in sides.items():
        known = {(segment["address"], segment["total_size"]) for segment in other}
        alone = [segment for segment in own if (segment["address"], segment["total_size"]) not in known]
        print(f"{name} = {[segment['address'] for segment in alone]}")
        for segment in alone:
            parts += _lines(f"{name};stream_{segment['stream']};seg_{segment['address']}", segment["blocks"])
    return format_flamegraph("".join(parts))


def _pages(segment: dict[str, Any]) -> str:
    """A segment as a line with a character for each page."""
    shown = [" "] * ((segment["total_size"] - 1) // PAGE_SIZE + 1)
    filled = [0.0] * len(shown)
    begin = used = 0
    for block in segment["blocks"]:
        if block["state"] == "active_allocated":
            end = begin + _asked(block)[1]
            for page in range(begin // PAGE_SIZE, (end - 1) // PAGE_SIZE + 1):
                inside = min(end, (page + 1) * PAGE_SIZE) - max(begin, page * PAGE_SIZE)
                filled[page] += inside / PAGE_SIZE
                alone = shown[page] == " "
                shown[page] = chr(ord("a") + used % 26) if alone else "0123456789*"[int(filled[page] * 10)]
            used += 1
        begin += block["size"]
    return "".join(shown)


def _free(outside: int, inside: int) -> str:
    total = outside + inside
    return f"{Bytes(total)}" + (f" ({100 * inside / total:.1f}% internal)" if total else "")


def segsum(data: dict[str, Any]) -> str:
    """How full the segments of a snapshot are, as a text.

    Memory is free between blocks, or inside of blocks that are larger than what was asked for.

    Args:
        data: a snapshot of `torch.cuda.memory._snapshot`.

    Raises:
        AssertionError: the blocks of a segment do not add up to it.
    """
    out = [f"Summary of segments >= {Bytes(PAGE_SIZE)} in size\n"]
    reserved = allocated = between = within = 0

    def active(segment: dict[str, Any]) -> list[dict[str, Any]]:
        return [block for block in segment["blocks"] if block["state"] == "active_allocated"]

    def order(segment: dict[str, Any]) -> tuple[int, int]:
        return segment["total_size"], sum(block["size"] for block in active(segment))

    for segment in sorted(data["segments"], key=order):
        total, blocks = segment["total_size"], active(segment)
        taken, asked = (sum(block["size"] for block in blocks), sum(_asked(block)[1] for block in blocks))
        whole = sum(block["size"] for block in segment["blocks"])
        if whole != total:
            raise AssertionError(f"Segment size mismatch: {whole - taken} + {taken - asked} + {asked} != {total}")
        reserved, allocated = reserved + total, allocated + asked
        between, within = between + whole - taken, within + taken - asked
        if total >= PAGE_SIZE:
            stream = f" stream_{segment['stream']}" if segment["stream"] else ""
            free = _free(whole - taken, taken - asked)
            out.append(f"[{_pages(segment)}] {Bytes(total)} allocated, {free} free{stream}\n")
    out += [
        f"segments: {len(data['segments'])}\n",
        f"total_reserved: {Bytes(reserved)}\n",
        f"total_allocated: {Bytes(allocated)}\n",
        f"total_free: {_free(between, within)}\n",
        "\nLegend:\n",
        "    [a     ] - a segment in the allocator\n",
        f"     ^-- a page {Bytes(PAGE_SIZE)} of memory in the segment\n",
        "    a-z: pages filled with a single block's content\n",
        "    ' ': page is completely free\n",
        "    *: page if completely full with multiple blocks\n",
        "    0-9: page is partially full with tensors of multiple blocks (9 == 90% full)\n",
        "    (X% internal) - of the free memory, X% is free because we rounded the size of the allocation.\n",
    ]
    return "".join(out)


class _Names:
    """The names of segments and blocks in the text of a trace: a, b, ..., z, a1, ..."""

    def __init__(self, segments: list[dict[str, Any]]) -> None:
        self.count = 0
        self.blocks: dict[int, str] = {}
        self.segments: dict[int, str] = {}
        #: Name, address and size of each segment, those of the trace before those of the snapshot.
        self.places: list[tuple[str, int, int]] = []
        self.known = [(f"seg_{n}", segment["address"], segment["allocated_size"]) for n, segment in enumerate(segments)]

    def new(self) -> str:
        round, letter = divmod(self.count, 26)
        self.count += 1
        return chr(ord("a") + letter) + (str(round) if round else "")

    def place(self, address: int) -> tuple[str, int]:
        """The segment of an address, and how far behind its beginning the address is."""
        for name, begin, size in (*self.places, *self.known):
            if begin <= address < begin + size:
                return name, address - begin
        return "MEM", address


def _told(entries: list[dict[str, Any]], segments: list[dict[str, Any]]) -> Iterator[str]:
    names = _Names(segments)
    yield f"{len(entries)} entries\n"
    total = 0
    for entry in entries:
        action, address, size = entry["action"], entry.get("addr", 0), Bytes(entry["size"])
        if action == "alloc":
            names.blocks[address] = name = names.new()
            place, offset = names.place(address)
            total += entry["size"]
            yield f"{name} = {place}[{offset}:{size}]\n"
        elif action == "free_requested":
            yield f"del {names.blocks.get(address, address)} # {size}\n"
        elif action == "free_completed":
            total -= entry["size"]
            yield f"# free completed for {names.blocks.get(address, address)} {size}\n"
        elif action == "segment_alloc":
            names.segments[address] = name = names.new()
            names.places.append((name, address, entry["size"]))
            yield f"{name} = cudaMalloc({address}, {size})\n"
        elif action == "segment_free":
            yield f"cudaFree({names.segments.get(address, address)}) # {size}\n"
        elif action == "oom":
            yield f"raise OutOfMemoryError # {size} requested, {Bytes(entry['device_free'])} free in CUDA\n"
        else:
            yield f"{entry}\n"
    yield f"TOTAL MEM: {Bytes(total)}"


def trace(data: dict[str, Any]) -> str:
    """What allocators have done, as lines that look like a program.

    Args:
        data: a snapshot of `torch.cuda.memory._snapshot`, with the record of `_record_memory_history`. The total at the end is that
            of all actions.
    """
    parts: list[str] = []
    for device, entries in enumerate(data["device_traces"]):
        if entries:
            parts += [f"Device {device} ----------------\n", *_told(entries, data["segments"])]
    return "".join(parts)


#: PyTorch's page that draws snapshots, with a snapshot in it.
_PAGE = """<!DOCTYPE html>
<html>
<body>
<script type="module">
import {{add_local_files}} from "https://cdn.jsdelivr.net/gh/pytorch/pytorch@main/torch/utils/viz/MemoryViz.js"
add_local_files({files}, {view})
</script>
</body>
</html>
"""


def _page(data: Any, view: str, device: Any) -> str:
    import base64
    import json
    import pickle
    import warnings

    if device is not None:
        warnings.warn("device argument is deprecated, plots now contain all device", FutureWarning, stacklevel=3)
    encoded = base64.b64encode(pickle.dumps(data)).decode()
    files = json.dumps([{"name": "snapshot.pickle", "base64": encoded}])
    return _PAGE.format(files=files, view=json.dumps(view))


def filter_alloc_free_pairs(data: dict[str, Any]) -> dict[str, Any]:
    """A snapshot without the actions of blocks that were freed again."""
    for device, entries in enumerate(data["device_traces"]):
        dropped: set[int] = set()
        allocated: dict[int, int] = {}
        requested: set[int] = set()
        for n, entry in enumerate(entries):
            action, address = entry["action"], entry.get("addr")
            if action == "alloc":
                allocated[address] = n
            elif action == "free_requested":
                requested.add(address)
                if address in allocated:
                    dropped |= {n, allocated.pop(address)}
            elif action == "free_completed" and address in requested:
                requested.discard(address)
                dropped.add(n)
        data["device_traces"][device] = [entry for n, entry in enumerate(entries) if n not in dropped]
    return data


def trace_plot(data: Any, device: Any = None, plot_segments: bool = False, filter_freed: bool = False) -> str:
    """The memory in use over time, as a page whose script the browser takes from PyTorch's repository.

    Args:
        data: a snapshot of `torch.cuda.memory._snapshot`.
        device: has no effect: the page has all GPUs.
        plot_segments: whether segments are drawn in place of blocks.
        filter_freed: whether blocks that were freed again are left out.
    """
    if filter_freed:
        data = filter_alloc_free_pairs(data)
    return _page(data, "Active Cached Memory Timeline" if plot_segments else "Active Memory Timeline", device)


def profile_plot(profile: Any, device: Any = None) -> str:
    """The memory in use over time in a profile, the host's among it, as the page of `trace_plot`.

    Args:
        profile: a profile that was made with ``profile_memory=True``.
        device: has no effect: the page has all GPUs.

    Raises:
        ValueError: the profile has not recorded memory.
    """
    from ._profiled_memory import snapshot

    return _page(snapshot(profile), "Active Memory Timeline", device)


def segment_plot(data: Any, device: Any = None) -> str:
    """How blocks lay in segments after each action. See `trace_plot`."""
    return _page(data, "Allocator State History", device)


def _read(name: str) -> Any:
    import pickle
    import sys

    if name == "-":
        data = pickle.load(sys.stdin.buffer)
    else:
        with open(name, "rb") as file:
            data = pickle.load(file)
    # A list is that of segments.
    return {"segments": data, "device_traces": []} if isinstance(data, list) else data


def main(arguments: Iterable[str] | None = None) -> None:
    """The program: a command, files of snapshots, and where the result goes."""
    import argparse

    parser = argparse.ArgumentParser(description="Visualize memory dumps produced by torch.cuda.memory._snapshot()")
    commands = parser.add_subparsers(dest="action", required=True)
    actions = {
        "stats": "print how full the segments are",
        "trace": "print what the allocators have done",
        "segments": "draw what the segments contain",
        "memory": "draw the lines of the program that use memory",
        "compare": "draw the segments that only one of two snapshots has",
        "trace_plot": "write a page with the memory in use over time",
        "segment_plot": "write a page with the segments over time",
    }
    for name, about in actions.items():
        command = commands.add_parser(name, description=about, help=about)
        for file in ("before", "after") if name == "compare" else ("input",):
            command.add_argument(file, help="a file of torch.cuda.memory._dump_snapshot, or - for the standard input")
        if name.endswith("plot"):
            command.add_argument("-d", "--device", type=int, help="has no effect")
        if name not in ("stats", "trace"):
            default = "output.html" if name.endswith("plot") else "output.svg"
            command.add_argument("-o", "--output", default=default, help=f"where to write (default: {default})")
        if name == "trace_plot":
            command.add_argument("-s", "--segments", action="store_true", help="draw segments in place of blocks")
            command.add_argument("-f", "--filter_freed", action="store_true", help="leave out what was freed again")
    given = parser.parse_args(None if arguments is None else list(arguments))
    if given.action in ("stats", "trace"):
        print((segsum if given.action == "stats" else trace)(_read(given.input)))
        return
    if given.action == "compare":
        result = compare(_read(given.before)["segments"], _read(given.after)["segments"])
    elif given.action == "trace_plot":
        result = trace_plot(_read(given.input), given.device, given.segments, given.filter_freed)
    elif given.action == "segment_plot":
        result = segment_plot(_read(given.input), given.device)
    else:
        result = (segments if given.action == "segments" else memory)(_read(given.input))
    with open(given.output, "w") as output:
        output.write(result)


if __name__ == "__main__":
    main()

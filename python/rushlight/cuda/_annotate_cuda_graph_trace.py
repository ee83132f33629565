"""Puts the names of pieces of work in CUDA graphs (`torch.cuda.graphs.mark_kernels`) into the trace of a profiler.

As a program it takes the file of a trace, whose kernels carry their numbers as ``graph node id``, and a pickle of the names by these
numbers: ``python -m rushlight.cuda._annotate_cuda_graph_trace trace.json.gz -a names.pkl``. Without ``-a`` the pickle is looked for
in the folder above the trace's, under the name ``kernel_annotations_rank<N>_*.pkl``, where the trace's name begins with N.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: The categories of events that are work of a GPU.
_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
#: The stream of the work of graphs without a name, and the one for work that overlaps another one of it.
_DEFAULT_STREAM, _OVERLAP_STREAM = 7, 8


def _number(event: dict[str, Any]) -> int:
    """The number of a piece of a graph; 0 for other events."""
    return event.get("args", {}).get("graph node id") or 0


def _is_work(event: dict[str, Any]) -> bool:
    return event.get("cat") in _WORK


def _move_overlapping_to_stream(
    trace: dict[str, Any], default_stream: int = _DEFAULT_STREAM, overlap_stream: int = _OVERLAP_STREAM
) -> int:
    """Moves kernels of graphs that begin before the one before them ends to a stream of their own, where viewers show them.

    Returns the number of kernels that were moved.
    """
    kernels = [
        event
        for event in trace["traceEvents"]
        if event.get("cat") == "kernel" and event.get("tid") == default_stream and _number(event)
    ]
    moved, end = 0, 0.0
    for event in sorted(kernels, key=lambda event: event["ts"]):
        if event["ts"] < end:
            event["tid"] = event["args"]["stream"] = overlap_stream
            moved += 1
        else:
            end = event["ts"] + event.get("dur", 0)
    return moved


def _fix_overlapping_timestamps(trace: dict[str, Any], max_adjust_us: float = 1.0) -> int:
    """Lets work of graphs that overlaps by very little begin where the work before it on the same stream ends.

    More than `max_adjust_us` is no inaccuracy of the clock: it is told and left alone. Returns the number of events that were changed.
    """
    streams: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if _is_work(event) and _number(event):
            streams[event.get("tid")].append(event)
    changed = 0
    for stream, events in streams.items():
        end = 0.0
        for event in sorted(events, key=lambda event: event["ts"]):
            overlap = end - event["ts"]
            if overlap > max_adjust_us:
                name = event.get("name", "?")[:60]
                print(f"WARNING: large overlap {overlap:.3f}us on stream {stream} for {name}, skipping adjustment")
            elif overlap > 0:
                event["ts"] = end
                changed += 1
            end = event["ts"] + event.get("dur", 0)
    return changed


def annotate_trace(
    trace: dict[str, Any], annotations: dict[int, list[Any]], default_stream: int = _DEFAULT_STREAM
) -> int:
    """Adds names to the events of graphs, and moves these to the streams that the names tell.

    What a graph runs appears on one stream, and profilers repeat ranges on all streams: those on streams without work are removed, as are
    the arrows there and the names of streams without events.

    Args:
        trace: a trace, which is changed.
        annotations: the names of each piece of work by its number. Those that are dicts become fields of the event, of which later ones
            win; ``stream`` is the number of the stream.
        default_stream: the stream of work without names.

    Returns:
        the number of events with names.
    """
    arrows: dict[tuple[Any, Any], list[dict[str, Any]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if _ends_arrow(event):
            arrows[event.get("tid"), event.get("ts")].append(event)
    named = 0
    for event in trace["traceEvents"]:
        number = _number(event)
        if not number:
            continue
        args, stream = event["args"], default_stream
        named += number in annotations
        for name in annotations.get(number, ()):
            if not isinstance(name, dict):
                args["annotation"] = str(name)
                continue
            args.update((key, str(value)) for key, value in name.items())
            stream = int(name.get("stream", stream))
        # An arrow ends where the work begins.
        for arrow in arrows.get((event.get("tid"), event.get("ts")), ()):
            arrow["tid"] = stream
        event["tid"] = args["stream"] = stream
    _remove_noise(trace)
    return named


def _ends_arrow(event: dict[str, Any]) -> bool:
    return event.get("cat") == "ac2g" and event.get("ph") == "f"


def _remove_noise(trace: dict[str, Any]) -> None:
    """Removes what stands on streams without work, and names the streams that have work and no name."""
    events = trace["traceEvents"]
    working = {event.get("tid") for event in events if _is_work(event)}
    kept = [
        event
        for event in events
        if event.get("tid") in working or not (event.get("cat") == "gpu_user_annotation" or _ends_arrow(event))
    ]
    if len(kept) < len(events):
        print(f"Removed {len(events) - len(kept)} noise events from empty streams")
    filled = {event.get("tid") for event in kept if event.get("ph") != "M"}
    names = [event for event in kept if event.get("ph") == "M" and event.get("name") == "thread_name"]
    # The process of the GPU is that of its streams.
    of_streams = (event for event in names if str(event.get("args", {}).get("name", "")).startswith("stream "))
    process = next((event.get("pid", 0) for event in of_streams), 0)
    kept = [event for event in kept if event.get("ph") != "M" or event.get("tid") in filled]
    known = {event.get("tid") for event in names}
    for stream in sorted(working - known):
        kept.append(
            {"ph": "M", "pid": process, "tid": stream, "name": "thread_name", "args": {"name": f"stream {stream}"}}
        )
    trace["traceEvents"] = kept


def load_trace(path: Path) -> dict[str, Any]:
    """A trace of a file, which may be compressed."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        return json.load(file)


def save_trace(trace: dict[str, Any], path: Path) -> None:
    """Writes a trace, compressed if the name ends with ``.gz``."""
    with gzip.open(path, "wt") if path.suffix == ".gz" else open(path, "w") as file:
        json.dump(trace, file)


def _find_annotations_pkl(trace_file: Path) -> Path | None:
    """The pickle of names that belongs to a trace."""
    rank = re.match(r"\d+", trace_file.name)
    if rank is None:
        return None
    found = sorted(trace_file.parent.parent.glob(f"kernel_annotations_rank{int(rank[0])}_*.pkl"))
    return found[0] if found else None


def _annotated(file: Path) -> Path:
    """Where the result goes by default."""
    for end in (".json.gz", ".json"):
        if file.name.endswith(end):
            return file.with_name(f"{file.name.removesuffix(end)}.annotated{end}")
    return file.with_name(f"{file.name}.annotated")


def main(arguments: Iterable[str] | None = None) -> None:
    """The program."""
    import argparse
    import pickle
    import sys

    parser = argparse.ArgumentParser(description="Annotate a profiler trace with CUDA graph kernel annotations.")
    parser.add_argument("trace_file", type=Path, help="the trace (.json or .json.gz)")
    parser.add_argument("-a", "--annotations", type=Path, help="the pickle of names; looked for if it is left out")
    parser.add_argument(
        "-o", "--output", type=Path, help="where the result goes (default: <trace_file>.annotated.<ext>)"
    )
    parser.add_argument(
        "--default-stream",
        type=int,
        default=_DEFAULT_STREAM,
        help=f"the stream of work without a name (default: {_DEFAULT_STREAM})",
    )
    given = parser.parse_args(None if arguments is None else list(arguments))
    names = given.annotations
    if names is None:
        names = _find_annotations_pkl(given.trace_file)
        if names is None:
            print(
                f"Could not auto-discover annotations pickle for {given.trace_file}. Use -a to specify it explicitly.",
                file=sys.stderr,
            )
            sys.exit(1)
        print(f"Auto-discovered annotations: {names}")
    with open(names, "rb") as file:
        annotations = pickle.load(file)
    print(f"Loaded {len(annotations)} kernel annotations")
    trace = load_trace(given.trace_file)
    print(f"Loaded trace with {len(trace.get('traceEvents', []))} events")
    print(f"Annotated {annotate_trace(trace, annotations, given.default_stream)} kernel events")
    if moved := _move_overlapping_to_stream(trace, given.default_stream):
        print(f"Moved {moved} overlapping events to stream {_OVERLAP_STREAM}")
    if changed := _fix_overlapping_timestamps(trace):
        print(f"Fixed {changed} overlapping graphed event timestamps")
    output = given.output or _annotated(given.trace_file)
    save_trace(trace, output)
    print(f"Saved annotated trace to {output}")


if __name__ == "__main__":
    main()

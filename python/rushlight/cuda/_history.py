"""What the allocators of GPUs do, recorded with the lines of the program that asked for it."""

from __future__ import annotations

import sys
from functools import wraps

from rushlight import _C

from ._memory import memory_snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _legacy_settings(
    record_context: bool = True,
    trace_alloc_max_entries: int = 1,
    trace_alloc_record_context: bool = False,
    device: Any = None,
    record_context_cpp: bool = False,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: list[str] | None = None,
) -> tuple[Any, bool]:
    """The settings of the old form, whose first argument is a bool."""
    frames = [record_context, record_context and trace_alloc_record_context, False]
    return (True, frames, trace_alloc_max_entries, list(skip_actions or [])), clear_history


def _settings(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Any = None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: list[str] | None = None,
) -> tuple[Any, bool]:
    if enabled not in (None, "state", "all"):
        raise RuntimeError("expected state to be 'state', 'all', or None")
    if context not in (None, "state", "alloc", "all"):
        raise RuntimeError("expected context to be 'state', 'alloc', 'all', or None")
    if stacks not in ("python", "all"):
        raise RuntimeError("expected stacks to be 'python', or 'all'")
    if enabled is None:
        return None, clear_history
    known = (None, "state", "alloc", "all")
    frames = [known.index(context) >= level for level in (1, 2, 3)]
    return (enabled == "all", frames, max_entries, list(skip_actions or [])), clear_history


@wraps(_settings, assigned=())
def _record_memory_history(enabled: Any = "all", *args: Any, **kwargs: Any) -> None:
    """Begins to record what allocators do, with the lines of Python that asked for it, or ends it.

    Args:
        enabled: ``"all"`` keeps each allocation and each free, ``"state"`` only the lines of blocks in use; None ends the record.
        context: which lines are kept: ``"state"`` those of blocks in use, ``"alloc"`` those of recorded allocations too, ``"all"``
            those of frees as well; None keeps none.
        stacks: ``"python"`` or ``"all"``, which has no more: lines of Rust are not recorded.
        max_entries: the most actions of a GPU; older ones are forgotten.
        clear_history: whether to forget what was recorded before.
        skip_actions: names of actions that are not kept.

    Raises:
        RuntimeError: a name is unknown, or there is no GPU.
    """
    if isinstance(enabled, bool):
        settings, clear = _legacy_settings(*args, **kwargs)
        settings = settings if enabled else None
    else:
        settings, clear = _settings(enabled, *args, **kwargs)
    _C._cuda_init()
    _C._cuda_record_history(settings, clear)


def _frames(rows: list[tuple[str, int, str]]) -> list[dict[str, Any]]:
    return [{"filename": filename, "line": line, "name": name} for filename, line, name in rows]


def _entry(row: tuple[Any, ...]) -> dict[str, Any]:
    action, address, size, stream, pool, time, frames, metadata = row
    return {
        "action": action,
        "device_free" if action == "oom" else "addr": address,
        "size": size,
        "stream": stream,
        "time_us": time,
        "compile_context": "N/A",
        "user_metadata": metadata,
        "pool_id": (0, pool),
        "frames": _frames(frames),
    }


def _snapshot(device: Any = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """The memory of all GPUs, and what was recorded of it, as the page pytorch.org/memory_viz reads it.

    Args:
        device: has no effect, as in torch.
        augment_with_fx_traces: has no effect: no lines are those of generated code.

    Returns:
        ``segments`` as in `memory_snapshot`, ``device_traces`` with a list of actions for each GPU, ``allocator_settings`` and
        ``external_annotations``.

    >>> torch.cuda.memory._snapshot()["segments"]
    []
    """
    used = range(_C._cuda_device_count()) if _C._cuda_is_initialized() else ()
    return {
        "segments": memory_snapshot(),
        "device_traces": [[_entry(row) for row in _C._cuda_history(index)] for index in used],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": _C._cuda_allocator_settings_text(),
            **_C._cuda_allocator_settings(),
        },
        "external_annotations": [],
    }


def _dump_snapshot(filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Writes a `_snapshot` to a file, for the page pytorch.org/memory_viz."""
    import pickle

    with open(filename, "wb") as file:
        pickle.dump(_snapshot(augment_with_fx_traces=augment_with_fx_traces), file)


def _allocation_traceback(data_ptr: int) -> list[dict[str, Any]] | None:
    """The lines that asked for the block of an address, the innermost first; None if they were not recorded."""
    for segment in memory_snapshot():
        for block in segment["blocks"]:
            if block["address"] == data_ptr and block["frames"]:
                return block["frames"]
    return None


def _set_memory_metadata(metadata: str) -> None:
    """Sets a text that is kept with the actions that are recorded from now on."""
    _C._cuda_set_history_metadata(metadata)


def _get_memory_metadata() -> str:
    """The text of `_set_memory_metadata`.

    >>> torch.cuda.memory._get_memory_metadata()
    ''
    """
    return _C._cuda_history_metadata()


def _save_segment_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    """Writes a picture of what segments contain to a file.

    Args:
        filename: the file, an SVG.
        snapshot: of `_snapshot`, by default a new one.
    """
    from ._memory_viz import segments

    with open(filename, "w") as file:
        file.write(segments(_snapshot() if snapshot is None else snapshot))


def _save_memory_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    """Writes a picture of the lines of the program that use memory to a file. See `_save_segment_usage`."""
    from ._memory_viz import memory

    with open(filename, "w") as file:
        file.write(memory(_snapshot() if snapshot is None else snapshot))

"""Names for the pieces of work in graphs, by which profilers tell them apart.

A name belongs to the kernels and copies that are recorded inside of a ``with`` block of `mark_kernels`. It is kept under the number
of the piece for tools, for which the driver must be of CUDA 13.1 or later; with an older one nothing is kept.
"""

from __future__ import annotations

from contextlib import contextmanager

from rushlight import _C

from ._contexts import StreamContext
from ._streams import current_stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ._graphs import CUDAGraph
    from ._streams import Stream


class _Names:
    """What was marked."""

    def __init__(self) -> None:
        self.enabled = False
        #: Names with the numbers of their pieces, until `resolve_pending_annotations`.
        self.pending: list[tuple[Any, list[int]]] = []
        self.kept: dict[int, list[Any]] = {}
        #: The number of the graph whose names were resolved last.
        self.graph: int | None = None
        #: Numbers of streams for the names, above those that profilers show.
        self.streams: dict[int | str, int] = {}


_names = _Names()
_FIRST_STREAM = 60


def enable_annotations() -> None:
    """Lets `mark_kernels` keep names."""
    _names.enabled = True


def disable_annotations() -> None:
    """Ends `enable_annotations`."""
    _names.enabled = False


def _reached(before: Any, after: Any) -> list[int]:
    """The numbers of kernels and copies that were recorded between two looks at a capture, after what came last at the first one."""
    known = {number for _, number, _ in before[0]}
    numbers = [number for _, number, _ in after[0]]
    start = {before[0][index][1] for index in before[2]}
    earlier: dict[int, list[int]] = {}
    for first, second in after[1]:
        earlier.setdefault(numbers[second], []).append(numbers[first])
    reached: set[int] = set()
    # Nodes stand in no promised order, so that several passes may be needed.
    while True:
        new = {
            number
            for number in numbers
            if number not in known
            and number not in reached
            and (
                any(one in start or one in reached for one in earlier.get(number, ()))
                or not (start or number in earlier)
            )
        }
        if not new:
            break
        reached |= new
    return [number for kind, number, _ in after[0] if number in reached and kind in ("kernel", "memcpy")]


@contextmanager
def mark_kernels(annotation: str | dict[str, Any]) -> Iterator[None]:
    """Names the kernels and copies that are recorded in a ``with`` block. Outside of records it has no effect.

    Args:
        annotation: the name, or a dictionary of what profilers shall show.
    """
    before = None
    if _names.enabled and _C._cuda_is_initialized() and _C._cuda_numbers_nodes():
        before = _C._cuda_captured_nodes()
    yield
    after = None if before is None else _C._cuda_captured_nodes()
    if after is not None:
        numbers = _reached(before, after)
        if numbers:
            _names.pending.append(({"str": annotation} if isinstance(annotation, str) else annotation, numbers))


@contextmanager
def mark_stream(stream: Stream, annotation: str | dict[str, Any]) -> Iterator[None]:
    """Makes a stream the current one of a ``with`` block, and names what it records. The name gets a number of the stream."""
    other = stream.cuda_stream != current_stream().cuda_stream
    if _names.enabled and other:
        named = {"str": annotation} if isinstance(annotation, str) else annotation
        annotation = {**named, "stream": _stream_number(stream.cuda_stream)}
    with mark_kernels(annotation), StreamContext(stream):
        yield


def _stream_number(key: int | str) -> int:
    return _names.streams.setdefault(key, _FIRST_STREAM + len(_names.streams))


def get_stream_for_pg(pg_key: str) -> int:
    """The number of a process group among those of streams."""
    return _stream_number(pg_key)


def resolve_pending_annotations() -> None:
    """Joins the names of each piece of work. `torch.cuda.graph` calls it before the end of a record."""
    joined: dict[int, list[Any]] = {}
    for annotation, numbers in _names.pending:
        for number in numbers:
            joined.setdefault(number, []).append(annotation)
    _names.pending.clear()
    for number, named in joined.items():
        _names.graph = number >> 32
        merged: dict[str, Any] = {}
        for annotation in named:
            for key, value in annotation.items():
                merged.setdefault(key, value)
        _names.kept.setdefault(number, []).append(merged)


def remap_to_exec_graph(torch_cuda_graph: CUDAGraph) -> None:
    """Renames the pieces of the last record as tools know them when they run. `torch.cuda.graph` calls it after a record.

    Raises:
        RuntimeError: a graph that was made with ``keep_graph`` was not instantiated.
    """
    if not _names.kept:
        return
    torch_cuda_graph.raw_cuda_graph_exec()
    found = torch_cuda_graph._graph.nodes()
    ready = None if found is None else found[1]
    if ready is None:
        return
    renamed: dict[int, list[Any]] = {}
    for number, named in _names.kept.items():
        own = number >> 32 == _names.graph
        renamed.setdefault(ready << 32 | number & 0xFFFFFFFF if own else number, []).extend(named)
    _names.kept = renamed


def get_kernel_annotations() -> dict[int, list[Any]]:
    """The names by the numbers of the pieces of work.

    >>> torch.cuda._graph_annotations.get_kernel_annotations()
    {}
    """
    return _names.kept


def clear_kernel_annotations() -> None:
    """Forgets all names.

    >>> torch.cuda._graph_annotations.clear_kernel_annotations()
    """
    _names.kept.clear()
    _names.pending.clear()

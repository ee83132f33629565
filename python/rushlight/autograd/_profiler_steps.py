"""Small classes of `torch.autograd.profiler` for programs that count steps or read traces."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

__all__ = [
    "EnforceUnique",
    "KinetoStepTracker",
    "MemRecordsAcc",
    *declare(globals(), "traces of NVIDIA's profiler are not read", "load_nvprof parse_nvprof_trace"),
]


class EnforceUnique:
    """Raises an error for a key that was seen before.

    Raises:
        RuntimeError: in `see`, the key is not new.

    >>> unique = torch.autograd.profiler.EnforceUnique()
    >>> unique.see("step", 1)
    """

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


class KinetoStepTracker:
    """Counts steps of several requesters; the current step is the largest count.

    >>> tracker = torch.autograd.profiler.KinetoStepTracker
    >>> tracker.init_step_count("loop")
    >>> tracker.increment_step("loop") == tracker.current_step()
    True
    >>> tracker.erase_step_count("loop")
    True
    """

    _current_step = 0
    _step_dict: dict[str, int] = {}

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Begins to count for a requester, at the current step."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Stops counting for a requester, and returns whether it was counted for."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Counts a step of a requester, and returns the current step."""
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        cls._current_step = max(cls._current_step, *cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        return cls._current_step


class MemRecordsAcc:
    """Records with a start (``record[0].start_ns()``), found by time.

    >>> list(torch.autograd.profiler.MemRecordsAcc([]).in_interval(0, 10))
    []
    """

    def __init__(self, mem_records: Sequence[Any]) -> None:
        self._mem_records = mem_records
        pairs = sorted((record[0].start_ns(), place) for place, record in enumerate(mem_records))
        self._starts, self._places = [start for start, _ in pairs], [place for _, place in pairs]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """Yields the records that start in an interval."""
        for place in self._places[bisect_left(self._starts, start_ns) : bisect_right(self._starts, end_ns)]:
            yield self._mem_records[place]


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__

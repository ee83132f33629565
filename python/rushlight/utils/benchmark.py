"""`torch.utils.benchmark`: measures the time of statements, with as many repetitions as necessary."""

from __future__ import annotations

import statistics
import textwrap
import timeit
from dataclasses import dataclass, field
from typing import Any

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Measurement", "TaskSpec", "Timer", "timer"]

timer = timeit.default_timer

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


@dataclass(frozen=True)
class TaskSpec:
    """The description of a measurement: the statements, their labels, and the number of threads.

    >>> torch.utils.benchmark.TaskSpec(stmt="x + 1", setup="", label="add").title
    'add'
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The labels, or the statement itself if it has one line."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return (f"stmt:{' ' + self.sub_label if self.sub_label else ''}\n{textwrap.indent(self.stmt, '  ')}").rstrip()


@dataclass
class Measurement:
    """The times of one statement, each for ``number_per_run`` consecutive calls.

    >>> task = torch.utils.benchmark.TaskSpec(stmt="x + 1", setup="")
    >>> torch.utils.benchmark.Measurement(2, [4e-6, 6e-6, 8e-6], task).median
    3e-06
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    @property
    def times(self) -> list[float]:
        """The seconds per call, for each run."""
        return [seconds / self.number_per_run for seconds in self.raw_times]

    @property
    def median(self) -> float:
        """The median of the times."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The interquartile range of the times."""
        times = self.times
        if len(times) < 2:
            return 0.0
        quarters = statistics.quantiles(times, n=4, method="inclusive")
        return quarters[2] - quarters[0]

    @property
    def title(self) -> str:
        """See `TaskSpec`."""
        return self.task_spec.title

    @property
    def stmt(self) -> str:
        """The statement."""
        return self.task_spec.stmt

    @property
    def setup(self) -> str:
        """The set-up statement."""
        return self.task_spec.setup

    @property
    def num_threads(self) -> int:
        """The number of threads."""
        return self.task_spec.num_threads

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Merges the measurements of each task. All times are per call."""
        times: dict[TaskSpec, list[float]] = {}
        for one in measurements:
            times.setdefault(one.task_spec, []).extend(one.times)
        return [Measurement(1, all_times, task) for task, all_times in times.items()]

    def __repr__(self) -> str:
        scale, unit = next((pair for pair in _UNITS if self.median >= pair[0]), _UNITS[-1])
        lines = [f"<torch.utils.benchmark.utils.common.Measurement object at {hex(id(self))}>", self.title]
        if self.task_spec.description:
            lines.append(self.task_spec.description)
        if self.setup:
            inside = f"\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f" {self.setup}"
            lines.append(f"setup:{inside}")
        runs = len(self.raw_times)
        lines.append(f"  {'Median: ' if runs > 1 else ''}{self.median / scale:.2f} {unit}")
        if runs > 1:
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit}")
        calls = f"{runs} measurement{'s'[: runs != 1]}, {self.number_per_run} run{'s'[: self.number_per_run != 1]} per measurement"
        lines.append(f"  {calls}, {self.num_threads} thread{'s'[: self.num_threads != 1]}")
        return "\n".join(lines)


class Timer:
    """Measures a statement with a given number of threads.

    Args:
        stmt: the statement; it may have several lines.
        setup: a statement that runs once before each measurement.
        global_setup: for other languages; must be empty.
        timer: a function that returns the time in seconds.
        globals: the namespace of the statements; ``torch`` is always available.
        label, sub_label, description, env: labels of the measurement.
        num_threads: the number of threads of operators.
        language: must be Python.

    >>> timer = torch.utils.benchmark.Timer("x.sum()", globals={"x": torch.ones(100)})
    >>> timer.timeit(10).number_per_run
    10
    >>> timer.blocked_autorange(min_run_time=0.01).median < 1
    True
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "py",
    ) -> None:
        if str(language).lower() not in ("py", "python", "language.python"):
            raise ValueError(f"Only Python statements are supported, not {language!r}")
        if global_setup:
            raise ValueError("global_setup is for C++; use setup for Python statements")
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        stmt, setup = (textwrap.dedent(text).strip() for text in (stmt, setup))
        known = {"torch": torch, **(globals or {})}
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=known)
        shown = "" if setup == "pass" else setup
        self._task_spec = TaskSpec(stmt, shown, "", label, sub_label, description, env, num_threads)

    def _seconds(self, number: int) -> float:
        before = torch.get_num_threads()
        torch.set_num_threads(self._task_spec.num_threads)
        try:
            # The resolution of a clock may be longer than a call.
            return max(self._timer.timeit(number), 1e-9)
        finally:
            torch.set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One run of ``number`` calls, after a warm-up that is not counted."""
        self._seconds(max(number // 100, 2))
        return Measurement(number, [self._seconds(number)], self._task_spec)

    def _number_for_a_block(self, min_run_time: float) -> int:
        """The number of calls per run for which the time of reading the clock is negligible."""
        overhead = statistics.median(self._seconds(0) for _ in range(5))
        number = 1
        while True:
            seconds = self._seconds(number)
            if (seconds >= min_run_time / 1000 and overhead / seconds <= 1e-4) or seconds > min_run_time:
                return number
            number *= 10

    def _runs(self, number: int, min_run_time: float, callback: Callable[[int, float], Any] | None) -> list[float]:
        runs: list[float] = []
        while sum(runs) < min_run_time or not runs:
            runs.append(self._seconds(number))
            if callback is not None:
                callback(number, runs[-1])
        return runs

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Repeats runs until they have taken ``min_run_time`` seconds. Runs are long compared with reading the clock.

        Args:
            callback: a function that is called after each run with its number of calls and its seconds.
            min_run_time: the total time of all runs in seconds.
        """
        number = self._number_for_a_block(min_run_time)
        return Measurement(number, self._runs(number, min_run_time, callback), self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Repeats runs until their interquartile range is below ``threshold * median``, or for ``max_run_time`` seconds."""
        number = self._number_for_a_block(0.05)
        runs: list[float] = []
        while True:
            runs += self._runs(number, min_run_time, callback)
            found = Measurement(number, runs, self._task_spec)
            if (len(runs) > 3 and found.iqr <= threshold * found.median) or sum(runs) >= max_run_time:
                return found


def __dir__() -> list[str]:
    return __all__

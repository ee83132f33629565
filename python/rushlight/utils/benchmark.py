"""`torch.utils.benchmark`: measures the time of statements, with as many repetitions as necessary."""

from __future__ import annotations

import enum
import math
import statistics
import textwrap
import timeit
from dataclasses import dataclass, field
from typing import Any

import rushlight as torch
from rushlight._set_module import set_public_module
from rushlight._unsupported import declare

from . import _benchmark_counts, _benchmark_fuzzer
from ._benchmark_compare import (
    Colorize,
    Compare,
    ordered_unique,
    select_unit,
    set_torch_threads,
    trim_sigfig,
    unit_to_english,
)
from ._benchmark_counts import *  # noqa: F403
from ._benchmark_fuzzer import *  # noqa: F403

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

__all__ = [
    "Colorize",
    "Compare",
    "Language",
    "Measurement",
    "TaskSpec",
    "Timer",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "timer",
    "trim_sigfig",
    "unit_to_english",
    *_benchmark_counts.__all__,
    *_benchmark_fuzzer.__all__,
    *declare(globals(), "programs do not run under Valgrind", "class CallgrindStats"),
]

set_public_module(globals())

timer = timeit.default_timer

#: The interquartile range, as a part of the median, from which on a measurement is doubtful; and very much so.
_WARN_ABOVE, _STRONGLY_ABOVE = 0.1, 0.25
#: The error of a measurement that repetitions do not reduce, in seconds.
_LEAST_ERROR = 25e-9
_MAX_FIGURES = 4


class Language(enum.Enum):
    """The language of statements. `Timer` measures Python.

    >>> torch.utils.benchmark.Language.PYTHON.value
    0
    """

    PYTHON = 0
    CPP = 1


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
        return self._quartile(2) - self._quartile(0)

    def _quartile(self, place: int) -> float:
        times = self.times
        return times[0] if len(times) < 2 else statistics.quantiles(times, n=4, method="inclusive")[place]

    @property
    def significant_figures(self) -> int:
        """The number of digits of the median that the times justify, from 1 to 4."""
        times = sorted(self.times)
        middle = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        error = max(1.645 * statistics.pstdev(middle) / math.sqrt(len(times)), _LEAST_ERROR)
        return max(1, min(math.floor(math.log10(self.median / error)), _MAX_FIGURES))

    def meets_confidence(self, threshold: float = _WARN_ABOVE) -> bool:
        """Whether the interquartile range is below a part of the median."""
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        """Whether the times vary much."""
        return not self.meets_confidence()

    @property
    def as_row_name(self) -> str:
        """The name of the row in a table."""
        return self.task_spec.sub_label or self.stmt or "[Unknown]"

    @property
    def label(self) -> str | None:
        """The label."""
        return self.task_spec.label

    @property
    def sub_label(self) -> str | None:
        """The second label."""
        return self.task_spec.sub_label

    @property
    def description(self) -> str | None:
        """The description."""
        return self.task_spec.description

    @property
    def env(self) -> str | None:
        """The environment."""
        return self.task_spec.env

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
        unit, scale = select_unit(self.median)
        lines = [f"<torch.utils.benchmark.utils.common.Measurement object at {hex(id(self))}>", self.title]
        if self.task_spec.description:
            lines.append(self.task_spec.description)
        if self.setup:
            inside = f"\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f" {self.setup}"
            lines.append(f"setup:{inside}")
        runs = len(self.raw_times)
        lines.append(f"  {'Median: ' if runs > 1 else ''}{self.median / scale:.2f} {unit}")
        if runs > 3:
            low, high = (self._quartile(place) / scale for place in (0, 2))
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        each = " per measurement" if runs > 1 else " "
        calls = (
            f"{runs} measurement{'s'[: runs != 1]}, {self.number_per_run} run{'s'[: self.number_per_run != 1]}{each}"
        )
        lines.append(f"  {calls}, {self.num_threads} thread{'s'[: self.num_threads != 1]}")
        if self.has_warnings:
            strongly = not self.meets_confidence(_STRONGLY_ABOVE)
            cause = "suggests significant environmental influence" if strongly else "could indicate system fluctuation"
            lines.append(f"  WARNING: Interquartile range is {self.iqr / self.median:.1%} of the median measurement.")
            lines.append(f"           This {cause}.")
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
        language: Any = Language.PYTHON,
    ) -> None:
        if language is not Language.PYTHON and str(language).lower() not in ("py", "python"):
            if language is Language.CPP or str(language).lower() in ("cpp", "c++"):
                raise ValueError(f"Only Python statements are supported, not {language!r}")
            raise ValueError(f"Invalid language `{language}`.")
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
        with set_torch_threads(self._task_spec.num_threads):
            # The resolution of a clock may be longer than a call.
            return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One run of ``number`` calls, after a warm-up that is not counted."""
        self._seconds(max(number // 100, 2))
        return Measurement(number, [self._seconds(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """Refuses every call, as in torch: `blocked_autorange` repeats runs.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> NoReturn:
        """Refuses every call, as in torch, in favour of `blocked_autorange`.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("See `Timer.blocked_autorange.`")

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

"""Tables of measurements: rows are statements, columns are descriptions."""

from __future__ import annotations

import contextlib
import enum
import math
from collections import defaultdict

import rushlight as torch
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .benchmark import Measurement

_UNITS = ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1, "s"))
_WORDS = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which to show a number of seconds, and its length in seconds.

    >>> torch.utils.benchmark.select_unit(5e-3)
    ('ms', 0.001)
    """
    unit, name = next((pair for pair in reversed(_UNITS) if t >= pair[0]), _UNITS[0])
    return name, unit


def unit_to_english(u: str) -> str:
    """The word for a unit of time.

    >>> torch.utils.benchmark.unit_to_english("us")
    'microsecond'
    """
    return _WORDS[u]


def trim_sigfig(x: float, n: int) -> float:
    """A number with ``n`` significant digits.

    >>> torch.utils.benchmark.trim_sigfig(1234.5, 3)
    1230.0
    """
    if x == 0:
        return x
    digits = n - math.ceil(math.log10(abs(x)))
    return float(round(x, digits))


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The elements without repetitions, in their order.

    >>> torch.utils.benchmark.ordered_unique([3, 1, 3])
    [3, 1]
    """
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Sets the number of threads of operators for a block.

    >>> with torch.utils.benchmark.set_torch_threads(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Colorize(enum.Enum):
    """How `Compare` colours times: not, by comparison within a column, or within a row.

    >>> torch.utils.benchmark.Colorize.NONE.value
    'none'
    """

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


_BOLD, _DIM, _END = "\033[1m", "\033[2m", "\033[0m"
_BEST, _GOOD, _BAD, _VERY_BAD = "\033[92m", "\033[34m", "\033[91m", "\033[31m"


def _coloured(text: str, value: float, best: float) -> str:
    if value <= best * 1.01 or value <= best + 100e-9:
        codes = _BEST + _BOLD
    elif value <= best * 1.1:
        codes = _GOOD + _BOLD
    elif value >= best * 5:
        codes = _VERY_BAD + _BOLD
    elif value >= best * 2:
        codes = _DIM + _BAD
    else:
        return text
    return codes + text + _END + _END


class Compare:
    """Shows measurements side by side, in a table for each label.

    A row is a sub-label (or a statement), a number of threads and an environment, a column is a description.

    Args:
        results: the measurements. Those of one task are merged.

    >>> from rushlight.utils.benchmark import Compare, Measurement, TaskSpec
    >>> times = {"a": 1e-6, "b": 2.5e-6}
    >>> tasks = {name: TaskSpec(stmt="x + y", setup="", label="add", description=name) for name in times}
    >>> table = Compare([Measurement(1, [times[name]], tasks[name]) for name in times])
    >>> str(table).splitlines()[3].strip()
    'x + y  |  1.0  |  2.5'
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim = self._highlight = False
        self._colorize = Colorize.NONE

    def __str__(self) -> str:
        from .benchmark import Measurement

        groups = defaultdict(list)
        for result in Measurement.merge(self._results):
            groups[result.task_spec.label].append(result)
        return "\n".join(self._table(label or "", results) for label, results in groups.items())

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements.

        Raises:
            ValueError: one of them is something else.
        """
        from .benchmark import Measurement

        found = list(results)
        for result in found:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
        self._results.extend(found)

    def trim_significant_figures(self) -> None:
        """Shows only the digits that the measurements justify."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colours times by comparison with the best one of the column, or of the row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Marks measurements that vary much."""
        self._highlight = True

    def print(self) -> None:
        """Prints the tables."""
        print(str(self))

    def _table(self, label: str, results: list[Measurement]) -> str:
        unit, scale = select_unit(min(result.median for result in results))
        cells = {(_row(result), result.task_spec.description): result for result in results}
        # The sort is stable: statements keep their order.
        rows = sorted(ordered_unique(row for row, _ in cells), key=lambda row: row[:2])
        columns = ordered_unique(column for _, column in cells)
        texts = [self._column([cells.get((row, column)) for row in rows], scale) for column in columns]
        heads = _row_heads(rows)
        widths = [max(map(len, heads)), *(max(len(column or ""), *map(len, of)) for column, of in zip(columns, texts))]
        lines = [" " * widths[0], *((column or "").center(width) for column, width in zip(columns, widths[1:]))]
        heading = "  |  ".join(lines)
        overall = len(heading)
        shown, threads = [f"[{f' {label} '.center(overall - 2, '-')}]", heading], 0
        # Times with different numbers of threads are not compared.
        best_of_column: dict[tuple[int, str | None], float] = {}
        for (row, column), result in cells.items():
            best_of_column[row[0], column] = min(best_of_column.get((row[0], column), math.inf), result.median)
        for place, row in enumerate(rows):
            if row[0] != threads:
                threads = row[0]
                shown.append(f"{threads} threads: ".ljust(overall, "-"))
            of_row = [cells.get((row, column)) for column in columns]
            best_of_row = min(one.median for one in of_row if one)
            parts = [heads[place].ljust(widths[0])]
            for index, one in enumerate(of_row):
                text = texts[index][place].center(widths[index + 1])
                if one is not None and self._colorize is not Colorize.NONE:
                    rowwise = self._colorize is Colorize.ROWWISE
                    text = _coloured(
                        text, one.median, best_of_row if rowwise else best_of_column[threads, columns[index]]
                    )
                parts.append(text)
            shown.append("  |  ".join(parts))
        shown += ["", f"Times are in {unit_to_english(unit)}s ({unit}).", ""]
        if self._highlight and any(result.has_warnings for result in results):
            shown[-1:] = ["(! XX%) Measurement has high variance, where XX is the IQR / median * 100.", ""]
        return "\n".join(shown)

    def _column(self, results: list[Measurement | None], scale: float) -> list[str]:
        """The texts of a column, all of one width."""
        found = [result for result in results if result is not None]
        digits = [math.ceil(math.log10(result.median / scale)) for result in found]
        decimals = 1
        if self._trim:
            decimals = min(max(result.significant_figures - count, 0) for result, count in zip(found, digits))
        width = max(*digits, 1) + decimals + (1 if decimals else 0)
        marks = [
            f" (! {result.iqr / result.median:.0%})" if self._highlight and result and result.has_warnings else ""
            for result in results
        ]
        room = max(map(len, marks))
        texts = []
        for result, mark in zip(results, marks):
            if result is None:
                texts.append(" " * (width + room))
                continue
            value = result.median / scale
            if self._trim:
                value = trim_sigfig(value, result.significant_figures)
            texts.append(f"{value:>{width}.{decimals}f}{mark:>{room}}")
        return texts


def _row(result: Measurement) -> tuple[int, str, str]:
    return result.num_threads, result.task_spec.env or "", result.as_row_name


def _row_heads(rows: list[tuple[int, str, str]]) -> list[str]:
    """The texts of the first column: the environment, if there are several, where it changes, and the name."""
    several = len({env for _, env, _ in rows}) > 1
    width = 4 + max(len(env) for _, env, _ in rows) if several else 4
    heads, before = [], None
    for _, env, name in rows:
        shown = f"({env})" if several and env != before else ""
        heads.append(f"  {shown.ljust(width)}{name}")
        before = env
    return heads


set_module(
    "rushlight.utils.benchmark",
    *(Colorize, Compare, ordered_unique, select_unit, set_torch_threads, trim_sigfig, unit_to_english),
)

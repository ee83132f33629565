"""Numbers of instructions by function (`torch.utils.benchmark.FunctionCounts`), as programs under Valgrind report them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["CopyIfCallgrind", "FunctionCount", "FunctionCounts"]

#: How many functions the text shows.
_SHOWN = 18


class FunctionCount(NamedTuple):
    """A number of instructions and the function in which they ran.

    >>> torch.utils.benchmark.FunctionCount(10, "file.c:f")
    FunctionCount(count=10, function='file.c:f')
    """

    count: int  # type: ignore[assignment] # torch's name, in place of the method
    function: str


@dataclass(repr=False, eq=False, frozen=True)
class FunctionCounts:
    """Numbers of instructions by function. Sums and differences merge the functions of two.

    >>> counts = FunctionCounts((FunctionCount(10, "f"), FunctionCount(3, "g")), inclusive=False)
    >>> (counts - counts.filter(lambda name: name == "g")).sum()
    10
    """

    _data: tuple[FunctionCount, ...]
    inclusive: bool
    truncate_rows: bool = True
    _linewidth: int | None = None

    def __iter__(self) -> Iterator[FunctionCount]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, item: Any) -> FunctionCount | FunctionCounts:
        taken = self._data[item]
        return taken if isinstance(taken, FunctionCount) else FunctionCounts(taken, self.inclusive, truncate_rows=False)

    def __repr__(self) -> str:
        signed = any(count < 0 for count, _ in self)
        width = 2 + signed + max((len(str(abs(count))) for count, _ in self), default=0)
        lines = [f"{count:>{width}}  {function}" for count, function in self]
        if self.truncate_rows and len(lines) > _SHOWN:
            half = _SHOWN // 2
            lines[half:-half] = ["...".rjust(width + 2)]
        if not self.inclusive:
            lines += ["", f"Total: {self.sum()}"]
        return "\n".join([object.__repr__(self), *lines])

    def __add__(self, other: FunctionCounts) -> FunctionCounts:
        return self._merge(other, lambda count: count)

    def __sub__(self, other: FunctionCounts) -> FunctionCounts:
        return self._merge(other, lambda count: -count)

    def __mul__(self, other: float) -> FunctionCounts:
        return self._from({function: int(count * other) for count, function in self}.items())

    def transform(self, map_fn: Callable[[str], str]) -> FunctionCounts:
        """Renames the functions, and adds the counts of those that get one name."""
        counts: defaultdict[str, int] = defaultdict(int)
        for count, function in self:
            counts[map_fn(function)] += count
        return self._from(counts.items())

    def filter(self, filter_fn: Callable[[str], bool]) -> FunctionCounts:
        """Those functions for whose names ``filter_fn`` is true."""
        return FunctionCounts(tuple(part for part in self if filter_fn(part.function)), self.inclusive)

    def sum(self) -> int:
        """The number of all instructions."""
        return sum(count for count, _ in self)

    def denoise(self) -> FunctionCounts:
        """Without the lookups in dictionaries, whose number differs from run to run."""
        return self.filter(lambda function: "dictobject.c:lookdict_unicode" not in function)

    def _merge(self, other: FunctionCounts, sign: Callable[[int], int]) -> FunctionCounts:
        if self.inclusive != other.inclusive:
            raise AssertionError("Cannot merge inclusive and exclusive counts.")
        counts: defaultdict[str, int] = defaultdict(int)
        for count, function in self:
            counts[function] += count
        for count, function in other:
            counts[function] += sign(count)
        return self._from(counts.items())

    def _from(self, counts: Iterable[tuple[str, int]]) -> FunctionCounts:
        found = (FunctionCount(count, function) for function, count in counts if count)
        return FunctionCounts(tuple(sorted(found, reverse=True)), self.inclusive)


class CopyIfCallgrind:
    """A value of a statement's globals that a run under Valgrind may copy.

    >>> torch.utils.benchmark.CopyIfCallgrind(3).value
    3
    """

    def __init__(self, value: Any, *, setup: str | None = None) -> None:
        self._value, self._setup = value, setup

    @property
    def value(self) -> Any:
        return self._value

    @property
    def setup(self) -> str | None:
        return self._setup

    @staticmethod
    def unwrap_all(globals: dict[str, Any]) -> dict[str, Any]:
        """A dictionary with the values in place of their wrappers."""
        return {name: value.value if isinstance(value, CopyIfCallgrind) else value for name, value in globals.items()}

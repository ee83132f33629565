"""`torch.testing.FileCheck`: checks what a text contains, and in which order."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn, Self

_COMMENT = re.compile(r"#\s*CHECK(?:-([A-Z-]*?[A-Z])(?:-(\d+))?)?:(.*)")
_KINDS = (None, "SAME", "NEXT", "NOT", "DAG", "COUNT", "COUNT-EXACTLY", "REGEX", "SOURCE-HIGHLIGHTED")


class _Check:
    """One expectation: the word after ``CHECK-``, the text to look for, and how often."""

    def __init__(self, kind: str | None, text: str, count: int = 1) -> None:
        self.kind, self.text, self.count = kind, text, count

    def __str__(self) -> str:
        name = "-".join(filter(None, ["CHECK", self.kind]))
        return f"{name}-{self.count}: {self.text}" if name.startswith("CHECK-COUNT") else f"{name}: {self.text}"


class FileCheck:
    """Checks a text: each check looks behind the place where the one before it ended.

    The checks may also be comments of another text, ``# CHECK: word`` or ``# CHECK-NEXT: word`` for example.

    Raises:
        TypeError: something given is not a string.
        RuntimeError: in `run`, a check does not hold, or there is none.

    >>> torch.testing.FileCheck().check("one").check_next("two").check_not("three").run("one\\ntwo\\n")
    """

    def __init__(self) -> None:
        self._checks: list[_Check] = []
        self._has_run = False

    def __str__(self) -> str:
        return "\n".join(["FileCheck checks:", *(f"\t{check}" for check in self._checks)])

    def __del__(self) -> None:
        if not self._has_run:
            print(f"You have not run this instance of FileCheck!\n{self}")

    def _add(self, kind: str | None, text: str, count: int = 1) -> Self:
        if not isinstance(text, str):
            raise TypeError(f"a check is a string, not {type(text).__name__}")
        if count < 0:
            raise TypeError(f"check_count(): the count is not negative, but here it is {count}")
        if kind == "COUNT" and count == 0:
            raise RuntimeError("Count == 0 && !exactly doesn't do anything")
        self._checks.append(_Check(kind, text, count))
        if kind == "COUNT-EXACTLY":
            self._checks.append(_Check("NOT", text))
        return self

    def check(self, text: str) -> Self:
        """The text occurs."""
        return self._add(None, text)

    def check_same(self, text: str) -> Self:
        """The text occurs in the line where the check before ended."""
        return self._add("SAME", text)

    def check_next(self, text: str) -> Self:
        """The text occurs in the line after that."""
        return self._add("NEXT", text)

    def check_not(self, text: str) -> Self:
        """The text does not occur before that of the next check, or the end."""
        return self._add("NOT", text)

    def check_dag(self, text: str) -> Self:
        """The text occurs; neighbouring checks of this kind hold in any order."""
        return self._add("DAG", text)

    def check_count(self, str: str, count: int, exactly: bool = False) -> Self:
        """The text occurs ``count`` times, and not more often if it is ``exactly`` so."""
        return self._add("COUNT-EXACTLY" if exactly else "COUNT", str, count)

    def check_regex(self, text: str) -> Self:
        """A regular expression matches."""
        return self._add("REGEX", text)

    def check_source_highlighted(self, text: str) -> Self:
        """The text occurs, and the line below has ``~`` under each of its characters."""
        return self._add("SOURCE-HIGHLIGHTED", text)

    def run(self, checks_file: str, test_file: str | None = None) -> None:
        """Checks a text, or with two texts the second one against the comments of the first one."""
        for given in (checks_file, test_file):
            if not isinstance(given, str) and (given is not None or given is checks_file):
                raise TypeError(f"run(): a text is a string, not {type(given).__name__}")
        self._has_run = True
        text = checks_file
        if test_file is not None:
            text = test_file
            for kind, count, told in _COMMENT.findall(checks_file):
                if (kind or None) not in _KINDS:
                    raise RuntimeError(f"Could not parse check at:\nCHECK-{kind}: {told}\nCheck for bad input.")
                self._add(kind or None, told.strip(), int(count or 1))
        if not self._checks:
            raise RuntimeError("No checks have been added to this instance ofFilecheck! Check for bad input.")
        place = 0
        absent: list[_Check] = []
        for group in self._groups():
            if group[0].kind == "NOT":
                absent = group
                continue
            start, end = self._found(text, group, place)
            self._refuse(text, absent, place, start)
            absent, place = [], end
        self._refuse(text, absent, place, len(text))

    def _groups(self) -> Iterator[list[_Check]]:
        """Neighbouring checks of the kinds DAG and NOT are considered together."""
        group: list[_Check] = []
        for check in self._checks:
            if group and not (check.kind == group[-1].kind and check.kind in ("DAG", "NOT")):
                yield group
                group = []
            group.append(check)
        yield group

    def _found(self, text: str, group: list[_Check], place: int) -> tuple[int, int]:
        """Where the texts of checks begin and end."""
        check = group[0]
        if check.kind == "DAG":
            places = [self._find(text, each, place) for each in group]
            return min(start for start, _ in places), max(end for _, end in places)
        start, end = self._find(text, check, place) if check.count else (place, place)
        for _ in range(check.count - 1):
            _, end = self._find(text, check, end)
        lines = text.count("\n", place, start)
        if lines > {"SAME": 0, "NEXT": 1}.get(check.kind or "", lines):
            self._fail(f'Expected to not find "\\n" but found it\n{text}', check)
        if check.kind == "NEXT" and not lines:
            self._fail(f'Expected to find "\\n" but did not find it\nSearched string:\n{text}', check)
        if check.kind == "SOURCE-HIGHLIGHTED":
            end = self._highlighted(text, check, start)
        return start, end

    def _highlighted(self, text: str, check: _Check, start: int) -> int:
        column = start - (text.rfind("\n", 0, start) + 1)
        line = text.find("\n", start)
        below = text[line + 1 :].split("\n", 1)[0] if line >= 0 else ""
        if below[column : column + len(check.text)] != "~" * len(check.text):
            raise RuntimeError(f'Expected to find "{check.text}"highlighted but it is not.\n{text}')
        return line + 1 + column + len(check.text)

    def _find(self, text: str, check: _Check, place: int) -> tuple[int, int]:
        if check.kind == "REGEX":
            try:
                match = re.compile(check.text).search(text, place)
            except re.error as error:
                raise RuntimeError(f"{check.text!r} is no regular expression: {error}") from None
            if match is not None:
                return match.span()
        elif (start := text.find(check.text, place)) >= 0:
            return start, start + len(check.text)
        kind = "regex " if check.kind == "REGEX" else ""
        self._fail(f'Expected to find {kind}"{check.text}" but did not find it\nSearched string:\n{text}', check)

    def _refuse(self, text: str, absent: list[_Check], start: int, end: int) -> None:
        for check in absent:
            if text.find(check.text, start, end) >= 0:
                self._fail(f'Expected to not find "{check.text}" but found it\n{text}', check)

    @staticmethod
    def _fail(told: str, check: _Check) -> NoReturn:
        raise RuntimeError(f"{told}\nFrom {check}\n")

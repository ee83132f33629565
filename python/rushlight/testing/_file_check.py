"""`torch.testing.FileCheck`: checks what a text contains, and in which order."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn, Self

_COMMENT = re.compile(r"#\s*CHECK(?:-([A-Z-]*?[A-Z])(?:-(\d+))?)?:(.*)")
_KINDS = (None, "SAME", "NEXT", "NOT", "DAG", "COUNT", "COUNT-EXACTLY", "REGEX", "SOURCE-HIGHLIGHTED")


#: How many ends of lines an excerpt has on either side.
_CONTEXT = 3


def _excerpt(text: str, start: int, end: int) -> str:
    """The lines around a part of a text, with a mark under the part, as torch prints them."""
    if end - start == len(text):
        return text
    end = min(end, len(text))
    first = text.rfind("\n", 0, start) + 1
    for _ in range(_CONTEXT - 1):
        first = text.rfind("\n", 0, max(first - 1, 0)) + 1
    last = end - 1
    for _ in range(_CONTEXT):
        last = text.find("\n", last + 1) if last < len(text) else last
        last = len(text) if last < 0 else last
    shown, place = text[first:start], start
    while place < end:
        line_end = text.find("\n", place)
        line_end = len(text) if line_end < 0 else line_end
        shown += text[place:line_end] + "\n" + _mark(text, start, place, min(end, line_end), end)
        place = line_end + 1
    rest = text[place:last]
    return shown + rest + ("\n" if rest and not rest.endswith("\n") else "")


def _mark(text: str, start: int, place: int, stop: int, end: int) -> str:
    """The line below one that has a part of the excerpt's subject."""
    begin = text.rfind("\n", 0, place) + 1
    blank = next((at for at in range(begin, stop) if at >= start and text[at] != " "), stop)
    if blank == stop:
        return ""
    return " " * (blank - begin) + "~" * (stop - blank) + (" <--- HERE" if stop == end else "") + "\n"


def _quoted(word: str) -> str:
    """A text in quotes, with marks for what does not print."""
    shown = (
        word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    )
    return f'"{shown}"'


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
            for kind, count, pattern in _COMMENT.findall(checks_file):
                if (kind or None) not in _KINDS:
                    raise RuntimeError(f"Could not parse check at:\nCHECK-{kind}: {pattern}\nCheck for bad input.")
                self._add(kind or None, pattern.strip(), int(count or 1))
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
        if check.kind == "SOURCE-HIGHLIGHTED":
            return self._highlighted(text, check, place)
        if check.kind == "NEXT":
            end_of_line = text.find("\n", place)
            if end_of_line < 0:
                self._not_found(text, "\n", check, place)
            place = end_of_line + 1
        start, end = self._find(text, check, place) if check.count else (place, place)
        for _ in range(check.count - 1):
            _, end = self._find(text, check, end)
        if check.kind in ("SAME", "NEXT"):
            self._refuse_text(text, "\n", check, place, start)
        return start, end

    def _highlighted(self, text: str, check: _Check, place: int) -> tuple[int, int]:
        start = text.find(check.text, place)
        if start < 0:
            self._not_found(text, check.text, check, place)
        mark, failed = "~" * len(check.text), place
        while start >= 0:
            line = text.find("\n", start)
            below = len(text) if line < 0 else line + 1 + start - (text.rfind("\n", 0, start) + 1)
            if text.startswith(mark, below):
                return start, below + len(mark)
            if below + len(mark) > len(text):
                failed = start
                break
            start = text.find(check.text, start + 1)
        excerpt = _excerpt(text, failed, len(check.text))
        raise RuntimeError(f"Expected to find {_quoted(check.text)}highlighted but it is not.\n{excerpt}")

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
        self._not_found(text, check.text, check, place)

    def _not_found(self, text: str, word: str, check: _Check, place: int) -> NoReturn:
        # torch counts the end of the excerpt's subject from the beginning of the text.
        is_regex = check.kind == "REGEX"
        kind, excerpt = ("regex ", "") if is_regex else ("", _excerpt(text, place, len(word)))
        self._fail(f"Expected to find {kind}{_quoted(word)} but did not find it\nSearched string:\n{excerpt}", check)

    def _refuse(self, text: str, absent: list[_Check], start: int, end: int) -> None:
        for check in absent:
            self._refuse_text(text, check.text, check, start, end)

    def _refuse_text(self, text: str, word: str, check: _Check, start: int, end: int) -> None:
        found = text.find(word, start, end)
        if found >= 0:
            excerpt = _excerpt(text, found, found + len(word))
            self._fail(f"Expected to not find {_quoted(word)} but found it\n{excerpt}", check)

    @staticmethod
    def _fail(sentence: str, check: _Check) -> NoReturn:
        raise RuntimeError(f"{sentence}From {check}\n")
